"""Real trainings without Ray: one process, several gloo ranks, torchrun. Sharding, checkpoints, resume, endings.

With a constant learning rate a step depends on nothing but the seed and the steps before it, so one undisturbed run in
one process is the measure for all others: other numbers of ranks, other sharding, killed and resumed runs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.training.processes import (
    TRAIN,
    Started,
    complete_steps,
    finish,
    losses,
    outputs,
    record,
    until,
)
from training.data import entropy

pytestmark = pytest.mark.usefixtures("torch_installed")

STEPS = 24
FLAGS = ("--preset=tiny", "--schedule=constant", "--warmup-fraction=0", "--checkpoint-every=4", "--log-every=1")
ONE_NODE = tuple({"LOCAL_RANK": str(r), "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"} for r in range(2))
TWO_NODES = tuple({"LOCAL_RANK": str(r % 2), "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": str(r // 2)} for r in range(4))
# Sums of fp32 numbers in another order; a wrong scale or a wrong sequence shows in the second digit.
CLOSE = pytest.approx


def flags(run_path: Path, steps: int = STEPS, *more: str) -> tuple[str, ...]:
    return (*FLAGS, f"--run-path={run_path}", f"--steps={steps}", *more)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[float]]]:
    """Run path and losses of one undisturbed process."""
    folder = tmp_path_factory.mktemp("reference")
    group = Started()
    try:
        process = group.start((*TRAIN, "--num-workers=0", *flags(folder / "run")), folder / "log")
        assert process.wait() == 0, process.output()
        yield folder / "run", losses(folder / "run")
    finally:
        group.end()


def test_the_loss_falls_from_ln_v_towards_the_entropy_and_is_recorded(reference: tuple[Path, list[float]]) -> None:
    path, found = reference
    assert len(found) == STEPS
    assert found[0] == pytest.approx(6.24, abs=0.15)  # ln 512
    assert entropy() < found[-1] < 2.8
    content = record(path)
    assert content["run"]["state"] == "finished"
    assert content["topology"]["worldSize"] == 1
    assert content["configuration"]["steps"] == STEPS
    assert (path / "loss.svg").read_text().startswith("<svg")
    assert complete_steps(path) == [20, 24]  # --keep-checkpoints is 2


def test_a_finished_run_ends_at_once_and_other_settings_are_refused(
    reference: tuple[Path, list[float]], tmp_path: Path, started: Started
) -> None:
    path, _ = reference
    again = started.start((*TRAIN, "--num-workers=0", *flags(path)), tmp_path / "again")
    other = started.start((*TRAIN, "--num-workers=0", *flags(path), "--seed=5"), tmp_path / "other")
    assert again.wait() == 0
    assert "nothing to do" in again.output()
    assert other.wait() == 1
    assert "seed: checkpoint 1234, now 5" in other.output()
    assert record(path)["run"]["state"] == "finished"


def test_a_finished_run_exits_with_its_code_whatever_the_end_of_the_interpreter_would_do(
    tmp_path: Path, started: Started
) -> None:
    """A thread of gloo that meets a dying interpreter aborts it, seldom; this hook does so each time."""
    code = (
        "import atexit, os, runpy, sys; atexit.register(os.abort)\n"
        f"sys.argv[1:] = ['--num-workers=0', '--steps=1', '--run-path={tmp_path}/run']\n"
        "runpy.run_module('training.train', run_name='__main__')"
    )
    process = started.start((sys.executable, "-c", code), tmp_path / "log")
    assert process.wait() == 0, process.output()
    assert process.output().endswith(f"run path: {tmp_path}/run\n")


def test_a_killed_run_of_two_ranks_goes_on_with_the_losses_of_an_undisturbed_one(
    reference: tuple[Path, list[float]], tmp_path: Path, started: Started
) -> None:
    """Two ranks equal one, and a resumed run equals both: weights, moments, data and step number all come back."""
    path = tmp_path / "run"
    killed = started.ranks(tmp_path, flags(path), ONE_NODE)
    until(lambda: complete_steps(path), 90, "the first checkpoint")
    for process in killed:
        process.kill()
    reached = complete_steps(path)[-1]
    assert reached < STEPS
    half = path / "checkpoints" / "step_00000099"  # the rest of a save that was cut off: no marker
    half.mkdir()
    (half / "__0_0.distcp").write_bytes(b"half")

    again = started.ranks(tmp_path, flags(path), ONE_NODE)
    assert finish(again) == [0, 0], outputs(again)
    assert f"resumed at step {reached} from {path}/checkpoints/step_{reached:08d}" in again[0].output()
    assert losses(path) == CLOSE(reference[1], abs=1e-5)
    assert [a["resumedAt"] for a in record(path)["run"]["attempts"]] == [0, reached]
    assert not half.exists()


def test_hybrid_sharding_of_four_ranks_goes_on_from_another_runs_checkpoint(
    reference: tuple[Path, list[float]], tmp_path: Path, started: Started
) -> None:
    """2 nodes × 2 ranks load what one rank wrote, accumulate micro-batches, and give the same losses."""
    source = tmp_path / "source"
    shutil.copytree(reference[0], source)
    shutil.rmtree(source / "checkpoints" / "step_00000024")
    more = ("--micro-batch-size=2", "--activation-checkpointing=alternate")
    four = started.ranks(tmp_path, flags(tmp_path / "run", STEPS, *more), TWO_NODES, RTD_RESUME_FROM="source")
    assert finish(four) == [0] * 4, outputs(four)
    assert "4 ranks on 2 nodes (cpu, hsdp sharding)" in four[0].output()
    steps = {s["step"]: s["loss"] for s in record(tmp_path / "run")["steps"]}
    assert sorted(steps) == [21, 22, 23, 24]
    assert list(steps.values()) == CLOSE(reference[1][20:], abs=1e-5)
    assert complete_steps(source) == [20]  # another run's folder is only read


def test_torchrun_and_an_address_as_run_path(
    reference: tuple[Path, list[float]], tmp_path: Path, started: Started
) -> None:
    """The code path of s3:// on pyarrow's local file system: each rank uploads its part, a resume downloads them."""
    address = f"file://{tmp_path}/run"
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    command = (*torchrun, "-m", "training.train", "--num-workers=0")
    common = (*FLAGS, f"--run-path={address}")
    first = started.start((*command, *common, "--steps=4"), tmp_path / "log1", TMPDIR=str(tmp_path))
    assert first.wait() == 0, first.output()
    parts = sorted(p.name for p in (tmp_path / "run" / "checkpoints" / "step_00000004").iterdir())
    assert parts == [".metadata", "__0_0.distcp", "__1_0.distcp", "complete.json"]
    alone = (*TRAIN, "--num-workers=0", *common, "--steps=6")
    second = started.start(alone, tmp_path / "log2", TMPDIR=str(tmp_path))
    assert second.wait() == 0, second.output()
    assert "resumed at step 4" in second.output()
    assert losses(tmp_path / "run") == CLOSE(reference[1][:6], abs=1e-5)
    assert not list(tmp_path.glob("ray-train-*"))  # no local copy is left


