"""First process of a node, in its own network, mount, host name, IPC and process-id namespaces: containerd and kubelet.

    unshare … python -m tests.cluster.bench.node FOLDER NAME

Standard library only. What a kubelet would change on the whole machine it finds changed already, in these namespaces.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.cluster.bench import cgroups, layout
from tests.cluster.bench.layout import BenchError, Layout
from tests.cluster.bench.node_config import cni, containerd_toml, kube_proxy, kubelet
from tests.cluster.bench.processes import last_lines, run, start, wait_for

CONTAINERD_READY_S = 30
OPEN_FILES = 1_048_576
CONTAINERD_SOCKET = Path("/run/containerd/containerd.sock")
SNAPSHOTS = Path("/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots")
# The kubelet sets these, and for the whole machine. They are shown to it as files that hold the values already.
WANTED_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
# The node's own disk: folder of it, and where the programs look for it.
DISK = {
    "kubelet": "/var/lib/kubelet",
    "containerd": "/var/lib/containerd",
    "cni": "/var/lib/cni",
    "pod-logs": "/var/log/pods",
}


# Python itself would reap a process whose object is gone, and `_watch` would never hear of its end.
_kept: list[subprocess.Popen[bytes]] = []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(0))
    files = Layout(options.folder)
    plan = json.loads(files.plan.read_text(encoding="utf-8"))
    (node,) = [node for node in plan["nodes"] if node["name"] == options.name]
    try:
        _network(node, plan["nodes"])
        _mounts(files, node)
        children = _programs(files, plan, node)
    except BenchError as problem:
        print(f"error: {problem}", file=sys.stderr, flush=True)
        return 1
    return _watch(children)


def _network(node: dict[str, Any], nodes: list[dict[str, Any]]) -> None:
    socket.sethostname(node["name"])
    wait_for("eth0", lambda: "eth0:" in Path("/proc/net/dev").read_text(encoding="utf-8"), timeout_s=30, every_s=0.05)
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{layout.node_ip(node['index'])}/{layout.NETWORK_PREFIX}", "dev", "eth0")
    run("ip", "link", "set", "eth0", "up")
    run("ip", "route", "add", "default", "via", layout.CONTROL_PLANE_IP)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="utf-8")
    for other in nodes:
        if other["index"] != node["index"]:
            run("ip", "route", "add", layout.pod_cidr(other["index"]), "via", layout.node_ip(other["index"]))


def _mounts(files: Layout, node: dict[str, Any]) -> None:
    disk = files.node(node["name"])
    run("mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run")
    Path("/run/lock").mkdir()
    for name, where in DISK.items():
        _bind(disk / name, Path(where))
    _bind(files.shared, Path(layout.SHARED_IN_NODE))
    _devices(node)
    shown = disk / "shown"
    shown.mkdir()
    for name, value in WANTED_SYSCTLS.items():
        _show(shown / name.replace("/", "."), value + "\n", Path("/proc/sys") / name)
    _machine_size(shown, node)
    # Mounts below travel into containers and back, as the kubelet's volumes need it.
    run("mount", "--make-rshared", "/")


def _devices(node: dict[str, Any]) -> None:
    """Files that the device plugins read: the accelerators of this node. Nothing else knows of them."""
    folder = Path(layout.HARDWARE_IN_NODE)
    folder.mkdir()
    (folder / "gpus").write_text("".join(f"gpu-{i}\n" for i in range(node["gpus"])), encoding="utf-8")
    (folder / "efa").write_text("".join(f"efa-{i}\n" for i in range(node["efa"])), encoding="utf-8")


def _machine_size(shown: Path, node: dict[str, Any]) -> None:
    """Show the kubelet the CPUs and the memory of the instance type. Containers get a /proc and a /sys of their own."""
    meminfo = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()[1:]
    total = f"MemTotal: {node['memory_mib'] * 1024:>15} kB"
    _show(shown / "meminfo", "\n".join([total, *meminfo]) + "\n", Path("/proc/meminfo"))
    cpus = shown / "cpu"
    for number in range(node["vcpu"]):
        topology = cpus / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "core_id").write_text(f"{number}\n", encoding="utf-8")
        (topology / "physical_package_id").write_text("0\n", encoding="utf-8")
    # The kubelet counts all of them and hands out those that are online, which are this machine's.
    (cpus / "online").write_text(Path("/sys/devices/system/cpu/online").read_text(encoding="utf-8"), encoding="utf-8")
    run("mount", "--bind", cpus, "/sys/devices/system/cpu")
    numa = shown / "numa"  # without NUMA nodes the CPUs are counted in the folder above
    numa.mkdir()
    if Path("/sys/devices/system/node").is_dir():
        run("mount", "--bind", numa, "/sys/devices/system/node")


def _programs(files: Layout, plan: dict[str, Any], node: dict[str, Any]) -> dict[int, str]:
    name, disk, programs = node["name"], files.node(node["name"]), plan["programs"]
    cgroup_root = cgroups.make(files.identity, name)
    _raise_open_files()
    configs = {
        "containerd.toml": containerd_toml(disk / "cni-config", programs["runc"]),
        "kubelet.json": json.dumps(kubelet(files, node, cgroup_root)),
        "kube-proxy.json": json.dumps(kube_proxy(files, node)),
        "cni-config/bench.conflist": json.dumps(cni(node)),
        "resolv.conf": "",  # no name server outside: CoreDNS alone answers
    }
    for config, text in configs.items():
        path = disk / config
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    children: dict[int, str] = {}
    _kept.clear()

    def begin(component: str, *command: str | Path) -> subprocess.Popen[bytes]:
        process = start(command, files.log(f"{component}-{name}"))
        children[process.pid] = component
        _kept.append(process)
        return process

    containerd = begin("containerd", "containerd", "--config", disk / "containerd.toml")

    def answers() -> bool:
        if containerd.poll() is not None:
            log = files.log(f"containerd-{name}")
            raise BenchError(f"containerd ended with {containerd.returncode}:\n{last_lines(log)}")
        return CONTAINERD_SOCKET.exists() and bool(run("ctr", "version", check=False))

    wait_for("containerd to answer", answers, timeout_s=CONTAINERD_READY_S, every_s=0.1)
    _images(plan)
    begin(
        "kubelet",
        programs["kubelet"],
        f"--config={disk / 'kubelet.json'}",
        f"--kubeconfig={files.kubeconfig(name)}",
        f"--hostname-override={name}",
        f"--node-ip={layout.node_ip(node['index'])}",
        "--node-labels=" + ",".join(f"{key}={value}" for key, value in _labels(node).items()),
    )
    begin("kube-proxy", programs["kube-proxy"], f"--config={disk / 'kube-proxy.json'}")
    return children


def _raise_open_files() -> None:
    """As containerd's own unit does: containers inherit the limit, and Ray asks for 65,536. Some machines refuse it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (OPEN_FILES, hard):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            return


