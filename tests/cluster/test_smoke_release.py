"""`environments/demo` on the bench, from `helm install` to `helm uninstall`: real operator, scheduler and Ray."""

from __future__ import annotations

import pytest

from tests.cluster.release import Space, node_of

pytestmark = pytest.mark.cluster

RANKS_PER_NODE, NODES = 4, 2
GONE_S = 90
SETTLED_S = 8  # in which the operator would have acted


def test_a_release_trains_then_rests_then_goes(space: Space) -> None:
    space.install("demo")
    job = space.job()["metadata"]["name"]
    space.wait_for_step(job)
    _ranks_are_on_the_gpu_nodes(space, job)
    _code_comes_from_the_configmap(space, job)

    assert space.wait_for_state(job, "SUCCEEDED", timeout_s=120) == "SUCCEEDED"
    _trained_and_kept(space, job)

    before = space.job()
    space.install("demo")  # the same values again
    space.settle(SETTLED_S)
    after = space.job()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert after["status"]["startTime"] == before["status"]["startTime"]

    space.uninstall("demo")
    space.wait_until_nothing_is_left(GONE_S)
    assert (space.run_folder(job) / "run.json").is_file(), "checkpoints outlive the release"


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


def _trained_and_kept(space: Space, job: str) -> None:
    record = space.record(job)
    assert record is not None
    assert record["run"]["state"] == "finished"
    losses = [step["loss"] for step in record["steps"]]
    assert len(losses) == 30
    assert sum(losses[-5:]) / 5 < sum(losses[:5]) / 5 - 0.3, losses
    assert record["topology"]["worldSize"] == RANKS_PER_NODE * NODES
    assert record["topology"]["gpusPerNode"] == 0, "device cpu: no GPU is claimed"
    assert space.checkpoints(job) == ["step_00000020", "step_00000030"], "the newest two of three"
