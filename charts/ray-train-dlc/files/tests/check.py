"""What `helm test` runs: whether the job or the cluster of a release is up, and if not, why not and what to do.

It asks the Kubernetes API as the pod's own ServiceAccount, with Python's standard library only. Exit status 0: up, or
trained already; 1: not.
"""

from __future__ import annotations

import argparse
import json
import re
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import environ
from pathlib import Path
from typing import Any, Literal

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DASHBOARD_PORT = 8265
POLL_S = 2
REQUEST_S = 10
LONGEST = 2000  # characters of a message: the operator puts the end of the training's log into it

Object = Mapping[str, Any]

OPERATOR_REACHES = "whether the operator reaches port 8265 of the head (networkPolicy.operatorNamespace)"
# What the reasons of a failed RayJob ask for.
REASONS = {
    "Complete": "somebody has stopped it; set job.runId to a new text to train again",
    "SubmissionFailed": "read the operator's log and `kubectl describe` of the job",
    "DeadlineExceeded": "raise job.activeDeadlineSeconds",
    "PreRunningDeadlineExceeded": "find out why the pods did not come up, or raise job.preRunningDeadlineSeconds",
    "JobDeploymentStatusTransitionGracePeriodExceeded": "set job.submissionMode to HTTPMode, if it is another one",
    "JobStatusCheckTimeoutExceeded": f"see {OPERATOR_REACHES}",
    "ValidationFailed": "change what the operator refuses; this job does not recover, so delete it and install again",
    "AppFailed": "read the training's log",
}
# What the exit codes of the training ask for (docs/contract.md).
EXITS = {
    "3": "exit code 3: not the expected network; see NCCL's lines in the log, and workerGroups.<name>.transport",
    "4": "exit code 4: the storage cannot be used; see training.storage, and who may write there",
    "5": "exit code 5: nodes, GPUs and ranks do not fit together; see workerGroups",
    "143": "exit code 143: stopped after a checkpoint; a new job.runId with job.resumeFrom goes on",
}
# What the words of the scheduler and of the kubelet ask for.
TROUBLES = {
    r"Insufficient nvidia\.com/gpu": "see the node group's size, quota and capacity, and the NVIDIA device plugin",
    r"Insufficient vpc\.amazonaws\.com/efa": "see the nodes' instance type, and the EFA device plugin",
    r"Insufficient (cpu|memory|ephemeral-storage|hugepages)": "lower `resources`: a node offers less than its type has",
    r"untolerated taint": "give the pods `tolerations` for the nodes' taints",
    r"node affinity/selector": "no node has the labels of `nodeSelector` and `affinity`",
    r"anti-affinity": "a worker needs a node of its own: add nodes, or wait until those of the last job are free",
    r"[Pp]ersistent[Vv]olume": "see training.storage.claimName, and whether the claim is bound",
    r"ImagePull|InvalidImageName|ErrImage": "see image.repository, tag and digest, and common.imagePullSecrets",
    r"CreateContainerConfigError": "a Secret or ConfigMap that the pod names is not there",
    r"OOMKilled": "raise `resources.memory`",
}


@dataclass(frozen=True)
class Target:
    """What is to be up.

    Attributes:
        mode: `job`, `cluster` or `jobOnCluster`, as the chart's value.
        namespace: of the release.
        name: of the RayJob, or of the RayCluster in mode `cluster`.
        selector: labels of the Ray pods.
        workers: how many workers there must be, at least.
        cluster: of mode `jobOnCluster`.
        token: whether the dashboard must ask for a token.
    """

    mode: str
    namespace: str
    name: str
    selector: str
    workers: int
    cluster: str = ""
    token: bool = False


@dataclass(frozen=True)
class Finding:
    """What one look has shown: the state, in words, and what to do about it."""

    state: Literal["passed", "waiting", "failed"]
    text: str
    advice: tuple[str, ...] = ()


