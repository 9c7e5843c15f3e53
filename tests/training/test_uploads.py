"""Checkpoints on S3: a real server, real ranks, and a proxy that holds or refuses their uploads.

What goes on beside what is shown by order: the proxy holds an upload until the test has seen the other event.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.checkers import require_go
from tests.training import s3
from tests.training.processes import TRAIN, Process, Started, complete_steps, finish, losses, outputs, record, until
from training import uploads
from training.storage import Storage

pytestmark = [pytest.mark.go, pytest.mark.usefixtures("torch_installed")]

FLAGS = ("--preset=tiny", "--schedule=constant", "--warmup-fraction=0", "--checkpoint-every=4", "--log-every=1")
ALONE = (*TRAIN, "--num-workers=0", *FLAGS)
ONE_NODE = tuple({"LOCAL_RANK": str(r), "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"} for r in range(2))
WAIT = 45
# Says when ranks begin to wait for an upload, and tries no upload again.
MAIN = """
import os, sys
from training import uploads
uploads.PATIENCE_S = 0.0
finish = uploads.Upload.finish
def said(self):
    print("waiting for", self._name, flush=True)
    finish(self)
uploads.Upload.finish = said
def nan_in_step_6(session):
    for step in session.steps():
        session.report(step, float("nan") if step == 6 else 1.0)