def test_sigterm_ends_after_the_step_with_a_checkpoint(
    reference: tuple[Path, list[float]], tmp_path: Path, started: Started
) -> None:
    path = tmp_path / "run"
    process = started.start((*TRAIN, "--num-workers=0", *flags(path, 5000, "--checkpoint-every=0")), tmp_path / "log")
    until(lambda: "step 3/" in process.output(), 90, "step 3")
    os.kill(process.popen.pid, signal.SIGTERM)
    assert process.wait(30) == 143
    steps = record(path)["steps"]
    assert record(path)["run"]["state"] == "preempted"
    assert complete_steps(path) == [len(steps)]
    assert f"ended at step {len(steps)} after its checkpoint" in process.output()
    assert losses(path)[:STEPS] == CLOSE(reference[1][: len(steps)], abs=1e-6)


def test_a_missing_source_of_resume_is_named_and_leaves_no_refusal(tmp_path: Path, started: Started) -> None:
    process = started.start(
        (*TRAIN, "--num-workers=0", *flags(tmp_path / "run"), "--resume-from=gone"), tmp_path / "log"
    )
    assert process.wait() == 4
    assert f"resume from gone: no complete checkpoint in {tmp_path}/gone/checkpoints" in process.output()
    assert not (tmp_path / "run" / "refused.json").exists()


def test_resume_by_a_relative_path_says_what_else_differs(
    reference: tuple[Path, list[float]], tmp_path: Path, started: Started
) -> None:
    source = os.path.relpath(reference[0], tmp_path)
    command = (*TRAIN, "--num-workers=0", *flags(tmp_path / "run", STEPS + 1), f"--resume-from={source}")
    process = started.start((*command, "--learning-rate=0.001"), tmp_path / "log", cwd=tmp_path)
    assert process.wait() == 0, process.output()
    text = (
        "reference0/run was trained with other settings, which may be meant: learning_rate: checkpoint 0.003, now 0.001"
    )
    assert text in process.output()
    assert f"resumed at step {STEPS} from " in process.output()