def _labels(node: dict[str, Any]) -> dict[str, str]:
    """Those of the node group, and those that the cloud's own parts give a node."""
    return {
        **node["labels"],
        "alpha.eksctl.io/nodegroup-name": node["group"],
        "eks.amazonaws.com/nodegroup": node["group"],
        "node.kubernetes.io/instance-type": node["instance_type"],
        "topology.kubernetes.io/region": node["region"],
        "topology.kubernetes.io/zone": node["zone"],
    }


def _images(plan: dict[str, Any]) -> None:
    """Import the images, and lay each one's root file system over the folder of its only layer."""
    run("ctr", "-n", "k8s.io", "images", "import", "--snapshotter", "overlayfs", plan["archive"], timeout_s=120)
    for image in plan["images"]:
        found = list(SNAPSHOTS.glob(f"*/fs/{image['marker']}"))
        if len(found) != 1:
            raise BenchError(f"containerd has unpacked {len(found)} layers of {image['name']}, expected 1")
        run("mount", "--bind", image["root"], found[0].parent)


def _bind(source: Path, target: Path) -> None:
    source.mkdir(parents=True, exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    run("mount", "--bind", source, target)


def _show(source: Path, text: str, target: Path) -> None:
    """Show `text` to every program of this node that reads the file `target`."""
    source.write_text(text, encoding="utf-8")
    if target.exists():
        run("mount", "--bind", source, target)


def _watch(children: dict[int, str]) -> int:
    """Reap whatever ends here (containerd's shims among them). The node is lost when one of its own programs ends."""
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            time.sleep(1)
            continue
        if component := children.get(pid):
            print(f"error: {component} ended with {os.waitstatus_to_exitcode(status)}", file=sys.stderr, flush=True)
            return 1


if __name__ == "__main__":
    sys.exit(main())