"""
TOLD = (sys.executable, "-c", f"{MAIN}\nfrom training.train import main\nos._exit(main())", "--num-workers=0", *FLAGS)
NAN = (
    sys.executable,
    "-c",
    f"{MAIN}\nfrom training.train import start\nstart(nan_in_step_6)",
    "--num-workers=0",
    *FLAGS,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3.S3]:
    """One S3 server for the module; each test has a run path of its own."""
    require_go()
    group = Started()
    try:
        yield s3.start(tmp_path_factory.mktemp("s3"), group)
    finally:
        group.end()


@pytest.fixture
def way(server: s3.S3) -> Iterator[s3.Proxy]:
    with s3.proxy(server) as proxy:
        yield proxy


@pytest.fixture
def run(server: s3.S3, request: pytest.FixtureRequest) -> tuple[str, Path]:
    """Address of the test's run path, and the folder where the server keeps its objects."""
    name = request.node.name
    return f"s3://bucket/{name}", server.files / name


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """TMPDIR of the ranks."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


def left(folder: Path) -> list[str]:
    """Local copies of checkpoints."""
    return [str(p) for p in folder.glob(f"{uploads.PREFIX}*")]


def arrives(condition: Callable[[], object], processes: list[Process], what: str) -> None:
    until(
        lambda: condition() or any(p.popen.poll() is not None for p in processes), WAIT, f"{what}\n{outputs(processes)}"
    )
    assert condition(), f"{what}\n{outputs(processes)}"


def test_two_ranks_save_and_one_goes_on_with_the_losses_of_an_undisturbed_run(
    server: s3.S3, run: tuple[str, Path], tmp_path: Path, local: Path, started: Started
) -> None:
    address, files = run
    whole = started.start((*ALONE, f"--run-path={tmp_path}/whole", "--steps=6"), tmp_path / "whole.log")
    env = {**server.env, "TMPDIR": str(local)}
    ranks = started.ranks(tmp_path, (*FLAGS, f"--run-path={address}", "--steps=4"), ONE_NODE, **env)
    assert finish(ranks) == [0, 0], outputs(ranks)
    parts = sorted(p.name for p in (files / "checkpoints" / "step_00000004").iterdir())
    assert parts == [".metadata", "__0_0.distcp", "__1_0.distcp", "complete.json"]
    resumed = started.start((*ALONE, f"--run-path={address}", "--steps=6"), tmp_path / "resumed.log", **env)
    assert resumed.wait() == 0, resumed.output()
    assert f"resumed at step 4 from {address}/checkpoints/step_00000004" in resumed.output()
    assert whole.wait() == 0, whole.output()
    assert losses(files) == pytest.approx(losses(tmp_path / "whole"), abs=1e-5)
    assert left(local) == []


def test_the_training_goes_on_while_a_checkpoint_is_uploaded(
    way: s3.Proxy, run: tuple[str, Path], tmp_path: Path, local: Path, started: Started
) -> None:
    """And the next save waits for it, so that one checkpoint at a time is on the local disk."""
    address, files = run
    way.hold = "step_00000004/__1_0"
    env = {**way.env, "TMPDIR": str(local)}
    ranks = started.ranks(tmp_path, (f"--run-path={address}", "--steps=10"), ONE_NODE, TOLD, **env)
    arrives(lambda: way.held and "waiting for checkpoints/step_00000004" in ranks[0].output(), ranks, "step 8")
    assert "step 8/10" in ranks[0].output()
    assert complete_steps(files) == []
    assert len(left(local)) == 2  # one for each rank, and none of step 8 yet
    way.release()
    assert finish(ranks) == [0, 0], outputs(ranks)
    assert complete_steps(files) == [8, 10]


def test_refused_uploads_are_tried_again(
    way: s3.Proxy, run: tuple[str, Path], tmp_path: Path, local: Path, started: Started
) -> None:
    address, files = run
    way.refuse = ".distcp"
    command = (*ALONE, f"--run-path={address}", "--steps=4")
    process = started.start(command, tmp_path / "log", **way.env, TMPDIR=str(local))
    arrives(lambda: "trying again" in process.output(), [process], "a second try")
    assert complete_steps(files) == []
    way.refuse = ""
    assert process.wait() == 0, process.output()
    assert complete_steps(files) == [4]


def test_a_rank_whose_uploads_fail_for_good_ends_all_ranks_and_is_named(
    way: s3.Proxy, run: tuple[str, Path], tmp_path: Path, local: Path, started: Started
) -> None:
    address, files = run
    way.refuse = "step_00000008/__1_0"
    env = {**way.env, "TMPDIR": str(local)}
    ranks = started.ranks(tmp_path, (f"--run-path={address}", "--steps=9"), ONE_NODE, TOLD, **env)
    assert finish(ranks) == [1, 1], outputs(ranks)
    for rank in ranks:
        assert "\nrank 1 on" in rank.output()
        assert "Traceback" not in rank.output()
        assert f"cannot save {address}/checkpoints/step_00000008: OSError: When" in rank.output()
    assert complete_steps(files) == [4]


def test_a_kill_during_an_upload_leaves_no_marker_and_the_next_start_removes_the_rest(
    way: s3.Proxy, run: tuple[str, Path], tmp_path: Path, local: Path, started: Started
) -> None:
    address, files = run
    way.hold = "step_00000008/__1_0"
    env = {**way.env, "TMPDIR": str(local)}
    ranks = started.ranks(tmp_path, (*FLAGS, f"--run-path={address}", "--steps=5000"), ONE_NODE, **env)
    half = files / "checkpoints" / "step_00000008"
    arrives(lambda: way.held and (half / ".metadata").exists(), ranks, "half of an upload")
    for process in ranks:
        process.kill()
    way.release()
    assert complete_steps(files) == [4]
    assert left(local)
    command = (*ALONE, "--checkpoint-every=0", f"--run-path={address}", "--steps=6")
    again = started.start(command, tmp_path / "again", **env)
    assert again.wait() == 0, again.output()
    assert "resumed at step 4" in again.output()
    assert complete_steps(files) == [4, 6]
    assert not half.exists()
    assert left(local) == []


def test_sigterm_during_an_upload_ends_with_143_once_both_checkpoints_are_complete(
    way: s3.Proxy, run: tuple[str, Path], tmp_path: Path, local: Path, started: Started
) -> None:
    address, files = run
    way.hold = "step_00000004/__0_0"
    command = (*TOLD, f"--run-path={address}", "--steps=5000")
    process = started.start(command, tmp_path / "log", **way.env, TMPDIR=str(local))
    arrives(lambda: way.held, [process], "an upload")
    os.kill(process.popen.pid, signal.SIGTERM)
    arrives(lambda: "waiting for checkpoints/step_00000004" in process.output(), [process], "the waiting")
    way.release()
    assert process.wait() == 143, process.output()
    last = len(record(files)["steps"])
    assert complete_steps(files) == [4, last]
    assert record(files)["run"]["state"] == "preempted"
    assert left(local) == []


def test_a_loss_that_is_no_number_ends_once_the_checkpoint_before_it_is_complete(
    way: s3.Proxy, run: tuple[str, Path], tmp_path: Path, local: Path, started: Started
) -> None:
    address, files = run
    way.hold = "step_00000004/__0_0"
    command = (*NAN, f"--run-path={address}", "--steps=8")
    process = started.start(command, tmp_path / "log", **way.env, TMPDIR=str(local))
    arrives(lambda: way.held and "waiting for" in process.output(), [process], "the waiting")
    way.release()
    assert process.wait() == 1, process.output()
    assert "loss nan, gradient norm 0.0 at step 6; the checkpoints before it are kept" in process.output()
    assert complete_steps(files) == [4]


def test_a_file_at_an_address_appears_when_it_is_whole(tmp_path: Path) -> None:
    storage = Storage(f"file://{tmp_path}/runs/a")
    (tmp_path / "source").write_bytes(os.urandom(70 * 2**20))
    seen: list[list[str]] = []
    storage.upload(tmp_path / "source", "folder/part", tick=lambda: seen.append(storage.names("folder")))
    assert seen == [["part.part"], ["part"]]


def test_a_file_at_an_address_is_read_in_any_order(tmp_path: Path) -> None:
    content = os.urandom(20 * 2**20)
    (tmp_path / "file").write_bytes(content)
    with Storage(f"file://{tmp_path}").open("file") as stream:
        for start, length in ((0, 10), (19 * 2**20, 2**21), (5, 2**20), (7, 18 * 2**20)):
            stream.seek(start)
            assert stream.read(length) == content[start : start + length]
        assert stream.seek(-3, os.SEEK_END) == len(content) - 3
        assert stream.read() == content[-3:]


def test_local_folders_of_killed_processes_go_and_those_in_use_stay(
    tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    code = "import time; from training.uploads import LocalFolder; f = LocalFolder(); print(f.path, flush=True)"
    code += "; time.sleep(600)"
    killed, living = [
        started.start((sys.executable, "-c", code), tmp_path / f"{n}.log", TMPDIR=str(tmp_path)) for n in "ab"
    ]
    for process in (killed, living):
        arrives(lambda process=process: process.output().endswith("\n"), [process], "its folder")
    killed.kill()
    (tmp_path / "other").mkdir()
    uploads.remove_left()
    assert left(tmp_path) == [living.output().strip()]
    assert (tmp_path / "other").is_dir()


def test_an_address_with_a_question_mark_is_refused_with_the_variables_to_set(tmp_path: Path, started: Started) -> None:
    command = (*ALONE, "--run-path=s3://bucket/runs/a?endpoint_override=http://127.0.0.1:9")
    process = started.start(command, tmp_path / "log")
    assert process.wait() == 4
    assert "AWS_ENDPOINT_URL_S3" in process.output()
    assert "Traceback" not in process.output()
