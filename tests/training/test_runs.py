"""`python -m training.runs` on what real trainings left: one finished, one killed, one that goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import require
from tests.training.processes import TRAIN, Process, Started, complete_steps, environment, record, until
from tests.training.raycluster import WAIT
from training.contract import Exit
from training.metrics import refuse
from training.runs import human
from training.storage import Storage

pytestmark = pytest.mark.usefixtures("torch_installed")

FLAGS = (*TRAIN, "--num-workers=0", "--preset=tiny", "--checkpoint-every=4", "--log-every=1")


@dataclass(frozen=True)
class Runs:
    """A storage root with `demo/default/{done,killed,live}`, and the process of the last one."""

    root: Path
    live: Process

    def path(self, name: str) -> Path:
        return self.root / "demo" / "default" / name


@pytest.fixture(scope="module")
def trained(torch_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The three runs; tests that change files take a copy."""
    folder = tmp_path_factory.mktemp("storage")
    started = Started()

    def start(name: str, steps: int) -> Process:
        path = folder / "root" / "demo" / "default" / name
        process = started.start((*FLAGS, f"--run-path={path}", f"--steps={steps}"), folder / f"{name}.log")
        until(lambda: complete_steps(path) or process.popen.poll() is not None, WAIT, f"a checkpoint of {name}")
        return process

    try:
        killed = start("killed", 100_000)
        killed.kill()
        half = folder / "root" / "demo" / "default" / "killed" / "checkpoints" / "step_00009999"
        half.mkdir()
        (half / "__0_0.distcp").write_bytes(b"half" * 1000)
        assert start("done", 10).wait() == 0
        yield Runs(folder / "root", start("live", 100_000))
    finally:
        started.end()


@pytest.fixture(params=["folder", "address"])
def copy(request: pytest.FixtureRequest, trained: Runs, tmp_path: Path) -> tuple[str, Path]:
    """A copy of the two runs that have ended: as it is given to the program, and where it lies."""
    path = tmp_path / "root"
    for name in ("done", "killed"):
        shutil.copytree(trained.path(name), path / "demo" / "default" / name)
    if request.param == "address":
        require("pyarrow")
        return f"file://{path}", path
    return str(path), path


def runs(*arguments: str, code: int = 0) -> str:
    """Standard output; with another exit code than 0 the standard error."""
    command = (sys.executable, "-m", "training.runs", *arguments)
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment(), timeout=WAIT)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def as_json(*arguments: str) -> dict[str, dict[str, Any]]:
    return {run["name"]: run for run in json.loads(runs(*arguments, "--json"))}


def test_every_run_is_listed_with_its_state(trained: Runs) -> None:
    found = as_json(str(trained.root))
    assert {name: run["state"] for name, run in found.items()} == {
        "demo/default/done": "finished",
        "demo/default/killed": "lost",
        "demo/default/live": "running",
    }
    done = found["demo/default/done"]
    assert (done["path"], done["refused"], done["owner"]) == (str(trained.path("done")), False, None)
    assert (done["step"], done["steps"]) == (10, 10)
    assert done["loss"] == record(trained.path("done"))["steps"][-1]["loss"]
    assert [(c["step"], c["complete"]) for c in done["checkpoints"]] == [(8, True), (10, True)]
    files = [p for p in trained.path("done").rglob("*") if p.is_file()]
    assert done["bytes"] == sum(p.stat().st_size for p in files)
    parts = trained.path("done") / "checkpoints" / "step_00000010"
    assert done["checkpoints"][-1]["bytes"] == sum(p.stat().st_size for p in parts.iterdir())
    assert found["demo/default/killed"]["checkpoints"][-1] == {"step": 9999, "complete": False, "bytes": 4000}
    assert found["demo/default/live"]["owner"]["pid"] == trained.live.popen.pid


