"""One owner of a run path: real processes that start the same run, on folders and on addresses.

A machine of another name stands for one whose processes cannot be looked at; the times are those of the tests.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.conftest import require
from tests.training.processes import TRAIN, Process, Started, complete_steps, finish, outputs, record, until
from tests.training.raycluster import WAIT
from training import owner
from training.contract import Exit, RunEndError
from training.owner import Lease, acquire
from training.storage import Storage

FLAGS = ("--preset=tiny", "--schedule=constant", "--warmup-fraction=0", "--checkpoint-every=4", "--log-every=1")
ENDLESS = "--steps=100000"
# Times in seconds short enough for a test; `{elsewhere}` makes this process one of another machine.
QUICK = """
import sys
from training import owner
owner.RENEW_S, owner.DEAD_S, owner.PATIENCE_S, owner.SETTLE_S, owner.POLL_S = 0.3, 3.0, 2.0, 0.3, 0.1
{elsewhere}
"""
ELSEWHERE = 'owner._machine = lambda: "another"'
OWN = 'held = owner.acquire(sys.argv[1], "a"); print("owns", flush=True); import time; time.sleep(float(sys.argv[2]))'
TRAINS = "from training.train import main; import os; os._exit(main())"


def script(last: str, *arguments: str, elsewhere: bool = False) -> tuple[str, ...]:
    return (sys.executable, "-c", QUICK.format(elsewhere=ELSEWHERE if elsewhere else "") + last, *arguments)


@pytest.fixture(params=["folder", "address"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A run path, plainly and through pyarrow, the code path of `s3://`."""
    if request.param == "address":
        require("pyarrow")
    return ("file://" if request.param == "address" else "") + str(tmp_path / "run")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of `QUICK` in this process."""
    for name, value in {"RENEW_S": 0.3, "DEAD_S": 3.0, "PATIENCE_S": 2.0, "SETTLE_S": 0.3, "POLL_S": 0.1}.items():
        monkeypatch.setattr(owner, name, value)


def wait_for(process: Process, text: str) -> None:
    until(lambda: text in process.output() or process.popen.poll() is not None, WAIT, f"{text}\n{process.output()}")
    assert text in process.output(), process.output()


@pytest.mark.usefixtures("quick")
def test_a_live_owner_is_named_and_a_released_path_is_free(root: str) -> None:
    first = acquire(root, "first")
    with pytest.raises(RunEndError) as refused:
        acquire(root, "second")
    first.release()
    assert (refused.value.code, refused.value.lasting) == (Exit.STORAGE, False)
    assert f"{root} has an owner already: run first, process {os.getpid()} on " in refused.value.message
    second = acquire(root, "second")
    second.release()
    assert Storage(root).names("") == []


@pytest.mark.usefixtures("quick")
def test_a_killed_owner_of_this_machine_is_known_at_once(root: str, tmp_path: Path, started: Started) -> None:
    killed = started.start(script(OWN, root, "1000"), tmp_path / "log")
    wait_for(killed, "owns")
    os.kill(killed.popen.pid, signal.SIGKILL)
    until(lambda: not owner.read(Storage(root)) or owner.read(Storage(root)).runs_here is False, 10, "its end")
    said: list[str] = []
    acquire(root, "next", say=said.append).release()  # a zombie yet: nobody has waited for it
    assert said == []


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("dies", [True, False])
def test_an_owner_of_another_machine_is_watched(root: str, tmp_path: Path, started: Started, dies: bool) -> None:
    other = started.start(script(OWN, root, "1000", elsewhere=True), tmp_path / "log")
    wait_for(other, "owns")
    said: list[str] = []
    if dies:
        other.kill()
        acquire(root, "next", say=said.append).release()
    else:
        with pytest.raises(RunEndError, match="has an owner already: run a, process"):
            acquire(root, "next", say=said.append)
    assert len(said) == 1
    assert f"{root} has an owner (run a, process {other.popen.pid}" in said[0]


@pytest.mark.usefixtures("quick")
def test_a_request_to_stop_ends_the_watching(root: str) -> None:
    Storage(root).write(owner.LEASE, json.dumps(vars(replace(Lease.of_this_process("a"), machine="another"))).encode())
    with pytest.raises(RunEndError) as stopped:
        acquire(root, "next", stop=lambda: True)
    assert stopped.value.code == Exit.PREEMPTED


def test_a_lease_of_garbage_is_no_owner_and_a_path_that_cannot_be_written_is_left_to_the_storage_check(
    quick: None, tmp_path: Path
) -> None:
    (tmp_path / "owner.json").write_text('{"token": 1')
    acquire(str(tmp_path), "next").release()
    acquire("/proc/nowhere/run", "next").release()


def test_of_many_starts_at_once_one_goes_on(root: str, tmp_path: Path, started: Started) -> None:
    starts = [started.start(script(OWN, root, "1000", elsewhere=True), tmp_path / f"log{n}") for n in range(4)]
    until(lambda: sum(p.popen.poll() is None for p in starts) <= 1, WAIT, "all starts but one to end")
    winner = [p for p in starts if p.popen.poll() is None]
    assert len(winner) == 1, outputs(starts)
    wait_for(winner[0], "owns")
    others = [p for p in starts if p is not winner[0]]
    assert [p.popen.poll() for p in others] == [1, 1, 1], outputs(starts)
    assert all("has an owner already" in p.output() and "owns" not in p.output().splitlines() for p in others)


LATE = """
write, wrote = owner._write, []
def late(storage, lease):
    if not wrote:
        print("found nobody", flush=True)
        owner.time.sleep(2)
    write(storage, lease)
    wrote.append(1)
