"""Whole runs that begin with a model in the Hugging Face format, and leave one."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.training.processes import TRAIN, Process, Started, finish, losses, outputs, record, until
from training import config

pytestmark = pytest.mark.usefixtures("torch_installed")
FLAGS = ("--preset=tiny", "--log-every=1", "--schedule=constant", "--warmup-fraction=0")
PAIR = tuple({"LOCAL_RANK": str(r), "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"} for r in range(2))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, torch_installed: None) -> Path:
    """A Qwen2 model of the shape of `tiny` in bfloat16, as `save_pretrained` writes it; not the run's own start."""
    import torch
    from transformers import Qwen2ForCausalLM

    from training.model import meta_model

    folder = tmp_path_factory.mktemp("base") / "model"
    torch.manual_seed(7)
    model = Qwen2ForCausalLM(meta_model(config.build("tiny", {}).model, 64).config).to(torch.bfloat16)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    model.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text('{"chat_template": "x"}')
    return folder


def tensors(folder: Path) -> dict[str, Any]:
    """What `from_pretrained` finds in a folder."""
    from transformers import AutoModelForCausalLM

    return dict(AutoModelForCausalLM.from_pretrained(folder).state_dict())


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether all tensors are the same, in the same format."""
    return set(one) == set(other) and all(
        value.dtype == other[name].dtype and value.equal(other[name]) for name, value in one.items()
    )


def start(started: Started, run: Path, *flags: str, log: str = "log", **env: str) -> Process:
    """A run of one process."""
    command = (*TRAIN, "--num-workers=0", *FLAGS, f"--run-path={run}", *flags)
    return started.start(command, run.parent / log, **env)


def done(process: Process) -> str:
    """Its output, once it has ended well."""
    assert process.wait(300) == 0, process.output()
    return process.output()


def test_no_step_leaves_the_model_as_it_was(base: Path, tmp_path: Path, started: Started) -> None:
    run = tmp_path / "run"
    flags = (*FLAGS, "--steps=0", "--export=bfloat16", f"--model={base}", f"--run-path={run}")
    ranks = started.ranks(tmp_path, flags, PAIR)
    assert finish(ranks, 300) == [0, 0], outputs(ranks)
    assert f"at step 0; model exported to {run / 'export'}" in ranks[0].output()
    assert equal(tensors(run / "export"), tensors(base))
    assert (run / "export" / "tokenizer_config.json").read_text() == '{"chat_template": "x"}'
    content = record(run)
    assert content["export"] == {"step": 0, "dtype": "bfloat16", "path": str(run / "export"), "complete": True}
    assert content["model"]["source"] == str(base)
    assert content["run"]["state"] == "finished"


def test_a_run_begins_with_the_model_and_exports_what_it_trained(base: Path, tmp_path: Path, started: Started) -> None:
    """A second run that begins with the export of the first has the loss with which the first one ended."""
    first, second = tmp_path / "first", tmp_path / "second"
    options = ("--steps=30", "--export=float32", "--checkpoint-every=0")
    text = done(start(started, first, *options, f"--model={base}"))
    assert f"weights of {base}" in text
    assert "model exported to" in text
    done(start(started, second, "--steps=1", f"--model={first / 'export'}"))
    begun, trained, again = losses(first)[0], losses(first)[-1], losses(second)[0]
    assert trained < begun - 0.5, "it has learnt"
    assert abs(again - trained) < 0.25, "and the next run begins there, not at random"
    # Another run, with random weights, begins elsewhere.
    third = tmp_path / "third"
    done(start(started, third, "--steps=1"))
    assert losses(third)[0] != begun


def test_an_export_that_was_cut_off_is_made_by_the_next_start(base: Path, tmp_path: Path, started: Started) -> None:
    run = tmp_path / "run"
    options = ("--steps=5", "--export=bfloat16", f"--model={base}")
    stopped = "import os, signal, training.loop as l; l.export = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL); "
    code = stopped + "from training.train import start; start()"
    command = (TRAIN[0], "-c", code, "--num-workers=0", *FLAGS, f"--run-path={run}", *options)
    killed = started.start(command, tmp_path / "killed")
    assert killed.wait(300) == -signal.SIGKILL
    assert not (run / "export").exists()
    text = done(start(started, run, *options))
    assert "resumed at step 5" in text
    assert "at step 5; model exported to" in text
    assert len(losses(run)) == 5
    assert "nothing to do" in done(start(started, run, *options))
    # A finished run is asked for its model in another format, and after somebody has removed the folder.
    done(start(started, run, "--steps=5", "--export=float32", f"--model={base}"))
    assert {str(value.dtype) for value in tensors(run / "export").values()} == {"torch.float32"}
    shutil.rmtree(run / "export")
    done(start(started, run, "--steps=5", "--export=float32", f"--model={base}"))
    assert record(run)["export"]["dtype"] == "float32"
    assert (run / "export" / "config.json").is_file()


def test_more_steps_export_again(base: Path, tmp_path: Path, started: Started) -> None:
    run = tmp_path / "run"
    done(start(started, run, "--steps=2", "--export=float32", f"--model={base}"))
    before = tensors(run / "export")
    done(start(started, run, "--steps=4", "--export=float32", f"--model={base}"))
    assert record(run)["export"]["step"] == 4
    found = tensors(run / "export")
    assert not equal(before, found)
    assert json.loads((run / "export" / "config.json").read_text())["tie_word_embeddings"] is True
    assert found["lm_head.weight"].data_ptr() == found["model.embed_tokens.weight"].data_ptr(), "tied again"


def test_another_model_than_the_settings_train_is_refused(base: Path, tmp_path: Path, started: Started) -> None:
    run = tmp_path / "run"
    flags = (*FLAGS, "--steps=5", "--layers=3", f"--model={base}", f"--run-path={run}")
    ranks = started.ranks(tmp_path, flags, PAIR)
    assert finish(ranks) == [1, 1], outputs(ranks)
    text = ranks[0].output()
    assert f"the model {base} is not the one that these settings train:\n  layers: model 2, settings 3\n" in text
    assert "choose the preset of this model" in text
    assert not (run / "refused.json").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--model=/nowhere/model",), "model /nowhere/model is no folder on rank 0 on"),
        (("--model=owner/name",), "for a name on the hub its commit is missing"),
        (("--model=owner/name", "--model-revision=main"), "needed a name on the hub and its commit of 40 hexadecimal"),
        (("--data=owner/name",), "data owner/name is no folder here, and for a name on the hub its commit is missing"),
        (("--data=/nowhere/data",), "data /nowhere/data is no folder on rank 0 on"),
    ],
)
def test_a_source_that_is_not_there_ends_the_run(
    flags: tuple[str, ...], message: str, tmp_path: Path, started: Started
) -> None:
    process = start(started, tmp_path / "run", *flags)
    assert process.wait() == 4, process.output()
    assert message in process.output()
    assert not (tmp_path / "run" / "refused.json").exists(), "it is there again when somebody mounts it"


def test_a_model_at_an_address_is_downloaded_into_the_scratch_folder(
    base: Path, tmp_path: Path, started: Started
) -> None:
    pytest.importorskip("pyarrow")
    scratch = tmp_path / "scratch"
    env = {"RTD_MODEL": f"file://{base}", "RTD_SCRATCH": str(scratch)}
    done(start(started, tmp_path / "run", "--steps=0", "--export=bfloat16", **env))
    assert equal(tensors(tmp_path / "run" / "export"), tensors(base))
    assert [path.name for path in scratch.glob("*/config.json")] == ["config.json"]


def test_a_stop_before_the_end_exports_nothing(base: Path, tmp_path: Path, started: Started) -> None:
    run = tmp_path / "run"
    process = start(started, run, "--steps=100000", "--export=bfloat16", f"--model={base}")
    until(lambda: "step 3/" in process.output() or process.popen.poll() is not None, 120, "step 3")
    process.popen.send_signal(signal.SIGTERM)
    assert process.wait() == 143, process.output()
    assert not (run / "export").exists()
