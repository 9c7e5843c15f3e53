"""A training loop of one's own keeps everything around it: docs/examples/own_loop.py, and loops that are wrong."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.training.processes import ROOT, TRAIN, Started, complete_steps, losses, record, until

pytestmark = pytest.mark.usefixtures("torch_installed")
EXAMPLE = (sys.executable, str(ROOT / "docs/examples/own_loop.py"))
FLAGS = ("--preset=tiny", "--steps=12", "--checkpoint-every=4", "--log-every=1", "--schedule=constant")


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Losses of the bundled loop."""
    folder = tmp_path_factory.mktemp("usual")
    group = Started()
    try:
        process = group.start((*TRAIN, "--num-workers=0", *FLAGS, f"--run-path={folder / 'run'}"), folder / "log")
        assert process.wait() == 0, process.output()
        return losses(folder / "run")
    finally:
        group.end()


def test_the_example_stops_resumes_and_records_like_the_bundled_loop(
    usual: list[float], tmp_path: Path, started: Started
) -> None:
    command = (*EXAMPLE, "--num-workers=0", *FLAGS, f"--run-path={tmp_path / 'run'}")
    first = started.start(command, tmp_path / "first")
    until(lambda: "step 3/12" in first.output(), 60, "three steps")
    first.popen.send_signal(signal.SIGTERM)
    assert first.wait() == 143, first.output()
    second = started.start(command, tmp_path / "second")
    assert second.wait() == 0, second.output()
    assert "resumed at step" in second.output()
    assert losses(tmp_path / "run") == pytest.approx(usual, rel=1e-5)
    assert record(tmp_path / "run")["run"]["state"] == "finished"
    assert complete_steps(tmp_path / "run") == [8, 12]


@pytest.mark.ray
@pytest.mark.full
def test_the_example_runs_on_ray(usual: list[float], tmp_path: Path, started: Started) -> None:
    command = (*EXAMPLE, "--num-workers=2", *FLAGS, f"--run-path={tmp_path / 'run'}")
    process = started.start(command, tmp_path / "log")
    assert process.wait(240) == 0, process.output()
    assert losses(tmp_path / "run") == pytest.approx(usual, rel=1e-4)


def test_without_clipping_every_step_is_taken(tmp_path: Path, started: Started) -> None:
    command = (*EXAMPLE, "--num-workers=0", *FLAGS, "--gradient-clip=0", f"--run-path={tmp_path / 'run'}")
    process = started.start(command, tmp_path / "log")
    assert process.wait() == 0, process.output()
    assert "left out" not in process.output()
    assert losses(tmp_path / "run")[-1] < losses(tmp_path / "run")[0] - 0.5


def test_an_error_in_the_loop_is_in_the_record(tmp_path: Path, started: Started) -> None:
    """Also the steps since the record was last written, and the optimiser's learning rate where none was told."""
    module = tmp_path / "bug_loop.py"
    module.write_text(
        "from training.train import start\n\ndef train(session):\n    for step in session.steps():\n"
        "        if step == 6:\n            raise ValueError('my bug')\n"
        "        session.report(step, 1.0)\n\nstart(train)\n"
    )
    command = (sys.executable, str(module), "--num-workers=0", *FLAGS, f"--run-path={tmp_path / 'run'}")
    process = started.start(command, tmp_path / "log")
    assert process.wait() == 1
    assert "ValueError: my bug" in process.output()
    content = record(tmp_path / "run")
    assert (content["run"]["state"], content["ending"]["message"]) == ("failed", "ValueError: my bug")
    assert [step["step"] for step in content["steps"]] == [1, 2, 3, 4, 5]
    assert content["steps"][0]["learningRate"] == 0.003
    assert not (tmp_path / "run" / "refused.json").exists()


def test_a_spike_is_left_out(tmp_path: Path, started: Started) -> None:
    """With a bound that every gradient exceeds tenfold no step is taken, and the loss stays where it began."""
    command = (*EXAMPLE, "--num-workers=0", *FLAGS, "--gradient-clip=0.001", f"--run-path={tmp_path / 'run'}")
    process = started.start(command, tmp_path / "log")
    assert process.wait() == 0, process.output()
    assert process.output().count("left out: its gradient has the norm") == 12
    assert losses(tmp_path / "run") == pytest.approx([6.24] * 12, abs=0.15)


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("for step in session.steps(): pass", 1, "has not called session.report(1, …) in step 1"),
        ("return", 1, "the training loop ended at step 0 of 12"),
        (
            "[session.report(step, float('nan')) for step in session.steps()]",
            1,
            "loss nan, gradient norm 0.0 at step 1",
        ),
    ],
)
def test_a_wrong_loop_ends_with_a_message(tmp_path: Path, started: Started, body: str, code: int, message: str) -> None:
    module = tmp_path / "wrong_loop.py"
    module.write_text(f"from training.train import start\n\ndef train(session):\n    {body}\n\nstart(train)\n")
    process = started.start(
        (sys.executable, str(module), "--num-workers=0", *FLAGS, f"--run-path={tmp_path / 'run'}"), tmp_path / "log"
    )
    assert process.wait() == code
    assert message in process.output()


def test_a_loss_that_is_no_number_is_not_tried_again(tmp_path: Path, started: Started) -> None:
    """The same step would be taken again: the next start is refused at once, with the way out."""
    module = tmp_path / "nan_loop.py"
    module.write_text(
        "from training.train import start\n\ndef train(session):\n    for step in session.steps():\n"
        "        session.report(step, float('nan') if step == 3 else 1.0)\n\nstart(train)\n"
    )
    command = (sys.executable, str(module), "--num-workers=0", *FLAGS, f"--run-path={tmp_path / 'run'}")
    first = started.start(command, tmp_path / "first")
    assert first.wait() == 1
    second = started.start(command, tmp_path / "second")
    assert second.wait() == 1
    assert "a way that a retry cannot mend" in second.output()
    assert "start under another run path" in second.output()
    assert "step 1/12" not in second.output()
