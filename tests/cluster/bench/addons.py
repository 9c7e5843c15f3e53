"""What runs in the cluster besides the nodes' own programs: DNS, NetworkPolicy, device plugins, KubeRay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import yaml

from tests.cluster.bench import images, layout
from tests.cluster.bench.node_config import PAUSE_IMAGE
from tests.cluster.tools import build

if TYPE_CHECKING:
    from tests.cluster.bench.bench import Bench

MANIFESTS = Path(__file__).parent / "manifests"
OPERATOR_NAMESPACE = "kuberay-system"
ROLLED_OUT = (
    ("deployments", "coredns", "kube-system"),
    ("daemonsets", "kube-network-policies", "kube-system"),
    ("daemonsets", "nvidia-device-plugin", "kube-system"),
    ("daemonsets", "aws-efa-k8s-device-plugin", "kube-system"),
    ("deployments", "kuberay-operator", OPERATOR_NAMESPACE),
)
READY_S = 120


def install(bench: Bench) -> None:
    """Apply everything; `wait` waits for it."""
    names = {
        "coredns": images.COREDNS,
        "device_plugin": images.DEVICE_PLUGIN,
        "network_policies": images.NETWORK_POLICIES,
        "pause": PAUSE_IMAGE,
    }
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(MANIFESTS),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - YAML, not HTML
    )
    texts = [
        environment.get_template(path.name).render(
            images=names,
            plugins=_device_plugins(bench),
            hardware=layout.HARDWARE_IN_NODE,
            cluster_domain=layout.CLUSTER_DOMAIN,
            dns_ip=layout.DNS_IP,
        )
        for path in sorted(MANIFESTS.glob("*.yaml.j2"))
    ]
    bench.kubectl("create", "namespace", OPERATOR_NAMESPACE)
    config = build.module_dir("kuberay-operator") / "config"
    texts.append(yaml.safe_dump_all(_operator(bench, config)))
    bench.kubectl("apply", "--filename=-", text="\n---\n".join(texts))
    # Server side: these are larger than an annotation may be.
    bench.kubectl("apply", "--server-side", f"--filename={config / 'crd' / 'bases'}")


def wait(bench: Bench) -> None:
    """Wait until everything runs.

    Raises:
        BenchError: it does not in time, or a component of the bench has ended.
    """
    for kind, name, namespace in ROLLED_OUT:
        bench.wait_for(
            f"{name} in {namespace}",
            lambda kind=kind, name=name, namespace=namespace: _rolled_out(bench.get(kind, name, namespace)),
            timeout_s=READY_S,
            every_s=0.3,
        )


def _rolled_out(found: dict[str, Any] | None) -> bool:
    """Whether the controller has seen a Deployment or DaemonSet, and every pod of it is available."""
    if not found or found.get("status", {}).get("observedGeneration") != found["metadata"]["generation"]:
        return False
    status = found["status"]
    if found["kind"] == "DaemonSet":
        return bool(status.get("numberAvailable", 0) == status["desiredNumberScheduled"])
    return bool(status.get("availableReplicas", 0) == found["spec"]["replicas"])


def _device_plugins(bench: Bench) -> list[dict[str, Any]]:
    with_efa = sorted({node.instance_type for node in bench.nodes if node.efa})
    gpu, efa = ({"key": key, "operator": "Exists"} for key in ("nvidia.com/gpu", "aws.amazon.com/efa"))
    return [
        {
            "name": "nvidia-device-plugin",
            "resource": "nvidia.com/gpu",
            "devices": "gpus",
            "variable": "NVIDIA_VISIBLE_DEVICES",
            "runs_on": {"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]},
            "tolerations": [gpu, efa],
            "requests": {},
        },
        {
            "name": "aws-efa-k8s-device-plugin",
            "resource": "vpc.amazonaws.com/efa",
            "devices": "efa",
            "variable": "BENCH_EFA_DEVICES",
            "runs_on": {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": with_efa or ["none"]},
            "tolerations": [efa],
            "requests": {"cpu": "10m", "memory": "20Mi"},
        },
    ]


def _operator(bench: Bench, config: Path) -> list[dict[str, Any]]:
    """The operator as its own repository deploys it, in the namespace and on the nodes that docs/install.md names."""
    rendered = []
    for part in ("rbac", "manager"):
        for document in yaml.safe_load_all(bench.kubectl("kustomize", str(config / part))):
            # Upstream leaves the namespace to the last layer, which hard-codes `default`.
            own = [] if document["kind"].startswith("Cluster") else [document["metadata"]]
            for place in (*own, *document.get("subjects", [])):
                place["namespace"] = OPERATOR_NAMESPACE
            if document["kind"] == "Deployment":
                pod = document["spec"]["template"]["spec"]
                pod["nodeSelector"] = {"ray-train-dlc/node-group": "system"}
                pod["containers"][0]["image"] = images.operator_image()
            rendered.append(document)
    return rendered
