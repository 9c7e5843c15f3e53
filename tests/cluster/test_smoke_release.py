"""`environments/demo` on the bench, from `helm install` to `helm uninstall`: real operator, scheduler and Ray.

One release goes through its life in the order of this file: a cluster takes a minute to start on two cores.
"""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.cluster.bench.bench import Bench
from tests.cluster.release import STARTED_S, TRAINED_S, Object, Space, node_of
from tests.cluster.spaces import FAILED, made_space

pytestmark = pytest.mark.cluster

RANKS_PER_NODE, NODES = 4, 2
GONE_S = 90
SETTLED_S = 6  # in which the operator would have acted
ENDLESS = {"training": {"args": {"steps": 1_000_000_000}}}
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


def names(function: Callable[..., Any]) -> list[str]:
    """Names of a test's fixtures."""
    return list(inspect.signature(function).parameters)


@dataclass
class Release:
    """The release, and the names of its jobs, the newest last."""

    space: Space
    jobs: list[str] = field(default_factory=list)

    @property
    def job(self) -> str:
        return self.jobs[-1]

    def install(self, values: Mapping[str, Any] | None = None) -> None:
        self.space.install("demo", values)


@pytest.fixture(scope="module")
def _release(bench: Bench, request: pytest.FixtureRequest) -> Iterator[Release]:
    with made_space(bench, request.node) as space:
        made = Release(space)
        made.install(ENDLESS)
        made.jobs.append(space.job()["metadata"]["name"])
        space.wait_for_state(made.job, "RUNNING", timeout_s=STARTED_S)
        yield made


@pytest.fixture
def release(request: pytest.FixtureRequest) -> Release:
    """The release as the tests before have left it."""
    if request.node.parent.stash.get(FAILED, False):
        pytest.skip("an earlier step of this release has failed")
    steps = [name for name, it in vars(request.module).items() if name.startswith("test_") and "release" in names(it)]
    selected = {item.name for item in request.session.items if item.parent is request.node.parent}
    missing = [name for name in steps[: steps.index(request.node.name)] if name not in selected]
    if missing:
        pytest.fail(f"needs the steps before it ({', '.join(missing)}): run the whole file", pytrace=False)
    made: Release = request.getfixturevalue("_release")
    return made


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


def test_only_the_token_opens_the_jobs(release: Release) -> None:
    space, job = release.space, release.job
    (head,), workers = space.pods(job, "head"), space.pods(job, "worker")
    jobs = f"http://{head['status']['podIP']}:8265/api/jobs/"
    secret = space.bench.get("secrets", space.status(job)["rayClusterName"], space.name)
    assert secret is not None
    token = base64.b64decode(secret["data"]["auth_token"]).decode()

    def answer(given: str) -> str:
        """HTTP status of the jobs API, asked from a worker of the same cluster."""
        return space.exec(workers[0]["metadata"]["name"], "python", "-c", READ, jobs, given).strip()

    assert answer(token) == "200"
    assert answer("") == "401"
    assert answer("wrong") == "403"


def test_strangers_reach_no_port_of_the_pods(release: Release) -> None:
    """Neither one on another node nor one on the same node as a worker; every port on which something listens."""
    space = release.space
    targets: list[tuple[str, int]] = []
    for pod in space.pods(release.job):
        listening = _listening(space, pod)
        assert listening >= ({6379, 8265} if "head" in pod["metadata"]["name"] else {8080})
        targets += [(pod["status"]["podIP"], port) for port in sorted(listening | set(PORTS))]
    for name, node in (("stranger", ""), ("neighbour", "demo-gpu-1")):
        stranger = space.busybox(name, node=node)
        assert _reached(space, stranger, targets) == [], name
        space.kubectl("delete", "pod", name)


def test_a_changed_argument_makes_one_new_job(release: Release) -> None:
    """The old one writes a checkpoint in its grace period, and goes."""
    space, old = release.space, release.job
    space.wait_for_step(old)
    release.install()  # without the endless number of steps
    release.jobs.append(space.only_job_after(old, timeout_s=GONE_S))

    record = space.record(old)
    assert record is not None
    assert record["run"]["state"] == "preempted", json.dumps(record["run"])
    assert record["ending"]["code"] == 143
    last = f"step_{record['steps'][-1]['step']:08d}"
    assert last in space.checkpoints(old), "the last step that it made is one that it kept"


