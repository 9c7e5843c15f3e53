"""files/tests/check.py: what it makes of statuses and pods, and that it asks a real HTTPS server as a pod would."""

from __future__ import annotations

import importlib.util
import json
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.certificates import self_signed
from tests.helm import CHART

FILE = CHART / "files" / "tests" / "check.py"
JOB = "/apis/ray.io/v1/namespaces/ns/rayjobs/demo"
CLUSTER = "/apis/ray.io/v1/namespaces/ns/rayclusters/big"
PODS = "/api/v1/namespaces/ns/pods"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release_check", FILE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["release_check"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


check = _load()


def target(mode: str = "job", **more: Any) -> Any:
    return check.Target(mode=mode, namespace="ns", name="demo", selector="a=b", workers=2, **more)


def pod(name: str = "demo-head", *, ready: bool = True, scheduled: str = "", **status: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    if scheduled:
        conditions.append({"type": "PodScheduled", "status": "False", "message": scheduled})
    return {"metadata": {"name": name}, "status": {"conditions": conditions, **status}}


def of_job(*pods: Any, **status: Any) -> Any:
    return check.job_finding({"status": status}, pods, target())


def waiting_container(reason: str, message: str = "") -> dict[str, Any]:
    return {"containerStatuses": [{"name": "ray-head", "state": {"waiting": {"reason": reason, "message": message}}}]}


def test_a_job_that_has_succeeded_or_runs_with_all_pods_passes() -> None:
    assert of_job(jobDeploymentStatus="Complete", jobStatus="SUCCEEDED").state == "passed"
    running = {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}
    assert of_job(pod(), pod("a"), pod("b"), **running).state == "passed"
    lost = of_job(pod(), pod("a"), pod("b", ready=False, **waiting_container("ImagePullBackOff")), **running)
    assert lost.state == "waiting"
    assert "2 of 3 pods ready" in lost.text


@pytest.mark.parametrize(
    ("status", "words", "advice"),
    [
        ({"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": "AppFailed", "message": "exit code 3"},
         "AppFailed: exit code 3", "not the expected network"),
        ({"jobDeploymentStatus": "Failed", "reason": "PreRunningDeadlineExceeded"}, "PreRunning", "raise job.pre"),
        ({"jobDeploymentStatus": "Failed", "reason": "DeadlineExceeded"}, "Deadline", "raise job.activeDeadline"),
        ({"jobDeploymentStatus": "ValidationFailed", "jobStatus": "RUNNING", "reason": "ValidationFailed"},
         "ValidationFailed", "does not recover"),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, "STOPPED", "new text to train again"),
        ({"jobDeploymentStatus": "Failed", "reason": "OfALaterOperator"}, "OfALaterOperator", "training's log"),
    ],
)  # fmt: skip
def test_a_job_that_has_ended_otherwise_fails_with_what_to_do(status: Any, words: str, advice: str) -> None:
    found = of_job(**status)
    assert found.state == "failed"
    assert words in found.text
    assert advice in " ".join(found.advice)


@pytest.mark.parametrize(
    ("status", "words", "advice"),
    [
        ({}, "has not looked at it", "operator runs"),
        ({"jobDeploymentStatus": "Initializing"}, "0 of 3 pods ready", ""),
        ({"jobDeploymentStatus": "Running", "jobStatus": ""}, "state empty", "operatorNamespace"),
        ({"jobDeploymentStatus": "Running", "jobStatus": "PENDING"}, "state PENDING", ""),
        ({"jobDeploymentStatus": "Suspended"}, "a queue holds it back", "kubectl get workloads"),
        ({"jobDeploymentStatus": "Retrying", "jobStatus": "FAILED", "reason": "AppFailed"}, "AppFailed", "next one"),
        ({"jobDeploymentStatus": "Initializing", "rayClusterStatus": {"conditions": [
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreateHeadPod", "message": "exceeded quota"}
        ]}}, "FailedCreateHeadPod: exceeded quota", ""),
    ],
)  # fmt: skip
def test_a_job_that_is_on_its_way_is_waited_for(status: Any, words: str, advice: str) -> None:
    found = of_job(**status)
    assert found.state == "waiting"
    assert words in found.text
    assert advice in " ".join(found.advice)


@pytest.mark.parametrize(
    ("found", "words", "advice"),
    [
        (pod(ready=False, scheduled="0/3 nodes are available: 3 Insufficient vpc.amazonaws.com/efa."),
         "Insufficient vpc.amazonaws.com/efa", "EFA device plugin"),
        (pod(ready=False, scheduled="0/3 nodes: 2 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {a: }"),
         "untolerated taint", "quota and capacity"),
        (pod(ready=False, **waiting_container("ImagePullBackOff", "not found")), "ray-head ImagePullBackOff", "image."),
        (pod(ready=False, **waiting_container("CreateContainerConfigError", 'secret "x" not found')), "x", "Secret"),
        (pod(ready=False, containerStatuses=[
            {"name": "ray-head", "state": {}, "lastState": {"terminated": {"reason": "OOMKilled"}}}
        ]), "OOMKilled", "memory"),
    ],
)  # fmt: skip
def test_pods_say_why_they_are_not_ready(found: Any, words: str, advice: str) -> None:
    seen = of_job(found, jobDeploymentStatus="Initializing")
    assert "pod demo-head: " in seen.text
    assert words in seen.text
    assert advice in " ".join(seen.advice)