owner._write = late
"""


def test_a_start_that_writes_late_gives_way_to_the_owner_that_it_hit(
    root: str, tmp_path: Path, started: Started
) -> None:
    """It found nobody, and a busy machine stopped it until another one had become the owner."""
    late = started.start(script(LATE + OWN, root, "1000", elsewhere=True), tmp_path / "late.log")
    wait_for(late, "found nobody")
    first = started.start(script(OWN, root, "1000", elsewhere=True), tmp_path / "first.log")
    wait_for(first, "owns")
    assert late.wait(WAIT) == 1
    assert f"has an owner already: run a, process {first.popen.pid}" in late.output()
    assert first.popen.poll() is None


def test_an_owner_that_was_taken_over_ends(root: str, tmp_path: Path, started: Started) -> None:
    """It was stopped for longer than the lease holds, as when its machine was cut off."""
    first = started.start(script(OWN, root, "1000", elsewhere=True), tmp_path / "first.log")
    wait_for(first, "owns")
    os.kill(first.popen.pid, signal.SIGSTOP)
    second = started.start(script(OWN, root, "1000"), tmp_path / "second.log")
    wait_for(second, "owns")
    os.kill(first.popen.pid, signal.SIGCONT)
    assert first.wait(30) == 1
    assert f"was taken over by run a, process {second.popen.pid} on" in first.output()
    assert second.popen.poll() is None


def test_an_owner_whose_follower_has_ended_already_ends_too(root: str, tmp_path: Path, started: Started) -> None:
    first = started.start(script(OWN, root, "1000", elsewhere=True), tmp_path / "first.log")
    wait_for(first, "owns")
    os.kill(first.popen.pid, signal.SIGSTOP)
    second = started.start(script(OWN + "; held.release()", root, "0"), tmp_path / "second.log")
    assert second.wait() == 0
    os.kill(first.popen.pid, signal.SIGCONT)
    assert first.wait(30) == 1
    assert "was taken over by one that has ended since" in first.output()
    assert Storage(root).names("") == []


@pytest.mark.usefixtures("torch_installed")
def test_a_second_training_on_the_run_path_ends_with_4_on_all_ranks_and_harms_nothing(
    tmp_path: Path, started: Started
) -> None:
    path = tmp_path / "run"
    flags = (*FLAGS, f"--run-path={path}")
    first = started.start((*TRAIN, "--num-workers=0", *flags, "--steps=100000"), tmp_path / "first.log")
    until(lambda: complete_steps(path), WAIT, "the first checkpoint")
    places = tuple({"LOCAL_RANK": str(r), "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"} for r in range(2))
    second = started.ranks(tmp_path, flags, places)
    assert finish(second) == [4, 4], outputs(second)
    assert f"{path} has an owner already: run run, process {first.popen.pid} on" in second[0].output()
    assert not (path / "refused.json").exists()
    assert record(path)["run"]["state"] == "running"
    os.kill(first.popen.pid, signal.SIGTERM)
    assert first.wait() == 143
    assert not (path / "owner.json").exists()


@pytest.mark.ray
@pytest.mark.usefixtures("ray_installed")
def test_a_second_driver_is_refused_and_one_after_a_kill_goes_on(tmp_path: Path, started: Started) -> None:
    path = tmp_path / "run"
    flags = (*FLAGS, f"--run-path={path}", "--num-workers=1", ENDLESS)
    with tempfile.TemporaryDirectory(prefix="rt-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        first = started.start((*TRAIN, *flags), tmp_path / "first.log", RAY_TMPDIR=folder)
        until(lambda: complete_steps(path) or first.popen.poll() is not None, WAIT, "the first checkpoint")
        assert first.popen.poll() is None, first.output()
        second = started.start((*TRAIN, *flags), tmp_path / "second.log", RAY_TMPDIR=folder)
        assert second.wait() == 4, second.output()
        assert f"process {first.popen.pid} on" in second.output()
        assert record(path)["run"]["state"] == "running", first.output()
        first.kill()
        started.end()
    alone = (*TRAIN, "--num-workers=0", *FLAGS, f"--run-path={path}", f"--steps={complete_steps(path)[-1] + 4}")
    third = started.start(alone, tmp_path / "third.log")
    assert third.wait() == 0, third.output()
    assert "has an owner" not in third.output()
    assert "resumed at step" in third.output()