def test_the_new_job_trains_on_both_nodes(release: Release) -> None:
    space, job = release.space, release.job
    space.wait_for_step(job)
    _ranks_are_on_the_gpu_nodes(space, job)
    _code_comes_from_the_configmap(space, job)

    space.wait_for_state(job, "SUCCEEDED", timeout_s=TRAINED_S)
    record = space.record(job)
    assert record is not None
    assert record["run"]["state"] == "finished"
    losses = [step["loss"] for step in record["steps"]]
    assert len(losses) == 30
    assert sum(losses[-5:]) / 5 < sum(losses[:5]) / 5 - 0.3, losses
    assert record["topology"]["worldSize"] == RANKS_PER_NODE * NODES
    assert record["topology"]["gpusPerNode"] == 0, "device cpu: no GPU is claimed"
    assert space.checkpoints(job) == ["step_00000020", "step_00000030"], "the newest two of three"


def test_the_same_values_again_change_nothing(release: Release) -> None:
    space = release.space
    before = space.job()
    release.install()
    space.settle(SETTLED_S)
    after = space.job()
    for key in ("name", "uid", "generation"):
        assert after["metadata"][key] == before["metadata"][key]
    assert after["status"]["startTime"] == before["status"]["startTime"]


def test_a_run_id_makes_one_more_job(release: Release) -> None:
    space, old = release.space, release.job
    release.install({"job": {"runId": "again"}})
    release.jobs.append(space.only_job_after(old, timeout_s=GONE_S, with_pods=False))
    assert len(set(release.jobs)) == len(release.jobs) == 3


def test_uninstall_leaves_nothing_while_a_job_runs(release: Release) -> None:
    space = release.space
    space.wait_for_state(release.job, "RUNNING", timeout_s=STARTED_S)
    space.uninstall("demo")
    space.wait_until_nothing_is_left(GONE_S)
    for job in release.jobs[:2]:
        assert space.checkpoints(job), "checkpoints outlive the release"


def _ranks_are_on_the_gpu_nodes(space: Space, job: str) -> None:
    groups = {node.name: node.group for node in space.bench.nodes}
    workers, (head,) = space.pods(job, "worker"), space.pods(job, "head")
    nodes = [node_of(pod) for pod in workers]
    assert len(nodes) == len(set(nodes)) == NODES
    assert {groups[node] for node in nodes} == {"demo-gpu"}
    assert groups[node_of(head)] == "system"
    for pod in workers:
        devices = space.exec(pod["metadata"]["name"], "bash", "-c", "echo $NVIDIA_VISIBLE_DEVICES $BENCH_EFA_DEVICES")
        assert devices.split() == ["gpu-0,gpu-1,gpu-2,gpu-3", "efa-0"], "what the device plugins handed out"
    record = space.record(job)
    assert record is not None
    addresses = sorted(pod["status"]["podIP"] for pod in workers)
    hosts = record["topology"]["ranks"]
    assert sorted({rank["nodeIp"] for rank in hosts}) == addresses
    assert [sum(rank["nodeIp"] == address for rank in hosts) for address in addresses] == [RANKS_PER_NODE] * NODES


def _code_comes_from_the_configmap(space: Space, job: str) -> None:
    (head,) = space.pods(job, "head")
    name = head["metadata"]["name"]
    where = "import training; print(training.__file__)"
    assert space.exec(name, "python", "-c", where).strip() == "/opt/ray-train/training/__init__.py"
    without = space.exec(name, "env", "-u", "PYTHONPATH", "python", "-c", where, check=False)
    assert without == "", "the image itself must not hold the training"


def _reaches(space: Space, pod: Object, address: str, port: int) -> bool:
    """Whether a TCP connection from a busybox pod is made within a second."""
    words = f"nc -w 1 {address} {port} </dev/null && echo reached"
    return "reached" in space.exec(pod["metadata"]["name"], "sh", "-c", words, check=False)


def _reached(space: Space, pod: Object, targets: Sequence[tuple[str, int]]) -> list[str]:
    """Those of the addresses and ports to which a busybox pod can connect within two seconds; all tried at once."""
    tries = [f"(nc -w 2 {ip} {port} </dev/null >/dev/null 2>&1 && echo {ip}:{port}) &" for ip, port in targets]
    return space.exec(pod["metadata"]["name"], "sh", "-c", " ".join([*tries, "wait"])).split()


def _listening(space: Space, pod: Object) -> set[int]:
    """TCP ports on which a pod listens, on another address than loopback."""
    table = space.exec(pod["metadata"]["name"], "cat", "/proc/net/tcp", "/proc/net/tcp6")
    rows = [line.split() for line in table.splitlines() if ":" in line and "local_address" not in line]
    sockets = [(row[1].split(":"), row[3]) for row in rows]
    loopback = ("0100007F", "00000000000000000000000001000000")
    return {int(port, 16) for (address, port), state in sockets if state == "0A" and address not in loopback}
