"""Trainings that something goes wrong with: each ends in a bounded time with one message, or goes on by itself.

The bounds are waits that fail; what is compared is what was said, the exit codes and the losses.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training.corpus import VOCAB, write_packed
from tests.training.processes import ROOT, TRAIN, Started, complete_steps, finish, losses, outputs, record, until
from tests.training.raycluster import FLAGS, WAIT, Cluster, running_head, train_workers
from tests.training.test_ray import may_mount

pytestmark = pytest.mark.usefixtures("torch_installed")
PAIR = tuple({"LOCAL_RANK": str(r), "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"} for r in range(2))
ENDLESS = "--steps=100000"
STUCK_S = 10  # the shortest limit


@pytest.mark.parametrize("stuck", [0, pytest.param(1, marks=pytest.mark.full)])
def test_the_others_give_up_on_a_rank_that_is_stuck(stuck: int, tmp_path: Path, started: Started) -> None:
    path = tmp_path / "run"
    flags = (*FLAGS, ENDLESS, f"--collective-timeout={STUCK_S}", f"--run-path={path}")
    ranks = started.ranks(tmp_path, flags, PAIR)
    until(lambda: "step 12/" in ranks[0].output(), WAIT, "step 12")
    os.kill(ranks[stuck].popen.pid, signal.SIGSTOP)
    other = ranks[1 - stuck]
    assert other.wait(STUCK_S + 60) == 1, other.output()
    lines = [line for line in other.output().splitlines() if not line.startswith(("step ", "tiny: "))]
    assert len([line for line in lines if "has lost another rank after step" in line]) == 1
    assert f"stuck for {STUCK_S} s (collective_timeout)" in other.output()
    assert "Traceback" not in other.output()
    assert record(path)["run"]["state"] == ("running" if stuck == 0 else "failed")
    assert complete_steps(path) == [10]
    assert not (path / "refused.json").exists()


def test_data_that_is_cut_off_while_it_is_read_ends_all_ranks(tmp_path: Path, started: Started) -> None:
    """One rank meets it, all of them end, and once the file is whole again the run goes on."""
    shards = [[(7 * i * i + 3 * i) % VOCAB for i in range(40_000)] for _ in range(2)]
    data, path = write_packed(tmp_path / "data", shards={"train": shards}, eos=0), tmp_path / "run"
    file, kept = data / "train-00001.bin", tmp_path / "kept"
    shutil.copyfile(file, kept)
    sizes = (f"--vocab-size={VOCAB}", "--global-batch-size=16", f"--data={data}")
    ranks = started.ranks(tmp_path, (*FLAGS, ENDLESS, *sizes, f"--run-path={path}"), PAIR)
    until(lambda: complete_steps(path), WAIT, "a checkpoint")
    os.truncate(file, 1000)
    assert finish(ranks) == [1, 1], outputs(ranks)
    text = ranks[0].output()
    assert "no data for step" in text
    assert f"{file}: ends at byte 1000 and had {kept.stat().st_size} when this run began; copy it again" in text
    assert "the checkpoints before it are kept" in text
    assert "Traceback" not in outputs(ranks)
    reached = complete_steps(path)[-1]
    shutil.copyfile(kept, file)
    again = started.ranks(tmp_path, (*FLAGS, f"--steps={reached + 5}", *sizes, f"--run-path={path}"), PAIR)
    assert finish(again) == [0, 0], outputs(again)
    assert f"resumed at step {reached}" in again[0].output()


def test_held_out_data_that_is_cut_off_ends_all_ranks(tmp_path: Path, started: Started) -> None:
    """One of two ranks meets it, in the measurement at the end, after it has taken part in the steps."""
    ids = [(7 * i * i + 3 * i) % VOCAB for i in range(20_000)]
    data = write_packed(tmp_path / "data", shards={"train": [ids], "validation": [ids]}, eos=0)
    path, file = tmp_path / "run", data / "validation-00000.bin"
    flags = (*FLAGS, ENDLESS, f"--vocab-size={VOCAB}", "--global-batch-size=16", "--validate-every=40")
    ranks = started.ranks(tmp_path, (*flags, f"--data={data}", f"--run-path={path}"), PAIR)
    until(lambda: "step 4/" in ranks[0].output(), WAIT, "step 4")
    os.truncate(file, 3000)  # rank 0 has whole sequences of a first micro-batch
    assert finish(ranks) == [1, 1], outputs(ranks)
    assert "no data for step " in ranks[0].output()
    assert f"{file}: ends at byte 3000 and had 40000 when this run began" in ranks[0].output()
    assert "Traceback" not in outputs(ranks)


def test_a_rank_that_may_not_write_is_named_before_the_first_step(tmp_path: Path, started: Started) -> None:
    """It reads what rank 0 has written, so it would fail at the first checkpoint only."""
    path = tmp_path / "run"
    path.mkdir()
    if not may_mount(tmp_path):
        pytest.skip("mounting is not allowed here")
    read_only = f'mount --bind {path} {path} && mount -o remount,bind,ro {path} && exec "$@"'
    wrapper = ("sh", "-c", f'test "$RANK" = 0 || exec unshare --mount sh -c \'{read_only}\' sh "$@"; exec "$@"', "sh")
    command = (*wrapper, *TRAIN, "--num-workers=0")
    ranks = started.ranks(tmp_path, (*FLAGS, f"--run-path={path}"), PAIR, command)
    assert finish(ranks) == [4, 4], outputs(ranks)
    assert f"rank 1 on {os.uname().nodename} cannot write to {path}: " in ranks[0].output()
    assert "Read-only file system" in ranks[0].output()
    assert (path / "refused.json").exists()


def test_ranks_that_do_not_share_the_batch_evenly_are_refused(tmp_path: Path, started: Started) -> None:
    more = started.start(
        (*TRAIN, "--num-workers=3", f"--run-path={tmp_path / 'a'}"), tmp_path / "more.log", RTD_NODES="2"
    )
    assert more.wait() == 2
    assert "--num-workers=3 is not a multiple of the 2 nodes (RTD_NODES)" in more.output()
    uneven = started.ranks(tmp_path, ("--global-batch-size=3", f"--run-path={tmp_path / 'b'}"), PAIR)
    assert finish(uneven) == [5, 5], outputs(uneven)
    assert "global_batch_size" in uneven[0].output()


@pytest.fixture(scope="module")
def cluster(ray_installed: None) -> Iterator[Cluster]:
    """Head and two nodes with a CPU each."""
    with running_head() as made:
        made.join("127.0.0.12")
        made.join("127.0.0.13")
        yield made


@pytest.mark.ray
@pytest.mark.full
def test_a_stuck_rank_and_a_lost_machine_cost_one_interval_each(
    cluster: Cluster, tmp_path: Path, started: Started
) -> None:
    """Ray Train starts the ranks again from the newest checkpoint, and the losses are those of an undisturbed run."""
    path, every = tmp_path / "run", 10  # FLAGS: a checkpoint every 10 steps
    driver = cluster.train(tmp_path / "log", ENDLESS, f"--collective-timeout={STUCK_S}", RTD_RUN_PATH=str(path))
    until(lambda: complete_steps(path), WAIT, f"a checkpoint\n{driver.output()}")
    (victim,) = train_workers(cluster.nodes[1])
    os.kill(victim, signal.SIGSTOP)
    until(lambda: driver.output().count("resumed at step") == 1, WAIT, f"the first resume\n{driver.output()}")
    first = complete_steps(path)[-1]
    until(lambda: complete_steps(path)[-1] > first, WAIT, f"a later checkpoint\n{driver.output()}")
    cluster.nodes[1].kill()  # all of the machine's processes at once
    cluster.join("127.0.0.14")
    until(lambda: driver.output().count("resumed at step") == 2, WAIT, f"the second resume\n{driver.output()}")
    os.kill(driver.popen.pid, signal.SIGTERM)
    assert driver.wait(WAIT) == 143, driver.output()
    found = losses(path)
    resumed = [a["resumedAt"] for a in record(path)["run"]["attempts"]]
    assert len(resumed) == 3
    assert resumed[0] == 0
    assert all(step % every == 0 and step > 0 for step in resumed[1:])
    # Steps that were said and then lost: fewer than one interval each time.
    said = [int(line.split()[1].split("/")[0]) for line in driver.output().splitlines() if line.startswith("step ")]
    repeated = len(said) - len(set(said))
    assert repeated < 2 * every, said
    undisturbed = tmp_path / "undisturbed"
    alone = (*TRAIN, "--num-workers=0", *FLAGS, f"--steps={len(found)}", f"--run-path={undisturbed}")
    assert started.start(alone, tmp_path / "alone.log").wait(WAIT) == 0
    assert found == pytest.approx(losses(undisturbed), abs=1e-4)


@pytest.mark.ray
def test_a_loss_that_is_no_number_is_tried_once_under_ray(cluster: Cluster, tmp_path: Path) -> None:
    """Neither Ray Train (max_failures) nor the operator's next submission takes the same steps again."""
    (tmp_path / "nan_loop.py").write_text(
        "from training.train import start\n\ndef train(session):\n    for step in session.steps():\n"
        "        session.report(step, float('nan') if step == 3 else 1.0)\n\n"
        "if __name__ == '__main__':\n    import nan_loop\n    start(nan_loop.train)\n"
    )
    environment = {
        "RAY_ADDRESS": cluster.address, "RTD_NODES": "2", "RTD_GPUS_PER_NODE": "0", "RTD_PROCESSES_PER_NODE": "1",
        "RTD_STORAGE_KIND": "pvc", "RTD_RUN_PATH": str(tmp_path / "run"),
        "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT))),
    }  # fmt: skip
    command = (sys.executable, str(tmp_path / "nan_loop.py"), *FLAGS, "--steps=5")
    first = cluster.started.start(command, tmp_path / "1.log", **environment)
    cluster.drivers.append(first)
    assert first.wait(WAIT) == 1, first.output()
    assert first.output().count("loss nan, gradient norm 0.0 at step 3") == 1, first.output()
    assert len(record(tmp_path / "run")["run"]["attempts"]) == 1
    second = cluster.started.start(command, tmp_path / "2.log", **{**environment, "RAY_ADDRESS": "127.0.0.1:1"})
    assert second.wait(60) == 1
    assert "a way that a retry cannot mend" in second.output()
