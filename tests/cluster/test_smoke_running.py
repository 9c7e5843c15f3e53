"""What reaches a training's pods, and what happens to it when the release changes: one training, in this order."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from tests.cluster.bench.bench import Bench
from tests.cluster.release import Object, Space
from tests.cluster.spaces import made_space

pytestmark = pytest.mark.cluster

GONE_S = 90
# Long enough that it is still training whatever the tests do to it.
ENDLESS = {"steps": 1_000_000_000}
# GCS, metrics, dashboard and jobs, Ray Client, dashboard agent, two exporters.
PORTS = (6379, 8080, 8265, 10001, 52365, 44217, 44227)
READ = """
import sys, urllib.error, urllib.request
url, token = sys.argv[1:]
request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
try:
    print(urllib.request.urlopen(request, timeout=10).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@dataclass(frozen=True)
class Running:
    """A release whose training is going on."""

    space: Space
    job: str


@pytest.fixture(scope="module")
def running(bench: Bench, request: pytest.FixtureRequest) -> Iterator[Running]:
    with made_space(bench, request.node) as space:
        space.install("demo", {"training": {"args": ENDLESS}})
        job = space.job()["metadata"]["name"]
        space.wait_for_step(job)
        yield Running(space, job)


def test_networkpolicy_is_enforced_here(space: Space) -> None:
    """Before anything relies on it: the same connection works, fails under a policy, and works again without it."""
    server, client = space.busybox("server", "httpd -f -p 8000"), space.busybox("client")
    near = space.busybox("near", node=server["spec"]["nodeName"])
    address = server["status"]["podIP"]
    for pod in (client, near):
        assert _reaches(space, pod, address, 8000)
    deny_all: Object = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "deny-all"},
        "spec": {"podSelector": {"matchLabels": {"name": "server"}}, "policyTypes": ["Ingress"]},
    }
    space.bench.apply(deny_all, namespace=space.name)
    for pod in (client, near):  # from another node, and from the same one
        space.bench.wait_for("the policy", lambda pod=pod: not _reaches(space, pod, address, 8000), timeout_s=20)
    space.kubectl("delete", "networkpolicy", "deny-all")
    for pod in (client, near):
        space.bench.wait_for("no policy", lambda pod=pod: _reaches(space, pod, address, 8000), timeout_s=20)


def test_only_the_token_opens_the_jobs(running: Running) -> None:
    space, job = running.space, running.job
    (head,), workers = space.pods(job, "head"), space.pods(job, "worker")

    jobs = f"http://{head['status']['podIP']}:8265/api/jobs/"
    secret = space.bench.get("secret", space.status(job)["rayClusterName"], space.name)
    assert secret is not None
    token = base64.b64decode(secret["data"]["auth_token"]).decode()

    def answer(given: str) -> str:
        """HTTP status of the jobs API, asked from a worker of the same cluster."""
        return space.exec(workers[0]["metadata"]["name"], "python", "-c", READ, jobs, given).strip()

    assert answer(token) == "200"
    assert answer("") == "401"
    assert answer("wrong") == "403"


def test_strangers_reach_no_port_of_the_pods(running: Running) -> None:
    """Neither one on another node nor one on the same node as a worker; every port on which something listens."""
    space = running.space
    strangers = [space.busybox("stranger"), space.busybox("neighbour", node="demo-gpu-1")]
    for role in ("head", "worker"):
        for pod in space.pods(running.job, role):
            listening = _listening(space, pod)
            assert listening >= ({6379, 8265} if role == "head" else {8080})
            for stranger in strangers:
                reached = _reached(space, stranger, pod["status"]["podIP"], sorted(listening | set(PORTS)))
                assert not reached, f"{stranger['metadata']['name']} reaches {reached} of {pod['metadata']['name']}"
    for stranger in strangers:
        space.kubectl("delete", "pod", stranger["metadata"]["name"])


def test_a_change_makes_one_new_job(running: Running) -> None:
    """The old one writes a checkpoint and goes. The last test of this file: it ends the training, and the release."""
    space, first = running.space, running.job
    changed = {"training": {"args": {**ENDLESS, "learning_rate": 0.001}}}
    space.install("demo", changed)
    second = _only_job_after(space, first)
    _ended_with_a_checkpoint(space, first)

    space.install("demo", {**changed, "job": {"runId": "again"}})
    third = _only_job_after(space, second)
    assert len({first, second, third}) == 3

    space.bench.wait_for("pods of the third job", lambda: space.pods(third), timeout_s=60)
    space.uninstall("demo")  # while it starts
    space.wait_until_nothing_is_left(GONE_S)


def _only_job_after(space: Space, old: str) -> str:
    """The one job that took the place of `old`, when that and its pods are gone."""
    names = set(space.names("rayjobs"))
    (new,) = names - {old}  # Helm made it before it removed the old one, or has removed that already

    def gone() -> bool:
        return space.names("rayjobs") == [new] and not space.pods(old)

    space.bench.wait_for(f"{old} and its pods to be gone", gone, timeout_s=GONE_S)
    return str(new)


def _ended_with_a_checkpoint(space: Space, job: str) -> None:
    record: Object | None = space.record(job)
    assert record is not None
    assert record["run"]["state"] == "preempted", json.dumps(record["run"])
    assert record["ending"]["code"] == 143
    last = f"step_{record['steps'][-1]['step']:08d}"
    assert last in space.checkpoints(job), "the last step that it made is one that it kept"


def _reaches(space: Space, pod: Object, address: str, port: int) -> bool:
    """Whether a TCP connection from a busybox pod is made within a second."""
    words = f"nc -w 1 {address} {port} </dev/null && echo reached"
    return "reached" in space.exec(pod["metadata"]["name"], "sh", "-c", words, check=False)


def _reached(space: Space, pod: Object, address: str, ports: Sequence[int]) -> list[int]:
    """Those of the ports to which a busybox pod can connect within two seconds; all are tried at the same time."""
    tries = " ".join(f"(nc -w 2 {address} {port} </dev/null >/dev/null 2>&1 && echo {port}) &" for port in ports)
    return [int(port) for port in space.exec(pod["metadata"]["name"], "sh", "-c", f"{tries} wait").split()]


def _listening(space: Space, pod: Object) -> set[int]:
    """TCP ports on which a pod listens, on another address than loopback."""
    table = space.exec(pod["metadata"]["name"], "cat", "/proc/net/tcp", "/proc/net/tcp6")
    rows = [line.split() for line in table.splitlines() if ":" in line and "local_address" not in line]
    sockets = [(row[1].split(":"), row[3]) for row in rows]
    loopback = ("0100007F", "00000000000000000000000001000000")
    return {int(port, 16) for (address, port), state in sockets if state == "0A" and address not in loopback}
