"""Configuration files of a node's programs. Standard library only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cluster.bench import layout
from tests.cluster.bench.layout import Layout

CNI_PLUGINS = "/usr/lib/cni"  # where Debian puts them
PAUSE_IMAGE = "registry.k8s.io/pause:3.10"


def containerd_toml(cni_config: Path, runc: str) -> str:
    """containerd's configuration, version 2, which releases 1.6 to 2 read."""
    return f"""\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # a nested control group may lack these
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  disable_apparmor = true
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{cni_config}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        BinaryName = "{runc}"
"""


def cni(node: dict[str, Any]) -> dict[str, Any]:
    """Pods on routes of their own, as on EKS: traffic between two pods of one node passes the node's rules too."""
    ranges = [[{"subnet": layout.pod_cidr(node["index"])}]]
    ipam = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    plugins = [
        {"type": "ptp", "ipMasq": False, "mtu": 1500, "ipam": ipam},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return {"cniVersion": "0.4.0", "name": "bench", "plugins": plugins}


def kubelet(files: Layout, node: dict[str, Any], cgroup_root: str) -> dict[str, Any]:
    """The kubelet's configuration. Reserved is what makes allocatable the catalogue's."""
    reserved = {
        "cpu": f"{node['vcpu'] * 1000 - node['allocatable_cpu_m']}m",
        "memory": f"{node['memory_mib'] - node['allocatable_memory_mib']}Mi",
    }
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(files.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(files.pki / f"{node['name']}.crt"),
        "tlsPrivateKeyFile": str(files.pki / f"{node['name']}.key"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup_root,
        "failCgroupV1": False,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "clusterDomain": layout.CLUSTER_DOMAIN,
        "clusterDNS": [layout.DNS_IP],
        "resolvConf": str(files.node(node["name"]) / "resolv.conf"),
        "registerWithTaints": node["taints"],
        "kubeReserved": reserved,
        "enforceNodeAllocatable": ["pods"],
        "maxPods": node["max_pods"],
        "failSwapOn": False,
        # The machine's disk and memory are not the node's: pods are not evicted for them.
        "evictionHard": {
            "memory.available": "0%",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        # Less idle work than by default, quicker answers: many kubelets share this machine.
        "nodeStatusUpdateFrequency": "5s",
        "serializeImagePulls": False,
        "registryPullQPS": 0,
    }


def kube_proxy(files: Layout, node: dict[str, Any]) -> dict[str, Any]:
    """Services by nftables. The limits of connection tracking are the whole machine's, so they stay as they are."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": layout.POD_CIDR,
        "hostnameOverride": node["name"],
        "clientConnection": {"kubeconfig": str(files.kubeconfig("kube-proxy"))},
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
    }
