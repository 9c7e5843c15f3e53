"""First process of a bench, in its network, mount and process-id namespaces: brings everything up and watches it.

    unshare … python -m tests.cluster.bench.machine FOLDER

Standard library only. What it starts ends with it, whatever its end is.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.bench import layout
from tests.cluster.bench.layout import BenchError, Layout
from tests.cluster.bench.processes import last_lines, run, start, wait_for

API_READY_S = 120
# Folders of the machine that the bench's programs write to: empty ones of its own are mounted over them.
HIDDEN = ("/run", "/var/lib", "/var/log")


@dataclass
class Machine:
    """What the first process knows.

    Attributes:
        plan: what the bench wrote for it: nodes, programs, images.
        running: pid, in this namespace, of each component that should be running; of a node its first process.
        ended: exit status of each component that ended by itself.
    """

    files: Layout
    plan: dict[str, Any]
    running: dict[str, int] = field(default_factory=dict)
    children: dict[int, str] = field(default_factory=dict)
    # Kept: Python itself would reap a process whose object is gone, and `_watch` would never hear of its end.
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    ended: dict[str, int] = field(default_factory=dict)
    phase: str = "starting"
    problem: str = ""

    def start(self, component: str, *command: str | Path, cwd: Path | None = None) -> subprocess.Popen[bytes]:
        process = start(command, self.files.log(component), cwd=cwd)
        self.running[component] = process.pid
        self.children[process.pid] = component
        self.processes.append(process)
        self.report()
        return process

    def report(self) -> None:
        """Write the state file, which the bench reads."""
        state = {"phase": self.phase, "problem": self.problem, "running": self.running, "ended": self.ended}
        part = self.files.state.with_suffix(".part")
        part.write_text(json.dumps(state, indent=1), encoding="utf-8")
        part.replace(self.files.state)

    def program(self, name: str) -> str:
        return str(self.plan["programs"][name])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--with-owner", action="store_true", help="end when standard input is closed")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(0))
    if options.with_owner:
        threading.Thread(target=_follow_owner, daemon=True).start()
    files = Layout(options.folder)
    machine = Machine(files, json.loads(files.plan.read_text(encoding="utf-8")))
    try:
        _hide_folders()
        _network(machine)
        _control_plane(machine)
        _nodes(machine)
    except BenchError as problem:
        machine.phase, machine.problem = "failed", str(problem)
        machine.report()
        return 1
    machine.phase = "running"
    machine.report()
    _watch(machine)
    return 0


def _follow_owner() -> None:
    """End with the process that holds the other end of standard input."""
    while os.read(0, 4096):
        pass
    os._exit(0)  # the first process of a pid namespace: the kernel ends all others


def _hide_folders() -> None:
    for folder in HIDDEN:
        run("mount", "-t", "tmpfs", "-o", "mode=755", "bench", folder)
    Path("/run/lock").mkdir()


def _network(machine: Machine) -> None:
    """The control plane's address on a bridge. Nodes are plugged into it; there is no way out of this namespace."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "br0", "type", "bridge")
    run("ip", "address", "add", f"{layout.CONTROL_PLANE_IP}/{layout.NETWORK_PREFIX}", "dev", "br0")
    run("ip", "link", "set", "br0", "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="utf-8")
    for node in machine.plan["nodes"]:
        # The API server reaches pods for logs of webhooks and proxies.
        run("ip", "route", "add", layout.pod_cidr(node["index"]), "via", layout.node_ip(node["index"]))


def _control_plane(machine: Machine) -> None:
    files, pki = machine.files, machine.files.pki
    etcd = "http://127.0.0.1:2379"
    peer = "http://127.0.0.1:2380"
    machine.start(
        "etcd",
        machine.program("etcd"),
        f"--data-dir={files.run / 'etcd'}",
        f"--listen-client-urls={etcd}",
        f"--advertise-client-urls={etcd}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",  # nobody needs this data after a power cut
        "--log-level=warn",
    )
    api_server = machine.start(
        "kube-apiserver",
        machine.program("kube-apiserver"),
        f"--etcd-servers={etcd}",
        f"--advertise-address={layout.CONTROL_PLANE_IP}",
        f"--bind-address={layout.CONTROL_PLANE_IP}",
        "--secure-port=6443",
        f"--tls-cert-file={pki / 'kube-apiserver.crt'}",
        f"--tls-private-key-file={pki / 'kube-apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'kubelet-client.key'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'service-account.pub'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        f"--service-cluster-ip-range={layout.SERVICE_CIDR}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
    )

    admin = f"--kubeconfig={files.kubeconfig('admin')}"

    def ready() -> bool:
        if api_server.poll() is not None:
            log = files.log("kube-apiserver")
            raise BenchError(f"kube-apiserver ended with {api_server.returncode}:\n{last_lines(log)}")
        return run(machine.program("kubectl"), admin, "get", "--raw=/readyz", check=False) == "ok"

    wait_for("kube-apiserver to be ready", ready, timeout_s=API_READY_S, every_s=0.2)
    proxy = ("proxy", f"--unix-socket={files.api.name}")  # relative: the path of a socket is short
    machine.start("api-proxy", machine.program("kubectl"), admin, *proxy, cwd=files.run)
    for name in ("kube-controller-manager", "kube-scheduler"):
        kubeconfig = files.kubeconfig(name)
        more: list[str] = []
        if name == "kube-controller-manager":
            more = [
                f"--service-account-private-key-file={pki / 'service-account.key'}",
                f"--root-ca-file={pki / 'ca.crt'}",
                "--use-service-account-credentials=true",
            ]
        machine.start(
            name,
            machine.program(name),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            *more,
        )


def _nodes(machine: Machine) -> None:
    for node in machine.plan["nodes"]:
        start_node(machine, node)


def start_node(machine: Machine, node: dict[str, Any]) -> None:
    """Start a node's first process in namespaces of its own, and plug a cable into it."""
    name, cable = node["name"], f"node{node['index']}"
    namespaces = ("--mount", "--net", "--uts", "--ipc", "--pid")
    unshare = machine.start(
        f"node-{name}",
        *("unshare", *namespaces, "--fork", "--kill-child", "--mount-proc", "--propagation", "private"),
        *(sys.executable, "-m", "tests.cluster.bench.node", machine.files.folder, name),
    )

    def child() -> int | None:
        children = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children").read_text(encoding="utf-8").split()
        return int(children[0]) if children else None

    first = wait_for(f"the first process of node {name}", child, timeout_s=10, every_s=0.02)
    machine.running[f"node-{name}"] = first  # the child of unshare, which is inside of the namespaces
    machine.report()
    run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(first))
    run("ip", "link", "set", cable, "master", "br0", "up")


def _watch(machine: Machine) -> None:
    """Reap what ends, and record it when it is a component."""
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            time.sleep(1)
            continue
        if name := machine.children.pop(pid, None):
            machine.ended[name] = os.waitstatus_to_exitcode(status)
            del machine.running[name]
            machine.report()


if __name__ == "__main__":
    sys.exit(main())