class ApiError(Exception):
    """No answer, or not the one that was asked for; status 0 where there was none."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class MissingError(ApiError):
    """The RayJob or RayCluster is not there."""


class Api:
    """The Kubernetes API, read only."""

    def __init__(self, server: str, account: Path = ACCOUNT) -> None:
        self._server = server
        self._account = account

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """The object or list at a path.

        Raises:
            ApiError: it could not be read.
        """
        url = f"{self._server}{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        try:
            # Read each time: the kubelet renews it.
            token = (self._account / "token").read_text(encoding="utf-8").strip()
            trust = ssl.create_default_context(cafile=self._account / "ca.crt")
            request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 - https
            with urllib.request.urlopen(request, timeout=REQUEST_S, context=trust) as answer:  # noqa: S310 - https
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            raise ApiError(error.code, f"the Kubernetes API answers {error.code} to {path}") from error
        except (OSError, ValueError) as error:
            raise ApiError(0, f"no answer of the Kubernetes API ({error})") from error

    def ray(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        """A RayJob (`rayjobs`) or RayCluster (`rayclusters`)."""
        try:
            return self.get(f"/apis/ray.io/v1/namespaces/{namespace}/{kind}/{name}")
        except ApiError as error:
            if error.status != 404:
                raise
            raise MissingError(404, f"there is no {kind.removesuffix('s')} {name}") from error

    def pods(self, namespace: str, selector: str) -> list[Object]:
        """The pods with these labels."""
        return list(self.get(f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector)["items"])


def job_finding(job: Object, pods: Sequence[Object], target: Target) -> Finding:
    """Judge a RayJob by its status and pods."""
    status = job.get("status", {})
    stage, state = status.get("jobDeploymentStatus", ""), status.get("jobStatus", "")
    if state == "SUCCEEDED":
        return Finding("passed", "the training has SUCCEEDED")
    if stage in {"Failed", "ValidationFailed"} or (stage == "Complete" and state):
        return _failed(stage, state, status)
    if stage == "Running" and state == "RUNNING":
        return _running(pods, target.workers)
    pods_up = f"{_ready_of(pods)} of {target.workers + 1} pods ready"
    quota = tuple(_replica_failures(status.get("rayClusterStatus", {})))
    why = {
        "": ("the operator has not looked at it", "see whether the KubeRay operator runs and watches this namespace"),
        "Running": (
            f"not running yet, state {state or 'empty'}; {pods_up}",
            f"when the state stays empty, see {OPERATOR_REACHES}",
        ),
        "Suspended": ("suspended: a queue holds it back", "see the queue: `kubectl get workloads` with Kueue"),
        "Retrying": (f"a try has ended: {_short(status)}", "wait for the next one"),
    }
    text, advice = why.get(stage, (f"{stage}; {pods_up}", ""))
    troubles, remedies = _troubles(pods)
    return Finding("waiting", "\n".join([text, *quota, *troubles]), tuple(filter(None, [advice, *remedies])))


def cluster_finding(cluster: Object, pods: Sequence[Object], target: Target) -> Finding:
    """Judge a RayCluster by its status and pods."""
    status = cluster.get("status", {})
    ready = int(status.get("readyWorkerReplicas", 0))
    wanted = max(target.workers, int(status.get("desiredWorkerReplicas", 0)))
    if status.get("state") == "ready" and ready >= wanted:
        return Finding("passed", f"the cluster is ready, with {ready} of {wanted} workers")
    if not status:
        text = "the operator has not looked at it, or refuses it"
        advice = (
            "see its events (`kubectl describe raycluster`), and whether the operator runs and watches this namespace"
        )
    elif status.get("state") == "suspended":
        text, advice = "suspended: a queue holds it back", "see the queue: `kubectl get workloads` with Kueue"
    else:
        text, advice = f"{ready} of {wanted} workers ready", ""
    troubles, remedies = _troubles(pods)
    lines = [text, *_replica_failures(status), *troubles]
    return Finding("waiting", "\n".join(lines), tuple(filter(None, [advice, *remedies])))


def token_finding(status: int) -> Finding:
    """Judge the dashboard by its answer to a request without a token; 0: none."""
    if status == 401:
        return Finding("passed", "the dashboard asks for the token")
    if status == 0:
        advice = "this pod must reach port 8265 of the head; see whether a NetworkPolicy of yours forbids it"
        return Finding("waiting", "the dashboard does not answer", (advice,))
    advice = "see authOptions of the RayCluster (mode must be token) and the operator's version (1.6 or later)"
    return Finding("failed", f"the dashboard answers {status} without a token: whoever reaches it runs code", (advice,))


def look(api: Api, target: Target, knock: Callable[[str], int]) -> Finding:
    """Look once.

    Args:
        api: the Kubernetes API.
        target: what is to be up.
        knock: status of the dashboard's answer at an address, without a token.

    Raises:
        ApiError: the API gives no answer.
    """
    try:
        if target.mode == "cluster":
            cluster = api.ray("rayclusters", target.namespace, target.name)
            finding = cluster_finding(cluster, api.pods(target.namespace, target.selector), target)
            if finding.state != "passed" or not target.token:
                return finding
            answer = token_finding(knock(cluster["status"].get("head", {}).get("podIP", "")))
            return Finding(answer.state, f"{finding.text}; {answer.text}", answer.advice)
        job = api.ray("rayjobs", target.namespace, target.name)
        pods = api.pods(target.namespace, target.selector)
        finding = job_finding(job, pods, target)
        if target.mode == "job" or finding.state != "waiting":
            return finding
        below = cluster_finding(api.ray("rayclusters", target.namespace, target.cluster), pods, target)
        text = f"{finding.text}\nRayCluster {target.cluster}: {below.text}"
        return Finding("waiting", text, tuple(dict.fromkeys(finding.advice + below.advice)))
    except MissingError as error:
        return Finding("failed", str(error), ("see job.clusterName, or install the release again",))


def watch(once: Callable[[], Finding], *, timeout_s: float, say: Callable[[str], None]) -> Finding:
    """Look until it passes or fails, or the time is over; each change is said."""
    deadline = time.monotonic() + timeout_s
    finding = Finding("waiting", "")
    while True:
        try:
            now = once()
        except ApiError as error:
            now = Finding("waiting", str(error), ("see whether this pod may reach the API server (NetworkPolicies)",))
        if now.state == "waiting" and now.text != finding.text:
            say(f"waiting: {now.text}")
        finding = now
        if finding.state != "waiting":
            return finding
        if time.monotonic() >= deadline:
            return Finding("failed", f"not up after {timeout_s:g} s: {finding.text}", finding.advice)
        time.sleep(min(POLL_S, max(0.0, deadline - time.monotonic())))


def knock(address: str) -> int:
    """HTTP status of the dashboard at an IP address, asked without a token; 0 when it does not answer."""
    host = f"[{address}]" if ":" in address else address
    try:
        with urllib.request.urlopen(f"http://{host}:{DASHBOARD_PORT}/api/version", timeout=REQUEST_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, ValueError):
        return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Is the job or the cluster of a release up?")
    parser.add_argument("mode", choices=["job", "cluster", "jobOnCluster"])
    parser.add_argument("name")
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--selector", required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--cluster", default="")
    parser.add_argument("--token", action="store_true")
    parser.add_argument("--timeout", type=float, required=True)
    options = vars(parser.parse_args(arguments))
    timeout_s = options.pop("timeout")
    target = Target(**options)
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
    api = Api(f"https://{f'[{host}]' if ':' in host else host}:{port}")
    finding = watch(lambda: look(api, target, knock), timeout_s=timeout_s, say=_say)
    kind = "RayCluster" if target.mode == "cluster" else "RayJob"
    _say(f"{finding.state}: {kind} {target.name}: {finding.text}")
    for advice in finding.advice if finding.state == "failed" else ():
        _say(f"  do: {advice}")
    return 0 if finding.state == "passed" else 1


def _say(text: str) -> None:
    print(text, flush=True)


def _failed(stage: str, state: str, status: Object) -> Finding:
    reason = status.get("reason", "")
    advice = [REASONS.get(reason or stage, "read the training's log")]
    advice += [EXITS[code] for code in re.findall(r"exit code (\d+)", status.get("message", ""))[:1] if code in EXITS]
    words = " ".join(word for word in (stage, state and f"(job {state})", _short(status)) if word)
    return Finding("failed", words, tuple(advice))


def _short(status: Object) -> str:
    message = str(status.get("message", "")).strip()
    if len(message) > LONGEST:
        message = "… " + message[-LONGEST:]
    return ": ".join(filter(None, [status.get("reason", ""), message]))


def _running(pods: Sequence[Object], workers: int) -> Finding:
    text = f"RUNNING; {_ready_of(pods)} of {workers + 1} pods ready"
    if _ready_of(pods) > workers:
        return Finding("passed", text)
    troubles, advice = _troubles(pods)
    return Finding("waiting", "\n".join([text, *troubles]), tuple(advice))


def _ready_of(pods: Sequence[Object]) -> int:
    return sum(_condition(pod, "Ready").get("status") == "True" for pod in pods)


def _condition(found: Object, kind: str) -> Object:
    conditions = found.get("status", {}).get("conditions") or ()
    return next((item for item in conditions if item["type"] == kind), {})


def _replica_failures(status: Object) -> Iterator[str]:
    """Why the operator cannot make pods, such as a ResourceQuota."""
    condition = _condition({"status": status}, "ReplicaFailure")
    if condition.get("status") == "True":
        yield f"{condition.get('reason', '')}: {condition.get('message', '')}"


def _troubles(pods: Sequence[Object]) -> tuple[list[str], list[str]]:
    """A line for each pod that is not ready and says why, and what to do about them."""
    lines = []
    for pod in pods:
        if _condition(pod, "Ready").get("status") != "True" and (why := list(_reasons(pod))):
            lines.append(f"pod {pod['metadata']['name']}: {'; '.join(why)}")
    text = "\n".join(lines)
    return lines, [advice for pattern, advice in TROUBLES.items() if re.search(pattern, text)]


def _reasons(pod: Object) -> Iterator[str]:
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        yield str(scheduled.get("message") or scheduled.get("reason", ""))
    status = pod.get("status", {})
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        state = container.get("state", {})
        for part in (state.get("waiting"), state.get("terminated"), container.get("lastState", {}).get("terminated")):
            if part and part.get("reason") not in {None, "PodInitializing", "Completed", "ContainerCreating"}:
                words = ": ".join(filter(None, [part["reason"], part.get("message", "")]))
                yield f"{container['name']} {words[:LONGEST]}"


if __name__ == "__main__":
    sys.exit(main())