def test_pods_that_only_start_are_no_trouble() -> None:
    starting = pod(ready=False, **waiting_container("PodInitializing"))
    assert of_job(starting, jobDeploymentStatus="Initializing").text == "Initializing; 0 of 3 pods ready"


def of_cluster(**status: Any) -> Any:
    return check.cluster_finding({"status": status}, [], target("cluster"))


def test_a_cluster_needs_all_of_its_workers() -> None:
    assert of_cluster(state="ready", readyWorkerReplicas=2, desiredWorkerReplicas=2).state == "passed"
    assert of_cluster(state="ready", readyWorkerReplicas=1, desiredWorkerReplicas=1).state == "waiting"
    assert of_cluster(state="ready", readyWorkerReplicas=2, desiredWorkerReplicas=3).text == "2 of 3 workers ready"
    assert of_cluster(readyWorkerReplicas=2, desiredWorkerReplicas=2).state == "waiting"
    assert "queue" in of_cluster(state="suspended").text
    assert "refuses" in of_cluster().text


def test_the_dashboard_must_ask_for_the_token() -> None:
    assert check.token_finding(401).state == "passed"
    assert check.token_finding(0).state == "waiting"
    assert check.token_finding(200).state == "failed"


def test_messages_are_cut() -> None:
    found = of_job(jobDeploymentStatus="Failed", reason="AppFailed", message="x" * 9000 + "the end")
    assert found.text.endswith("the end")
    assert len(found.text) < 2200


@contextmanager
def served(paths: dict[str, Any], tmp_path: Path) -> Iterator[tuple[str, Path, list[str]]]:
    """An HTTPS server with these objects: its address, an account that may read them, and what was asked of it."""
    account = tmp_path / "account"
    account.mkdir()
    key = self_signed(account / "ca.crt")
    (account / "token").write_text("secret\n", encoding="utf-8")
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            path = self.path.partition("?")[0]
            allowed = self.headers["Authorization"] == "Bearer secret"
            body = paths.get(path)
            self.send_response(200 if allowed and body is not None else 404 if allowed else 403)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(account / "ca.crt", key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", account, asked
    finally:
        server.shutdown()
        server.server_close()


def run(monkeypatch: pytest.MonkeyPatch, address: str, account: Path, *more: str, mode: str = "job") -> int:
    host, _, port = address.partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(check.Api.__init__, "__defaults__", (account,))
    monkeypatch.setattr(check, "POLL_S", 0.05)
    words = [mode, "demo", "--namespace=ns", "--selector=a=b,c", "--workers=2", "--timeout=0.5", *more]
    status: int = check.main(words)
    return status


def test_it_reads_the_api_and_ends_with_0(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = {"status": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}}
    with served({JOB: done, PODS: {"items": []}}, tmp_path) as (address, account, asked):
        assert run(monkeypatch, address, account) == 0
    assert asked == [JOB, f"{PODS}?labelSelector=a%3Db%2Cc"]
    assert capsys.readouterr().out == "passed: RayJob demo: the training has SUCCEEDED\n"


def test_it_gives_up_after_its_time_with_what_it_saw_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stuck = pod(ready=False, scheduled="3 Insufficient nvidia.com/gpu")
    objects = {JOB: {"status": {"jobDeploymentStatus": "Initializing"}}, PODS: {"items": [stuck]}}
    with served(objects, tmp_path) as (address, account, _):
        assert run(monkeypatch, address, account) == 1
    said = capsys.readouterr().out
    assert said.startswith("waiting: Initializing; 0 of 3 pods ready\npod demo-head: 3 Insufficient nvidia.com/gpu\n")
    assert said.count("waiting: ") == 1, "what has not changed is not said again"
    assert "failed: RayJob demo: not up after 0.5 s: Initializing" in said
    assert "  do: see the node group's size, quota" in said


def test_what_is_not_there_fails_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served({JOB: {}, PODS: {"items": []}}, tmp_path) as (address, account, _):
        assert run(monkeypatch, address, account, "--cluster=big", mode="jobOnCluster") == 1
        assert "failed: RayJob demo: there is no raycluster big" in capsys.readouterr().out
        assert run(monkeypatch, address, account, mode="cluster") == 1
        assert "there is no raycluster demo" in capsys.readouterr().out


def test_a_job_on_a_cluster_says_how_the_cluster_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = {"status": {"readyWorkerReplicas": 1, "desiredWorkerReplicas": 2}}
    with served({JOB: {}, CLUSTER: half, PODS: {"items": []}}, tmp_path) as (address, account, _):
        assert run(monkeypatch, address, account, "--cluster=big", mode="jobOnCluster") == 1
    assert "RayCluster big: 1 of 2 workers ready" in capsys.readouterr().out


def test_an_api_that_gives_no_answer_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served({}, tmp_path) as (address, account, _):
        (account / "token").write_text("wrong", encoding="utf-8")
        assert run(monkeypatch, address, account) == 1
        assert "the Kubernetes API answers 403" in capsys.readouterr().out
    assert run(monkeypatch, address, account) == 1
    assert "no answer of the Kubernetes API" in capsys.readouterr().out


def test_it_needs_only_the_standard_library() -> None:
    names = {
        line.split()[1].partition(".")[0]
        for line in FILE.read_text().splitlines()
        if line.startswith(("import ", "from "))
    }
    assert names <= sys.stdlib_module_names
