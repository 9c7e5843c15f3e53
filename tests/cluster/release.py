"""The chart on the bench: a namespace, the releases in it, and what a test wants to know of them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.bench.bench import Bench
from tests.cluster.bench.images import BUSYBOX
from tests.cluster.bench.layout import ROOT, BenchError
from tests.helm import CHART

CLAIM = "checkpoints"
SCALED = Path(__file__).parent / "fixtures" / "scaled-values.yaml"
# Ray starts in 20 s on a quiet machine of two cores; on a busy one it took more than 240 s.
STARTED_S = 420
TRAINED_S = 360
# What every namespace has, or the fixture made.
NOT_OURS = {"configmap/kube-root-ca.crt", "serviceaccount/default", f"persistentvolumeclaim/{CLAIM}"}

Object = dict[str, Any]


@dataclass(frozen=True)
class Space:
    """A namespace of one test.

    Attributes:
        bench: the bench that it is on.
        name: of the namespace.
        folder: the claim's files, as this process sees them.
    """

    bench: Bench
    name: str
    folder: Path

    def install(
        self, release: str, values: Mapping[str, Any] | None = None, *, helm: str = "helm", words: Sequence[str] = ()
    ) -> str:
        """`helm upgrade --install` with what `environments/demo` renders to, scaled, and `values`; Helm's words.

        `words`: more options for Helm.
        """
        demo = ROOT / "environments" / "demo"
        files = [demo / "generated" / "values.yaml", demo / "version.yaml", SCALED]
        given = [f"--values={file}" for file in files] + ["--values=-"]
        command = ("upgrade", "--install", release, str(CHART), *given, *words)
        text = yaml.safe_dump(dict(values or {}))
        return self.bench.helm(*command, namespace=self.name, text=text, program=helm)

    def uninstall(self, release: str) -> None:
        self.bench.helm("uninstall", release, namespace=self.name)

    def kubectl(self, *words: str, text: str = "", check: bool = True, timeout_s: float = 60) -> str:
        return self.bench.kubectl(*words, namespace=self.name, text=text, check=check, timeout_s=timeout_s)

    def objects(self, kind: str, selector: str = "") -> list[Object]:
        return self.bench.objects(kind, self.name, selector=selector)

    def names(self, kind: str, selector: str = "") -> list[str]:
        return [item["metadata"]["name"] for item in self.objects(kind, selector)]

    def job(self) -> Object:
        """The only RayJob."""
        (job,) = self.objects("rayjobs")
        return job

    def status(self, job: str) -> dict[str, str]:
        """`jobStatus`, `jobDeploymentStatus`, `rayClusterName` … of a RayJob; empty when it has none yet."""
        found = self.bench.get("rayjobs", job, self.name)
        return dict((found or {}).get("status", {}))

    def pods(self, run: str, role: str = "") -> list[Object]:
        """Pods of a run: those of `head` or `worker`, or all."""
        return self.objects("pods", f"ray-train-dlc/run={run}" + (f",ray-train-dlc/role={role}" if role else ""))

    def only_job_after(self, old: str, *, timeout_s: float, with_pods: bool = True) -> str:
        """Name of the one job that took the place of `old`, when that and its pods are gone."""
        (new,) = [
            name for name in self.names("rayjobs") if name != old
        ]  # Helm has made it; the old one may have some time left

        def gone() -> bool:
            return self.names("rayjobs") == [new] and not (with_pods and self.pods(old))

        self.bench.wait_for(f"{old} and its pods to be gone", gone, timeout_s=timeout_s)
        return new

    def wait_for_state(self, job: str, *states: str, timeout_s: float) -> str:
        """Wait until the RayJob's jobStatus is one of `states`; a state from which no other follows ends the wait."""
        seen = ""

        def reached() -> bool:
            nonlocal seen
            status = self.status(job)
            seen = status.get("jobStatus", "")
            over = status.get("jobDeploymentStatus") in {"Complete", "Failed", "ValidationFailed"}
            assert seen in states or not over, f"{job} ended {seen}: {status}\n{self.log(job)}"
            return seen in states

        def last_seen() -> str:
            waiting = {pod["metadata"]["name"]: why for pod in self.pods(job) if (why := unschedulable(pod))}
            return f"last seen: {seen or 'no state'}; without a node: {waiting or 'none'}"

        self.bench.wait_for(f"{job} to be {' or '.join(states)}", reached, timeout_s=timeout_s, hint=last_seen)
        return seen

    def wait_for_step(self, job: str, step: int = 1) -> None:
        """Wait until a run's record holds this optimiser step: the training itself is going on."""

        def trained() -> bool:
            record = self.record(job)
            return bool(record and record["steps"] and record["steps"][-1]["step"] >= step)

        self.bench.wait_for(f"step {step} of {job}", trained, timeout_s=TRAINED_S)

    def run_folder(self, job: str) -> Path:
        """`<storage>/<cluster>/<namespace>/<job>` on the shared file system."""
        return self.folder / "demo" / self.name / job

    def record(self, job: str) -> dict[str, Any] | None:
        """The run record that the training writes; None before its first."""
        path = self.run_folder(job) / "run.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def checkpoints(self, job: str) -> list[str]:
        """Names of the checkpoints that a run has kept, oldest first."""
        folder = self.run_folder(job) / "checkpoints"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def exec(self, pod: str, *command: str, check: bool = True) -> str:
        """What a command in a pod's first container prints."""
        return self.kubectl("exec", pod, "--", *command, check=check)

    def log(self, job: str) -> str:
        """Whatever can be said of a job that went wrong, for an assertion's message."""
        heads = [pod["metadata"]["name"] for pod in self.pods(job, "head")]
        said = [self.kubectl("logs", head, "--tail=30", check=False) for head in heads]
        job_id = self.status(job).get("jobId", "")
        address = "http://127.0.0.1:8265"
        said += [self.exec(head, "ray", "job", "logs", "--address", address, job_id, check=False) for head in heads]
        return "\n".join(text[-4000:] for text in said)

    def image(self) -> str:
        """The training image, as environments/demo names it."""
        version = yaml.safe_load((ROOT / "environments" / "demo" / "version.yaml").read_text(encoding="utf-8"))
        return f"{version['image']['repository']}:{version['image']['tag']}"

    def make_pod(self, name: str, container: Object, *, node: str = "") -> None:
        """A pod that is nobody's, on `node` if given, whatever its taints; its only label is its name."""
        spec: Object = {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", **container}],
        }
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"name": name}}, "spec": spec}
        self.bench.apply(pod, namespace=self.name)

    def busybox(self, name: str, command: str = "sleep 3600", *, node: str = "") -> Object:
        """Such a pod that runs a command of busybox, ready."""
        self.make_pod(name, {"image": BUSYBOX, "command": ["sh", "-c", command]}, node=node)
        self.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s", timeout_s=70)
        found = self.bench.get("pods", name, self.name)
        assert found is not None
        return found

    def settle(self, seconds: float) -> None:
        """Give the operator time for what it should not do."""
        time.sleep(seconds)
        self.bench.check()

    def wait_until_nothing_is_left(self, timeout_s: float, *, besides: AbstractSet[str] = frozenset()) -> None:
        """Wait until the namespace holds nothing of a release: a stuck finalizer ends in a failure that names it."""
        seen: set[str] = set()

        def gone() -> bool:
            seen.clear()
            # First what is cheap to ask for and goes last.
            for kind in ("pods", "rayclusters", "rayjobs"):
                seen.update({f"{kind.removesuffix('s')}/{name}" for name in self.names(kind)} - besides)
            if not seen:
                seen.update(self.left() - besides)
            return not seen

        try:
            self.bench.wait_for("the release to be gone", gone, timeout_s=timeout_s)
        except BenchError:
            raise AssertionError(f"left after {timeout_s:g} s: {', '.join(sorted(seen))}") from None

    def left(self) -> set[str]:
        """Everything in the namespace that this project or KubeRay made, Helm's own records included."""
        kinds = self.bench.kubectl("api-resources", "--namespaced", "--verbs=list,delete", "--output=name").split()
        passing = {"events", "events.events.k8s.io", "pods.metrics.k8s.io"}
        wanted = ",".join(sorted(set(kinds) - passing))
        found = self.kubectl("get", wanted, "--output=name", "--ignore-not-found").split()
        return set(found) - NOT_OURS


def node_of(pod: Object) -> str:
    """Name of the node that a pod is bound to; empty before that."""
    return str(pod["spec"].get("nodeName", ""))


def unschedulable(pod: Object) -> str:
    """The scheduler's words for why a pod has no node; empty when it has one or has not been looked at."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return ""
