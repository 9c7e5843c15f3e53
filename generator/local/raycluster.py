"""Play KubeRay: one `ray start` per pod of the RayCluster, with the operator's flags, token and environment."""

from __future__ import annotations

import os
import random
import secrets
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generator.local import host
from generator.local.errors import TOOL_FAILED, LocalError
from generator.local.manifests import Rendered
from generator.local.mount import Mount, PathMap, Volumes
from generator.local.pods import Pod, environment, flags, pods
from generator.local.processes import Processes
from generator.local.web import WebError, request

READY_SECONDS = 300
_STARTS = 4
_RESTARTS = 2


class _HeadEndedError(LocalError):
    """The head has ended while the cluster was starting."""


_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes' alphabet for generated names
_KUBERAY = "v1.6.1"


@dataclass(frozen=True)
class Node:
    """One pod with everything that its process needs."""

    pod: Pod
    mounts: Sequence[Mount]
    env: Mapping[str, str]
    """The Ray container's environment after path mapping, the image's part (PATH, HOME …) included."""
    mapped: Mapping[str, tuple[str, str]]
    """Variables that path mapping changed: name -> (in the RayJob, here)."""
    argv: Sequence[str]
    agent_port: int


class RayCluster:
    """One Ray cluster of local processes for one RayJob.

    Use: `prepare()`, `start()`, and `close()` in any case. Nothing is started before `start`.

    Args:
        rendered: the RayJob.
        work_dir: absolute folder for volumes and logs.
        hold: file descriptors to keep open until all processes have ended.
    """

    def __init__(self, rendered: Rendered, *, work_dir: Path, hold: Sequence[int] = ()) -> None:
        self.rendered = rendered
        self.log_dir = work_dir / "logs"
        self.pods = pods(rendered)
        spec = rendered.spec["rayClusterSpec"]
        self.program, self.ray_version = host.require_ray(str(spec.get("rayVersion") or ""))
        host.require_addresses(["127.0.0.1", *(pod.address for pod in self.pods)])
        self.name = f"{rendered.name}-{_random_suffix()}"
        mode = (spec.get("authOptions") or {}).get("mode")
        self.token = secrets.token_hex(32) if mode == "token" else None
        self.volumes = Volumes(work_dir, rendered.config_maps)
        self.nodes: list[Node] = []
        self.adaptations: list[str] = []
        self._scratch = host.make_scratch()
        self._pids: dict[int, Node] = {}
        self._restarts: Counter[str] = Counter()
        self._starting = True
        try:
            self.processes = Processes(self._scratch, self.log_dir / "supervisor.log", hold)
        except BaseException:
            self._scratch.rmdir()
            raise
        self._ports = host.Ports(self.processes.pid)
        self._attempt = 0

    @property
    def dashboard(self) -> str:
        """Address of the head's dashboard and Jobs API."""
        return f"http://127.0.0.1:{self.dashboard_port}"

    @property
    def session_logs(self) -> dict[str, Path]:
        """Log folder of each node's Ray session, by pod name; a folder exists once its node has started."""
        return {pod.name: self._node_folder(pod) / "session_latest" / "logs" for pod in self.pods}

    def prepare(self) -> None:
        """Lay out all volumes and compute every node's command line and environment."""
        take = self._ports.take
        self._head_port, self.dashboard_port, self._client_port = take(), take(), take()
        self._metrics_ports = {"AUTOSCALER_METRIC_PORT": take(), "DASHBOARD_METRIC_PORT": take()}
        self._node_ports = {pod.name: (take(), take()) for pod in self.pods}
        self.volumes.clear()
        stores = host.object_store_folder(len(self.pods), self._scratch)
        self.adaptations = [
            "ports, node addresses and Ray's own folder are this run's",
            f"object store of {host.OBJECT_STORE_BYTES // 1024**2} MiB per node (Ray's default is a share of a whole "
            "machine)",
            "dashboard on 127.0.0.1 only; usage statistics off",
        ]
        if any(getattr(finder, "__module__", "").startswith("__editable___ray_train_dlc") for finder in sys.meta_path):
            self.adaptations.append(
                "WARNING: this project is installed with an import hook, which finds modules that the ConfigMap lacks "
                "in the checkout; install it with `make`"
            )
        if stores is not None:
            self.adaptations.append("object stores in the temporary folder: /dev/shm is too small for all of them")
        self.nodes = [self._node(pod, stores) for pod in self.pods]

    def start(self, *, limit: float = READY_SECONDS, echo: Callable[[str], None] = lambda _: None) -> None:
        """Start the head, then all workers at once, and wait until every node passes KubeRay's probe.

        While that lasts, what ends is started again, as the kubelet does with containers: on a busy machine the head
        gives up when its raylet is not up within 30 s, and a worker when it does not see the head within 40 s.

        Args:
            limit: seconds for all of it.
            echo: receives one line per stage.

        Raises:
            LocalError: a node ended, or not all are ready in time; the text holds the end of its log.
        """
        began = time.monotonic()
        deadline = began + limit
        echo(f"starting Ray {self.ray_version}: {len(self.nodes)} nodes …")
        while True:
            try:
                self._start(deadline, limit)
                break
            except _HeadEndedError:
                if time.monotonic() > deadline or self._attempt + 1 >= _STARTS:
                    raise
                echo("the Ray head has ended while starting (this machine may be busy); starting all nodes again")
                self.processes.stop()
                self._attempt += 1
                self.prepare()
        self._starting = False
        echo(f"Ray {self.ray_version}: {len(self.nodes)} nodes ready after {time.monotonic() - began:.0f} s")

    def _start(self, deadline: float, limit: float) -> None:
        head, workers = self.nodes[0], self.nodes[1:]
        self._launch(head)
        # The workers' init container waits for the GCS alone. On a few cores it is better to let the head's own
        # processes come up first: its raylet is the last of them.
        raylet = self._node_folder(head.pod) / "session_latest" / "sockets" / "raylet"
        self._wait(raylet.exists, head, deadline, limit)
        for node in workers:
            self._launch(node)
        for node in self.nodes:
            url = f"http://{node.pod.address}:{node.agent_port}/api/healthz"
            self._wait(lambda url=url: _answers(url), node, deadline, limit)  # type: ignore[misc]
        # HTTPMode: the operator submits as soon as the dashboard answers.
        self._wait(lambda: _answers(f"{self.dashboard}/api/gcs_healthz"), head, deadline, limit)

    def check(self) -> None:
        """Raise a LocalError when a node has ended: its part of the training is lost."""
        for pid, code in self.processes.exited().items():
            if (node := self._pids.pop(pid, None)) is None:
                continue
            if self._starting and not node.pod.is_head and self._restarts[node.pod.name] < _RESTARTS:
                self._restarts[node.pod.name] += 1
                self._launch(node)
                continue
            kind = _HeadEndedError if self._starting and node.pod.is_head else LocalError
            raise kind(
                f"Ray node {node.pod.name} has ended with exit code {code}\n{self._log_tail(node)}",
                exit_code=TOOL_FAILED,
            )

    def save_session_logs(self) -> Path:
        """Copy the logs of all Ray sessions to the work folder, for a failed run; returns that folder."""
        target = self.log_dir / "ray"
        for name, folder in self.session_logs.items():
            if folder.is_dir():
                shutil.copytree(
                    folder,
                    target / name,
                    symlinks=True,
                    dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("old"),
                )
        return target

    def close(self) -> set[int]:
        """End every process and remove Ray's own folder; returns pids that could not be ended."""
        left = self.processes.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
        return left

    def _node_folder(self, pod: Pod) -> Path:
        # Short, for the sockets in it; an attempt does not find the previous one's session.
        return self._scratch / f"{self._attempt}{self.pods.index(pod)}"

    def _node(self, pod: Pod, stores: Path | None) -> Node:
        mounts = self.volumes.mounts(pod.name, pod.template["spec"])
        paths = PathMap(mounts)
        params = self._host_params(pod, stores)
        argv = [str(self.program), "start", *(["--head"] if pod.is_head else []), *flags(params)]
        declared = environment(
            pod,
            self.rendered,
            labels=self._labels(pod),
            pod_name=f"{self.name}-{pod.name}",
        )
        values = declared | self._injected(pod, argv, declared)
        here = {name: paths.apply(value) for name, value in values.items()}
        mapped = {name: (values[name], here[name]) for name in values if values[name] != here[name]}
        return Node(
            pod=pod,
            mounts=mounts,
            env=host.base_environment() | here,
            mapped=mapped,
            argv=argv,
            agent_port=self._node_ports[pod.name][0],
        )

    def _host_params(self, pod: Pod, stores: Path | None) -> dict[str, str]:
        """The pod's `ray start` parameters, completed as KubeRay does and adapted to a shared machine."""
        agent_port, metrics_port = self._node_ports[pod.name]
        adapted = {
            "block": "true",
            "node-ip-address": pod.address,
            "dashboard-agent-listen-port": str(agent_port),
            "metrics-export-port": str(metrics_port),
            "temp-dir": str(self._node_folder(pod)),
        }
        if pod.is_head:
            adapted |= {
                "port": str(self._head_port),
                "dashboard-host": "127.0.0.1",
                "dashboard-port": str(self.dashboard_port),
                "ray-client-server-port": str(self._client_port),
            }
        else:
            adapted["address"] = f"{self.pods[0].address}:{self._head_port}"
        defaults = {"object-store-memory": str(host.OBJECT_STORE_BYTES)}
        if stores is not None:
            defaults["plasma-directory"] = str(stores)
        return defaults | dict(pod.params) | adapted

    def _injected(self, pod: Pod, argv: Sequence[str], declared: Mapping[str, str]) -> dict[str, str]:
        """The variables that KubeRay adds to the Ray container, then those that only a shared machine needs."""
        address = self.pods[0].address
        always = {
            "RAY_CLUSTER_NAME": self.name,
            "RAY_CLUSTER_NAMESPACE": self.rendered.namespace,
            "RAY_CLOUD_INSTANCE_ID": f"{self.name}-{pod.name}",
            "RAY_NODE_TYPE_NAME": pod.group,
            "KUBERAY_GEN_RAY_START_CMD": shlex.join(["ray", *argv[1:]]),
        }
        if pod.is_head:
            always["RAY_USAGE_STATS_EXTRA_TAGS"] = f"kuberay_version={_KUBERAY};kuberay_crd=RayJob"
        else:
            always |= {"FQ_RAY_IP": address, "RAY_IP": address}
        when_absent = {
            "RAY_PORT": str(self._head_port),
            "RAY_ADDRESS": f"{address}:{self._head_port}",
            "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
            "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE": "1",
            # Not KubeRay's: a run on this machine must not be counted as a KubeRay cluster, nor call home.
            "RAY_USAGE_STATS_ENABLED": "0",
            **{name: str(port) for name, port in self._metrics_ports.items()},
        }
        if self.token is not None:
            when_absent |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}
        if sys.platform == "darwin":
            when_absent["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "1"
        return always | {name: value for name, value in when_absent.items() if name not in declared}

    def _labels(self, pod: Pod) -> dict[str, str]:
        """Labels of the pod in Kubernetes, as KubeRay sets them."""
        metadata = pod.template.get("metadata") or {}
        return {
            **{str(key): str(value) for key, value in (metadata.get("labels") or {}).items()},
            "ray.io/is-ray-node": "yes",
            "ray.io/cluster": self.name,
            "ray.io/node-type": "head" if pod.is_head else "worker",
            "ray.io/group": pod.group,
        }

    def _launch(self, node: Node) -> None:
        folder = self.volumes.pod_folder(node.pod.name)
        self._node_folder(node.pod).mkdir(exist_ok=True)
        pid = self.processes.start(node.argv, env=node.env, cwd=folder, log=self._log(node))
        self._pids[pid] = node

    def _wait(self, ready: Callable[[], bool], node: Node, deadline: float, limit: float) -> None:
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise LocalError(
                    f"Ray node {node.pod.name} was not ready within {limit:.0f} s\n{self._log_tail(node)}",
                    exit_code=TOOL_FAILED,
                )
            time.sleep(0.2)

    def _log(self, node: Node) -> Path:
        return self.log_dir / f"{node.pod.name}.log"

    def _log_tail(self, node: Node, lines: int = 15) -> str:
        log = self._log(node)
        text = log.read_text(errors="replace").splitlines()[-lines:] if log.exists() else []
        return "\n".join([f"the end of {os.path.relpath(log)}:", *(f"  {line}" for line in text)])


def _random_suffix() -> str:
    """Five characters, as Kubernetes appends to generated names."""
    return "".join(random.SystemRandom().choices(_SUFFIX, k=5))


def submission_id(rendered: Rendered) -> str:
    """`jobId` of the RayJob, or the one that KubeRay would generate."""
    return str(rendered.spec.get("jobId") or f"{rendered.name}-{_random_suffix()}")


def not_played(rendered: Rendered) -> list[str]:
    """What the RayJob asks of Kubernetes and a plain process on one machine does not have."""
    spec = rendered.spec
    found: list[str] = []
    if spec.get("submissionMode", "K8sJobMode") != "HTTPMode":
        found.append(f"submissionMode {spec.get('submissionMode', 'K8sJobMode')} (the job is submitted over HTTP)")
    found += [key for key in ("suspend", "backoffLimit", "ttlSecondsAfterFinished") if spec.get(key)]
    cluster = spec["rayClusterSpec"]
    groups: list[Any] = [cluster["headGroupSpec"], *(cluster.get("workerGroupSpecs") or [])]
    pod_keys = ("affinity", "nodeSelector", "tolerations", "initContainers", "securityContext")
    container_keys = ("image", "command", "args", "lifecycle", "securityContext")
    for keys, parts in (
        (pod_keys, [group["template"]["spec"] for group in groups]),
        (container_keys, [group["template"]["spec"]["containers"][0] for group in groups]),
    ):
        found += [key for key in keys if key not in found and any(part.get(key) for part in parts)]
    if any(len(group["template"]["spec"]["containers"]) > 1 for group in groups):
        found.append("containers other than the Ray container")
    return found


def _answers(url: str) -> bool:
    try:
        request(url, timeout=3)
    except WebError:
        return False
    return True