def test_the_table_is_for_people_and_one_run_is_listed_by_its_path(copy: tuple[str, Path]) -> None:
    root, path = copy
    lines = runs(root).splitlines()
    assert lines[0].split("  ")[0] == "RUN"
    assert lines[1].startswith("demo/default/done    finished  10/10  ")
    assert "  8 10  " in lines[1]
    assert lines[2].startswith("demo/default/killed  lost      ")
    assert "cut off: 9999" in lines[2]
    refuse(Storage(str(path / "demo" / "default" / "done")), Exit.LAYOUT, "too few nodes")
    (_, line) = runs(f"{root}/demo/default/done").splitlines()
    assert line.startswith("done  finished, refused  10/10")


def test_old_checkpoints_and_cut_off_ones_go_and_their_bytes_are_told(copy: tuple[str, Path]) -> None:
    root, path = copy
    killed = path / "demo" / "default" / "killed"
    before = as_json(root)
    kept = complete_steps(killed)[-1]
    dry = runs(root, "--delete-all-but", "1", "--dry-run")
    assert "demo/default/done: would remove 1 (8), " in dry
    assert as_json(root) == before
    removed = as_json(root, "--delete-all-but", "1")
    after = as_json(root)
    for name, run in removed.items():
        assert run["removal"]["whyNot"] is None
        size = before[name]["bytes"] - after[name]["bytes"]
        # The lease of the killed process goes too.
        assert 0 <= size - run["removal"]["bytes"] < 1000
    assert removed["demo/default/done"]["removal"]["steps"] == [8]
    assert 9999 in removed["demo/default/killed"]["removal"]["steps"]
    assert [c["step"] for c in after["demo/default/done"]["checkpoints"]] == [10]
    assert [(c["step"], c["complete"]) for c in after["demo/default/killed"]["checkpoints"]] == [(kept, True)]
    assert not (killed / "owner.json").exists()
    assert "nothing to remove" in runs(root, "--delete-all-but", "1")


def test_the_last_checkpoint_goes_only_with_force(copy: tuple[str, Path]) -> None:
    root, path = copy
    assert "add --force" in runs(root, "--delete-all-but", "0", code=2)
    assert complete_steps(path / "demo" / "default" / "done") == [8, 10]
    assert "removed 2 (8 10)" in runs(root, "--delete-all-but", "0", "--force")
    assert all(run["checkpoints"] == [] for run in as_json(root).values())


def test_a_run_that_is_owned_is_left_alone(trained: Runs) -> None:
    path = trained.path("live")
    half = path / "checkpoints" / "step_00000001"  # older than any that is kept, so the run itself removes it
    until(lambda: len(complete_steps(path)) == 2, WAIT, "a second checkpoint")
    os.kill(trained.live.popen.pid, signal.SIGSTOP)  # its process lives, and its files stay as they are
    try:
        half.mkdir()
        before = sorted(p.name for p in (path / "checkpoints").iterdir())
        told = runs(str(path), "--delete-all-but", "0", "--force")
        assert f"live: left alone: it is owned right now (run live, process {trained.live.popen.pid} on" in told
        assert sorted(p.name for p in (path / "checkpoints").iterdir()) == before
    finally:
        os.kill(trained.live.popen.pid, signal.SIGCONT)


def test_a_run_goes_on_from_what_is_left(copy: tuple[str, Path], started: Started, tmp_path: Path) -> None:
    root, path = copy
    runs(root, "--delete-all-but", "1")
    again = started.start((*FLAGS, f"--run-path={path}/demo/default/done", "--steps=12"), tmp_path / "log")
    assert again.wait() == 0, again.output()
    assert "resumed at step 10" in again.output()


def test_where_there_are_no_runs_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c" / "d").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c" / "d" / "run.json").write_text("{}")  # too deep
    assert runs(str(tmp_path), "--json") == "[]\n"
    assert runs(str(tmp_path)) == ""
    (tmp_path / "a" / "b" / "c" / "run.json").write_text("{}")  # garbage
    assert as_json(str(tmp_path))["a/b/c"]["state"] == "unknown"


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (18_524_571_600, "18.5 GB")])
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert human(size) == text
