"""Real trainings on a real Ray cluster: a head without CPUs and two nodes with one CPU each, on loopback addresses.

The cluster is shared by the tests of this file.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training.processes import TRAIN, Started, complete_steps, losses, record, stored_logs, until
from tests.training.raycluster import FLAGS, WAIT, Cluster, running_head, train_workers

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_installed")]

ENDLESS = "--steps=100000"
UNSEEN = "a-value-that-no-log-may-hold"


def may_mount(folder: Path) -> bool:
    """Whether a process may have mounts of its own here."""
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", str(folder)]
    tried = subprocess.run(command, check=False, capture_output=True)
    return tried.returncode == 0


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is another one on the second node; the same one where mounting is not allowed."""
    return tmp_path_factory.mktemp("private")


@pytest.fixture(scope="module")
def nccl_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where NCCL would write; there is none on CPUs."""
    return tmp_path_factory.mktemp("nccl")


@pytest.fixture(scope="module")
def shared_cluster(ray_installed: None, private: Path, nccl_logs: Path) -> Iterator[Cluster]:
    """Head and two worker nodes."""
    env = {"NCCL_DEBUG_FILE": f"{nccl_logs}/nccl.%h.%p.log", "MY_TOKEN": UNSEEN}
    with running_head() as made:
        made.join("127.0.0.2", **env)
        made.join("127.0.0.3", private=private if may_mount(private) else None, **env)
        yield made


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """The shared cluster, with nothing that runs on it before and after the test."""
    yield shared_cluster
    shared_cluster.end_drivers()


def test_without_a_cluster_it_starts_a_ray_of_its_own(tmp_path: Path, started: Started) -> None:
    """`python -m training.train` on a laptop prints nothing but the training's lines.

    The run path is an address, so that Ray Train too meets the code path of `s3://`.
    """
    address = f"file://{tmp_path}/run"
    with tempfile.TemporaryDirectory(prefix="rt-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        flags = ("--steps=12", "--checkpoint-every=6", "--log-every=4", f"--run-path={address}")
        alone = started.start((*TRAIN, *flags), tmp_path / "log", RAY_TMPDIR=folder)
        assert alone.wait(WAIT) == 0, alone.output()
        started.end()
    lines = alone.output().splitlines()
    assert lines[0].startswith("tiny: 131,648 parameters, 2 ranks on 1 node (cpu, full sharding)")
    assert [line.split("  ")[0] for line in lines[1:5]] == ["step 1/12", "step 4/12", "step 8/12", "step 12/12"]
    assert lines[5].startswith("step 12/12  held-out loss ")
    assert lines[6:] == [f"finished 12 steps, loss {losses(tmp_path / 'run')[-1]:.4f}", f"run path: {address}"]
    assert losses(tmp_path / "run")[-1] < losses(tmp_path / "run")[0] - 1
    assert complete_steps(tmp_path / "run") == [6, 12]
    (logs,) = stored_logs(tmp_path / "run")
    assert logs.index["ending"]["code"] == 0
    for rank in (0, 1):
        assert f"rank {rank} ends: finished" in logs.of_rank(rank)


def test_a_run_survives_sigterm_sigkill_and_a_lost_rank(
    cluster: Cluster, nccl_logs: Path, tmp_path: Path, started: Started
) -> None:
    """One run, stopped in every way that a cluster knows, ends with the losses of an undisturbed one."""
    path = tmp_path / "run"
    # SIGTERM to the driver, as when its RayJob is deleted: the step is finished, saved, and the exit code says so.
    # Its output is where Ray's Jobs API would put it, and it is told as the Jobs API tells it.
    log, submitted = cluster.head_logs / "job-driver-one.log", json.dumps({"metadata": {"job_submission_id": "one"}})
    first = cluster.train(log, ENDLESS, RTD_RUN_PATH=str(path), RAY_JOB_CONFIG_JSON_ENV_VAR=submitted)
    until(lambda: "step 3/" in first.output() or first.popen.poll() is not None, WAIT, "step 3")
    os.kill(first.popen.pid, signal.SIGTERM)
    assert first.wait(WAIT) == 143, first.output()
    stopped = complete_steps(path)[-1]
    assert f"ended at step {stopped} after its checkpoint" in first.output()
    content = record(path)
    assert content["run"]["state"] == "preempted"
    assert [(r["nodeRank"], r["localRank"]) for r in content["topology"]["ranks"]] == [(0, 0), (1, 0)]
    assert {r["nodeIp"] for r in content["topology"]["ranks"]} == {"127.0.0.2", "127.0.0.3"}
    assert f"logs: {path}/logs/" in first.output()
    check_logs_of_a_stopped_run(path)

    # SIGKILL to the driver, as when the head is lost.
    second = cluster.train(tmp_path / "2.log", ENDLESS, RTD_RUN_PATH=str(path))
    until(lambda: complete_steps(path)[-1] > stopped, WAIT, f"a later checkpoint\n{second.output()}")
    # Ray brings the lines of a rank to the driver when it gets round to it.
    until(lambda: f"resumed at step {stopped} from" in second.output(), WAIT, f"the resume\n{second.output()}")
    os.kill(second.popen.pid, signal.SIGKILL)
    second.popen.wait(30)
    until(lambda: not any(map(train_workers, cluster.nodes)), WAIT, "the lost driver's ranks to end")
    killed = complete_steps(path)[-1]

    # SIGKILL to one rank: Ray Train starts both again, in the same driver.
    last = killed + 40
    third = cluster.train(tmp_path / "3.log", f"--steps={last}", RTD_RUN_PATH=str(path))
    until(lambda: complete_steps(path)[-1] > killed, WAIT, f"a later checkpoint\n{third.output()}")
    (victim,) = train_workers(cluster.nodes[1])
    (nccl_logs / f"nccl.vm.{victim}.log").write_text("NCCL INFO cuDriver\n")
    os.kill(victim, signal.SIGKILL)
    assert third.wait(WAIT) == 0, third.output()
    assert third.output().count("resumed at step") == 2
    assert record(path)["run"]["state"] == "finished"
    assert (path / "loss.svg").exists()
    check_logs_of_a_killed_rank(path, victim)

    undisturbed = tmp_path / "undisturbed"
    alone = (*TRAIN, "--num-workers=0", *FLAGS, f"--steps={last}", f"--run-path={undisturbed}")
    assert started.start(alone, tmp_path / "alone.log").wait(WAIT) == 0
    assert losses(path) == pytest.approx(losses(undisturbed), abs=1e-4)
    assert losses(path)[-1] < losses(path)[0] - 2

    # The same job once more, as after a GitOps revert: nothing to do, and no Ray is needed to say so.
    again = cluster.train(tmp_path / "4.log", f"--steps={last}", RTD_RUN_PATH=str(path), RAY_ADDRESS="127.0.0.1:1")
    assert again.wait(60) == 0
    assert "nothing to do" in again.output()


def check_logs_of_a_stopped_run(path: Path) -> None:
    (logs,) = stored_logs(path)
    assert (logs.index["complete"], logs.index["nodesMissing"]) == (True, [])
    assert logs.index["ending"]["code"] == 143
    assert "step 3/" in logs.texts["driver.log"]
    assert sorted(r["node"] for r in logs.index["ranks"]) == ["127.0.0.2", "127.0.0.3"]
    for found in logs.index["ranks"]:
        rank, node = found["rank"], found["node"]
        assert found["file"] == f"rank-0000{rank}.{node}.log"
        assert f"rank {rank} of 2 begins on {node}" in logs.of_rank(rank)
        assert f"rank {rank} ends: preempted: asked to stop" in logs.of_rank(rank)
        assert "==> raylet.out" in logs.texts[f"raylet.{node}.log"]


def check_logs_of_a_killed_rank(path: Path, victim: int) -> None:
    """The driver that was killed before has left none; the next one has those of both starts of its ranks."""
    _, logs = stored_logs(path)
    (rank,) = [r["rank"] for r in logs.index["ranks"] if r["pid"] == victim]
    assert f"rank {rank} of 2 begins" in logs.of_rank(rank)
    assert f"rank {rank} ends" not in logs.of_rank(rank)
    assert logs.texts[f"rank-0000{rank}.127.0.0.3.nccl.log"].endswith("NCCL INFO cuDriver\n")
    assert f"rank {1 - rank} ends with an error\nTraceback" in logs.of_rank(1 - rank)
    assert all(f"rank {rank} ends: finished" in logs.of_rank(rank, start=2) for rank in (0, 1))
    assert not any(UNSEEN in text for text in logs.texts.values())


def test_too_few_nodes_end_with_5_and_a_retry_is_refused_at_once(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "run"
    env = {"RTD_RUN_PATH": str(path), "RTD_NODES": "3"}
    driver = cluster.train(tmp_path / "1.log", "--start-timeout=2", **env)
    assert driver.wait(WAIT) == 5, driver.output()
    assert "needed 3 nodes with CPUs, found 2" in driver.output()
    assert json.loads((path / "refused.json").read_text())["code"] == 5
    (logs,) = stored_logs(path)
    assert (logs.index["ranks"], logs.index["ending"]["code"]) == ([], 5)
    assert len([name for name in logs.texts if name.startswith("raylet.")]) == 3
    retry = cluster.train(tmp_path / "2.log", **env, RAY_ADDRESS="127.0.0.1:1")
    assert retry.wait(60) == 5
    assert "needed 3 nodes with CPUs, found 2" in retry.output()


@pytest.mark.full
def test_a_volume_that_one_node_does_not_share_ends_with_4_and_is_not_retried(
    cluster: Cluster, private: Path, tmp_path: Path
) -> None:
    """The second node has another file system at the run path."""
    if not may_mount(private):
        pytest.skip("mounting is not allowed here, so both nodes see the same folder")
    driver = cluster.train(tmp_path / "log", RTD_RUN_PATH=str(private / "run"))
    assert driver.wait(WAIT) == 4, driver.output()
    text = f"{private}/run is not one shared folder: not seen there by rank 1 on 127.0.0."
    assert driver.output().count(text) == 1, driver.output()
    (logs,) = stored_logs(private / "run")
    for rank in (0, 1):
        assert f"rank {rank} ends: failed: {private}/run is not one shared folder" in logs.of_rank(rank)
    # Storage `none` promises no shared folder: the run goes on, says so, and the driver keeps the record.
    # Nor do logs that cannot be written change how it ends.
    own = private / "own"
    own.mkdir()
    (own / "logs").write_text("not a folder")
    none = cluster.train(tmp_path / "none.log", "--steps=3", RTD_RUN_PATH=str(own), RTD_STORAGE_KIND="none")
    assert none.wait(WAIT) == 0, none.output()
    assert "no checkpoints: storage is none" in none.output()
    assert f"warning: not all logs were copied to {own}/logs/" in none.output()
    assert [s["step"] for s in record(own)["steps"]] == [1, 2, 3]


@pytest.mark.full
def test_a_node_that_is_taken_away_leaves_a_checkpoint_and_its_replacement_goes_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    """SIGTERM to a node, as Kubernetes sends it to a pod: Ray drains it, the ranks hear of it and save at once."""
    path = tmp_path / "run"
    driver = cluster.train(tmp_path / "log", ENDLESS, "--checkpoint-every=0", RTD_RUN_PATH=str(path))
    until(lambda: "step 3/" in driver.output(), WAIT, f"step 3\n{driver.output()}")
    os.kill(cluster.nodes[1].popen.pid, signal.SIGTERM)
    notice = "saved, going on until the node is gone"
    until(lambda: notice in driver.output(), WAIT, f"the notice\n{driver.output()}")
    saved = complete_steps(path)
    assert f"checkpoint of step {saved[0]} {notice}" in driver.output()
    assert "is taken away" in driver.output()
    cluster.join("127.0.0.4")
    until(lambda: f"resumed at step {saved[0]}" in driver.output(), WAIT, f"the resume\n{driver.output()}")
    # Now the job is deleted: every pod is asked to end together with the driver, and no node accepts anything new.
    for process in (driver, *(n for n in cluster.nodes if n.popen.poll() is None)):
        os.kill(process.popen.pid, signal.SIGTERM)
    assert driver.wait(WAIT) == 143, driver.output()
    assert {r["nodeIp"] for r in record(path)["topology"]["ranks"]} == {"127.0.0.2", "127.0.0.4"}
    (logs,) = stored_logs(path)
    assert all(f"rank {rank} ends: preempted" in logs.of_rank(rank, start=2) for rank in (0, 1)), logs.index
    assert [n["node"] for n in logs.index["nodesMissing"]] == ["127.0.0.3"]
    assert sorted(r["node"] for r in logs.index["ranks"] if r["file"] is None) == ["127.0.0.3"]
