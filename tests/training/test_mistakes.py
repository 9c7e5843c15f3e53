"""Mistakes of users, and what other programs left: each start says so in a sentence, and nothing of value is lost."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.training.processes import TRAIN, Process, Started, complete_steps, losses, record, until

pytestmark = pytest.mark.usefixtures("torch_installed")
FLAGS = ("--preset=tiny", "--log-every=1", "--schedule=constant", "--warmup-fraction=0", "--validation-sequences=0")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, torch_installed: None) -> Path:
    """A finished run of three steps with its export; tests work on copies."""
    folder = tmp_path_factory.mktemp("finished")
    group = Started()
    try:
        process = start(group, folder / "run", "--steps=3", "--export=bfloat16")
        assert process.wait(300) == 0, process.output()
    finally:
        group.end()
    return folder / "run"


def start(started: Started, run: Path | str, *flags: str, log: Path | None = None, **env: str) -> Process:
    """A run of one process."""
    where = log or Path(str(run).removeprefix("file://")).parent / "log"
    return started.start((*TRAIN, "--num-workers=0", *FLAGS, f"--run-path={run}", *flags), where, **env)


def ends(process: Process, code: int, text: str) -> None:
    """It ends with the code, one sentence and no traceback."""
    assert process.wait(300) == code, process.output()
    assert text in process.output()
    assert "Traceback" not in process.output()


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def changed(run: Path, **content: Any) -> None:
    (run / "run.json").write_text(json.dumps({**record(run), **content}))


def test_an_export_takes_the_place_of_nothing_else(finished: Path, tmp_path: Path, started: Started) -> None:
    notes = tmp_path / "notes" / "export"
    notes.mkdir(parents=True)
    (notes / "my-notes.txt").write_text("precious")
    model = tmp_path / "model"
    shutil.copytree(finished / "export", model / "export")
    file = tmp_path / "file"
    file.mkdir()
    (file / "export").write_text("precious")
    export = ("--steps=3", "--export=bfloat16")
    mine = f"--model={model / 'export'}"
    for number, (path, flags, text) in enumerate(
        [
            (notes.parent, (), f"{notes} holds my-notes.txt, which no export has"),
            (model, (mine,), f"{model / 'export'} is the model that the run begins with"),
            (model, (), f"{model / 'export'} holds a model that this run has not exported"),
            (file, (), f"{file / 'export'} is no folder"),
        ]
    ):
        process = start(started, path, *export, *flags, log=tmp_path / f"log{number}")
        ends(process, 1, f"cannot export: {text}")
        assert "move it away" in process.output()
        assert "step 1/" not in process.output()
    assert (notes / "my-notes.txt").read_text() == (file / "export").read_text() == "precious"
    assert names(model / "export") == names(finished / "export")


def test_an_export_goes_where_its_link_points(tmp_path: Path, started: Started) -> None:
    run, large = tmp_path / "run", tmp_path / "large"
    run.mkdir()
    large.mkdir()
    (run / "export").symlink_to(large)
    process = start(started, run, "--steps=1", "--export=bfloat16")
    assert process.wait(300) == 0, process.output()
    assert (run / "export").is_symlink()
    assert (large / "config.json").is_file()
    assert not list(run.glob(".export*")) + list(tmp_path.glob(".large*"))


def test_a_finished_run_is_not_trained_again_in_silence(run: Path, tmp_path: Path, started: Started) -> None:
    other = start(started, run, "--steps=3", "--export=bfloat16", "--data=/nowhere", log=tmp_path / "1")
    ends(other, 1, "data: then none, now /nowhere")
    before = record(run)
    shutil.rmtree(run / "checkpoints")
    for flags in (("--steps=3", "--export=float32"), ("--steps=9",)):
        again = start(started, run, *flags, log=tmp_path / f"2{flags[0]}")
        ends(again, 1, f"{run} has finished, and none of its checkpoints is left to go on from; to train it again take")
    assert record(run)["steps"] == before["steps"]


def test_another_model_is_no_way_to_go_on(run: Path, finished: Path, started: Started) -> None:
    process = start(started, run, "--steps=5", f"--model={finished / 'export'}")
    ends(process, 1, f"model: checkpoint none, now {finished / 'export'}")
    assert len(record(run)["steps"]) == 3


@pytest.mark.parametrize("content", [{"version": 9}, {"validation": 5}, {"intervals": [{}]}, {"validation": [None]}])
def test_a_record_that_is_not_ours_is_kept(content: dict[str, Any], run: Path, started: Started) -> None:
    changed(run, **content)
    kept = (run / "run.json").read_text()
    process = start(started, run, "--steps=5")
    assert process.wait(300) == 0, process.output()
    assert (run / "run.json.unreadable").read_text() == kept
    assert [step["step"] for step in record(run)["steps"]] == [4, 5]


def test_names_that_mean_something_else_in_an_address(tmp_path: Path, started: Started) -> None:
    for name in ("run#1", "a%20b", "a?b"):
        process = start(started, f"file://{tmp_path}/{name}", "--steps=1", log=tmp_path / "log" / name)
        ends(process, 4, f"cannot read the run path file://{tmp_path}/{name}: ")
    assert names(tmp_path) == ["log"]


def test_a_run_is_not_its_own_source(tmp_path: Path, started: Started) -> None:
    ends(start(started, tmp_path / "run", "--resume-from=run"), 1, "resume from run: that is this run")


@pytest.mark.parametrize(
    ("flags", "env", "code", "text"),
    [
        (("--run-path=~nosuchuser/x",), {}, 1, "~nosuchuser/x: Could not determine home directory"),
        (("--model=/" + "a" * 300,), {}, 4, "is no folder on rank 0"),
        ((), {"RANK": "0", "WORLD_SIZE": "2"}, 1, "WORLD_SIZE=2 without MASTER_ADDR and MASTER_PORT"),
        (("--steps=many",), {}, 2, "error: --steps"),
    ],
)
def test_a_slip_is_a_sentence(
    flags: tuple[str, ...], env: dict[str, str], code: int, text: str, tmp_path: Path, started: Started
) -> None:
    ends(start(started, tmp_path / "run", *flags, **env), code, text)


def test_control_c_saves_like_sigterm(tmp_path: Path, started: Started) -> None:
    process = start(started, tmp_path / "run", "--steps=100000", "--checkpoint-every=0")
    until(lambda: "step 3/" in process.output() or process.popen.poll() is not None, 120, "step 3")
    process.popen.send_signal(signal.SIGINT)
    ends(process, 143, "after its checkpoint")
    assert complete_steps(tmp_path / "run") == [len(losses(tmp_path / "run"))]


@pytest.mark.parametrize(
    ("kib", "flags", "text"),
    [
        # Checkpoint (1.6 MB), curves and records fit; weights in float32 (0.5 MB) fill what is left.
        (2308, ("--steps=1", "--export=float32"), "cannot export to"),
        (1024, ("--steps=5", "--checkpoint-every=2"), "cannot save"),
    ],
)
def test_a_full_disk_is_named(kib: int, flags: tuple[str, ...], text: str, tmp_path: Path, started: Started) -> None:
    """The disk is one of this process alone."""
    from tests.training.test_ray import may_mount

    disk = tmp_path / "disk"
    disk.mkdir()
    if not may_mount(disk):
        pytest.skip("mounting is not allowed here")
    script = f'mount -t tmpfs -o size={kib}k tmpfs {disk}; "$@"; code=$?; ls -A {disk}/run; exit $code'
    command = (*TRAIN, "--num-workers=0", *FLAGS, f"--run-path={disk}/run", *flags)
    process = started.start(("unshare", "--mount", "sh", "-c", script, "sh", *command), tmp_path / "log")
    ends(process, 1, "No space left on device")
    assert text in process.output()
    assert ".export.part" not in process.output()
    assert f"run path: {disk}/run" in process.output()