def test_uneven_nodes_end_with_5_on_every_rank_and_are_refused_again(tmp_path: Path, started: Started) -> None:
    places: tuple[dict[str, Any], ...] = (
        {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"},
        {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"},
        {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": "1"},
    )
    path = tmp_path / "run"
    ranks = started.ranks(tmp_path, flags(path), places)
    assert finish(ranks) == [5, 5, 5], outputs(ranks)
    assert "uneven layout: ranks per node are 2 on" in ranks[0].output()
    assert json.loads((path / "refused.json").read_text())["code"] == 5
    again = started.start((*TRAIN, "--num-workers=0", *flags(path)), tmp_path / "again")
    assert again.wait() == 5
    assert "in a way that a retry cannot mend" in again.output()


def test_a_run_path_that_is_not_shared_ends_with_4_and_names_the_blind_rank(tmp_path: Path, started: Started) -> None:
    """Each rank has its own RTD_RUN_PATH: what two pods see that mount different volumes at one path."""
    places = tuple({**place, "RTD_RUN_PATH": str(tmp_path / f"disk{r}")} for r, place in enumerate(ONE_NODE))
    common = {"RTD_STORAGE_KIND": "pvc", "HOSTNAME": "pod"}
    ranks = started.ranks(tmp_path, FLAGS, places, **common)
    assert finish(ranks) == [4, 4], outputs(ranks)
    assert f"{tmp_path}/disk0 is not one shared folder: not seen there by rank 1" in ranks[0].output()


def test_a_run_path_that_cannot_be_written_ends_with_4(tmp_path: Path, started: Started) -> None:
    process = started.start((*TRAIN, "--num-workers=0", *flags(Path("/proc/nowhere/run"))), tmp_path / "log")
    assert process.wait() == 4
    assert "rank 0 on" in process.output()
    assert "cannot write to /proc/nowhere/run" in process.output()


def test_a_garbage_marker_is_passed_over_for_the_checkpoint_before(
    reference: tuple[Path, list[float]], tmp_path: Path, started: Started
) -> None:
    path = tmp_path / "run"
    shutil.copytree(reference[0], path)
    (path / "run.json").write_text("{")
    (path / "checkpoints" / "step_00000024" / "complete.json").write_text("")
    process = started.start((*TRAIN, "--num-workers=0", *flags(path)), tmp_path / "log")
    assert process.wait() == 0, process.output()
    assert f"passed over the checkpoint of step 24: {path}/checkpoints/step_00000024/complete.json" in process.output()
    assert "resumed at step 20" in process.output()
    assert complete_steps(path) == [20, 24]


@pytest.mark.parametrize("damage", ["truncated", "garbage", "no part", "no index", "empty index"])
def test_a_damaged_checkpoint_ends_all_ranks_with_one_sentence(
    reference: tuple[Path, list[float]], tmp_path: Path, started: Started, damage: str
) -> None:
    path = tmp_path / "run"
    shutil.copytree(reference[0], path)
    (path / "run.json").unlink()
    shutil.rmtree(path / "checkpoints" / "step_00000020")
    folder = path / "checkpoints" / "step_00000024"
    part, index = folder / "__0_0.distcp", folder / ".metadata"
    if damage == "truncated":
        os.truncate(part, part.stat().st_size // 3)
    elif damage == "garbage":
        part.write_bytes(b"x" * part.stat().st_size)
    elif damage == "empty index":
        index.write_bytes(b"")
    else:
        (part if damage == "no part" else index).unlink()
    ranks = started.ranks(tmp_path, flags(path, STEPS + 2), ONE_NODE)
    assert finish(ranks, 60) == [1, 1], outputs(ranks)
    said = [line for line in ranks[0].output().splitlines() if str(folder) in line and "remove this folder" in line]
    assert len(said) == 1, ranks[0].output()
    assert "Traceback" not in "".join(rank.output() for rank in ranks)
    assert not (path / "refused.json").exists()


def test_a_gpu_that_is_promised_and_not_there_ends_with_5(tmp_path: Path, started: Started) -> None:
    gpus = {"RTD_GPUS_PER_NODE": "4", "CUDA_VISIBLE_DEVICES": ""}
    process = started.start((*TRAIN, "--num-workers=0", *flags(tmp_path / "run")), tmp_path / "log", **gpus)
    assert process.wait() == 5, process.output()
    assert "needs 1 visible GPUs there (RTD_GPUS_PER_NODE=4), found 0" in process.output()
    assert "Traceback" not in process.output()
    assert not (tmp_path / "run").exists()
