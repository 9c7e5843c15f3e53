"""`resumeFrom` a run that is still training: GitOps makes the new job before it removes the old one."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.processes import TRAIN, Process, Started, complete_steps, finish, outputs, record, until
from tests.training.raycluster import WAIT
from training import owner
from training.storage import Storage

pytestmark = pytest.mark.usefixtures("torch_installed")

FLAGS = ("--preset=tiny", "--schedule=constant", "--warmup-fraction=0", "--checkpoint-every=4", "--log-every=1")
ENDLESS = "--steps=100000"
ONE_NODE = tuple({"LOCAL_RANK": str(r), "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"} for r in range(2))


@pytest.fixture
def source(tmp_path: Path, started: Started) -> Process:
    """A run `source` that trains and has saved a checkpoint."""
    flags = (*FLAGS, ENDLESS, f"--run-path={tmp_path}/source")
    process = started.start((*TRAIN, "--num-workers=0", *flags), tmp_path / "source.log")
    until(lambda: complete_steps(tmp_path / "source") or process.popen.poll() is not None, WAIT, "a checkpoint")
    return process


def waits(process: Process) -> None:
    until(
        lambda: "waiting for the end of" in process.output() or process.popen.poll() is not None,
        WAIT,
        f"the waiting\n{process.output()}",
    )
    assert process.popen.poll() is None, process.output()


def resumed(tmp_path: Path, *more: str) -> tuple[str, ...]:
    return (*FLAGS, ENDLESS, f"--run-path={tmp_path}/run", "--resume-from=source", *more)


def test_the_end_of_a_source_that_still_trains_is_waited_for(source: Process, tmp_path: Path, started: Started) -> None:
    ranks = started.ranks(tmp_path, resumed(tmp_path), ONE_NODE)
    waits(ranks[0])
    assert f"waiting for the end of {tmp_path}/source, 0 of 600 s: run source, process {source.popen.pid}" in (
        ranks[0].output()
    )
    os.kill(source.popen.pid, signal.SIGTERM)
    assert source.wait() == 143
    last = complete_steps(tmp_path / "source")[-1]
    text = f"resumed at step {last} from {tmp_path}/source/checkpoints/step_{last:08d}"
    until(lambda: text in ranks[0].output() or ranks[0].popen.poll() is not None, WAIT, outputs(ranks))
    for rank in ranks:
        os.kill(rank.popen.pid, signal.SIGTERM)
    assert finish(ranks) == [143, 143], outputs(ranks)


def test_a_source_that_does_not_end_in_time_is_named_and_a_later_start_is_not_refused(
    source: Process, tmp_path: Path, started: Started
) -> None:
    ranks = started.ranks(tmp_path, resumed(tmp_path, "--resume-timeout=2"), ONE_NODE)
    assert finish(ranks) == [4, 4], outputs(ranks)
    said = f"{tmp_path}/source is still training (run source, process {source.popen.pid} on"
    assert said in ranks[0].output()
    assert not (tmp_path / "run" / "refused.json").exists()
    assert record(tmp_path / "source")["run"]["state"] == "running"


def test_a_request_to_stop_ends_the_waiting(source: Process, tmp_path: Path, started: Started) -> None:
    ranks = started.ranks(tmp_path, resumed(tmp_path), ONE_NODE)
    waits(ranks[0])
    for rank in ranks:
        os.kill(rank.popen.pid, signal.SIGTERM)
    assert finish(ranks) == [143, 143], outputs(ranks)
    assert "asked to stop before the training began" in ranks[0].output()
    assert not (tmp_path / "run" / "owner.json").exists()


def test_a_source_of_another_machine_whose_lease_no_longer_changes_has_ended(
    source: Process, tmp_path: Path, started: Started
) -> None:
    source.kill()
    store = Storage(str(tmp_path / "source"))
    lease = owner.read(store)
    assert lease is not None
    store.write(owner.LEASE, str(vars(replace(lease, machine="another"))).replace("'", '"').encode())
    # The wait is longer than resume_timeout: only an owner that is known to live may end the run.
    train = (
        "from training import owner; owner.DEAD_S = 3.0\nfrom training.train import main; import os; os._exit(main())"
    )
    last = complete_steps(tmp_path / "source")[-1]
    flags = (*resumed(tmp_path, "--resume-timeout=0", "--num-workers=0"), f"--steps={last + 2}")
    process = started.start((sys.executable, "-c", train, *flags), tmp_path / "log")
    assert process.wait() == 0, process.output()
    assert "waiting for the end of" in process.output()
    assert f"resumed at step {last} from {tmp_path}/source" in process.output()


def test_a_run_with_a_checkpoint_of_its_own_does_not_wait(source: Process, tmp_path: Path, started: Started) -> None:
    own = (*FLAGS, f"--run-path={tmp_path}/run", "--num-workers=0")
    assert started.start((*TRAIN, *own, "--steps=2"), tmp_path / "own.log").wait() == 0
    again = started.start((*TRAIN, *own, "--steps=4", "--resume-from=source"), tmp_path / "again.log")
    assert again.wait() == 0, again.output()
    assert "waiting for" not in again.output()
    assert "resumed at step 2" in again.output()
    assert source.popen.poll() is None


@pytest.mark.ray
@pytest.mark.usefixtures("ray_installed")
@pytest.mark.full
def test_a_request_to_stop_the_driver_ends_the_waiting_of_its_ranks(
    source: Process, tmp_path: Path, started: Started
) -> None:
    with tempfile.TemporaryDirectory(prefix="rt-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        driver = started.start((*TRAIN, *resumed(tmp_path, "--num-workers=1")), tmp_path / "log", RAY_TMPDIR=folder)
        waits(driver)
        os.kill(driver.popen.pid, signal.SIGTERM)
        assert driver.wait() == 143, driver.output()
        assert source.popen.poll() is None
        started.end()
    assert "asked to stop before the training began" in driver.output()
    assert not (tmp_path / "run" / "owner.json").exists()
