"""Settings: presets, flags, and the check that the generator uses on `training.args`."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.processes import ROOT, environment
from training import config
from training.options import PARTS
from training.train import main, parser


def test_importing_the_package_and_its_settings_loads_neither_torch_nor_ray() -> None:
    code = (
        "import sys, training, training.config, training.contract, training.sizes, training.train\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'torch', 'ray', 'transformers', 'pyarrow', 'numpy'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


def test_every_field_has_a_description_and_a_flag_that_shows_it() -> None:
    assert set(config.descriptions()) == set(config.argument_names())
    shown = " ".join(parser().format_help().split())
    for name, text in config.descriptions().items():
        assert f"--{name.replace('_', '-')} " in shown
        assert text.endswith(".")
    assert shown.startswith("usage: python -m training.train")
    assert "torchrun --nproc-per-node=2 -m training.train --num-workers=0" in shown


def test_names_are_unique_over_the_parts_of_a_configuration() -> None:
    names = [f.name for part in PARTS.values() for f in dataclasses.fields(part)]
    assert names == config.argument_names()
    assert len(names) == len(set(names))


@pytest.mark.parametrize("preset", config.preset_names())
def test_presets_are_valid(preset: str) -> None:
    assert config.check_args(preset, {}) == []
    assert config.build(preset).as_dict()["preset"] == preset


def test_flags_come_over_the_preset_and_take_both_spellings_of_true() -> None:
    given = vars(parser().parse_args(["--steps=7", "--learning-rate=1e-4", "--compile", "--tied=false"]))
    flags = {name: given[name] for name in ("steps", "learning_rate", "compile", "tied")}
    built = config.build("qwen2.5-1.5b", flags, from_text=True)
    assert (built.schedule.steps, built.optimizer.learning_rate) == (7, 1e-4)
    assert (built.parallel.compile, built.model.tied) == (True, False)
    assert built.batch.sequence_length == 2048
    assert "layers" not in given  # a flag that is not given leaves the preset's value


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"sequence_lenght": 8}, ("sequence_lenght", "no such argument; did you mean sequence_length?")),
        ({"sequence-length": 8}, ("sequence-length", "no such argument; did you mean sequence_length?")),
        ({"steps": 0}, ("steps", "0 steps train nothing, and export is none; set one of them")),
        ({"steps": -3}, ("steps", "must be 0 or more, not -3")),
        ({"steps": "30"}, ("steps", "must be a whole number, not '30'")),
        ({"steps": True}, ("steps", "must be a whole number, not true")),
        ({"steps": 3.5}, ("steps", "must be a whole number, not 3.5")),
        ({"steps": None}, ("steps", "must be a whole number, not None")),
        ({"steps": [1]}, ("steps", "must be a whole number, not [1]")),
        ({"learning_rate": 2}, ("learning_rate", "must be 1.0 or less, not 2")),
        ({"learning_rate": float("nan")}, ("learning_rate", "must be a number, not nan")),
        ({"compile": "yes"}, ("compile", "must be true or false, not 'yes'")),
        ({"compile": 1}, ("compile", "must be true or false, not 1")),
        ({"checkpoint_every": -1}, ("checkpoint_every", "must be 0 or more, not -1")),
        (
            {"sharding": "hspd"},
            ("sharding", "must be one of auto, full, zero2, hpz, hsdp, not 'hspd'; did you mean hsdp?"),
        ),
        ({"heads": 5}, ("heads", "hidden_size 64 is not a multiple of heads 5")),
        ({"hidden_size": 66}, ("hidden_size", "hidden_size 66 is not a multiple of heads 4")),
        (
            {"hidden_size": 12},
            ("hidden_size", "hidden_size / heads is 3; rotary positions need an even number"),
        ),
        ({"kv_heads": 3}, ("kv_heads", "heads 4 is not a multiple of kv_heads 3")),
        (
            {"unit_parameters": 1000},
            (
                "unit_parameters",
                "unit_parameters puts embedding and output layer into two units, and tied weights cannot be split; "
                "set tied to false, or unit_parameters to 0",
            ),
        ),
        (
            {"unit_parameters": 1000, "tied": False, "compile": True},
            (
                "unit_parameters",
                "unit_parameters cuts inside the layers, which compile takes as wholes; set one of them only",
            ),
        ),
        (
            {"unit_parameters": 1000, "tied": False, "activation_checkpointing": "full"},
            (
                "unit_parameters",
                "unit_parameters cuts inside the layers, where activation_checkpointing would gather them twice; "
                "set one of them to none",
            ),
        ),
    ],
)
def test_check_args_names_what_is_wrong(args: dict[str, object], expected: tuple[str, str]) -> None:
    assert config.check_args("tiny", args)[:1] == [expected]


def test_check_args_gives_all_problems_and_never_raises() -> None:
    found = config.check_args("tiny", {"steps": -1, "nonsense": 1, "kv_heads": 3, 5: 5})  # type: ignore[dict-item]
    assert [name for name, _ in found] == ["steps", "nonsense", "5", "kv_heads"]
    assert config.check_args("large", {})[0][0] == "preset"


def test_numbers_that_yaml_1_1_reads_as_texts_are_numbers() -> None:
    assert config.check_args("tiny", {"learning_rate": "3e-4"}) == []
    assert config.check_args("tiny", {"learning_rate": 1}) == []


def test_world_size_must_divide_the_batch() -> None:
    batch = config.build("tiny").batch
    assert config.check_world_size(batch, 8) is None
    message = config.check_world_size(batch, 7)
    assert message == "global_batch_size 24 is not a multiple of the 7 ranks; take 21 or 28"
    assert config.check_world_size(batch, 36) == "global_batch_size 24 is not a multiple of the 36 ranks; take 36"


def test_wrong_flags_exit_with_2_and_all_of_them_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--steps=-1", "--sequence-length=x"])
    assert ended.value.code == 2
    text = capsys.readouterr().err
    assert "--steps: must be 0 or more, not -1" in text
    assert "--sequence-length: must be a whole number, not 'x'" in text


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"steps": 10**9 + 1}, ("steps", "must be 1000000000 or less, not 1000000001")),
        ({"vocab_size": 2**53 + 1}, ("vocab_size", "must be 1000000000 or less, not 9007199254740993")),
        ({"layers": 10**400}, ("layers", "must be 1000000000 or less, not a number beyond 64 bits")),
        ({"seed": -(10**5000)}, ("seed", "must be 0 or more, not a number beyond 64 bits")),
        ({"rope_theta": 1e16}, ("rope_theta", "must be 1000000000000000.0 or less, not 1e+16")),
        ({"gradient_clip": 1e300}, ("gradient_clip", "must be 1000000000 or less, not 1e+300")),
        ({"gradient_clip": 10**400}, ("gradient_clip", "must be a number, not a number beyond 64 bits")),
    ],
)
def test_numbers_beyond_what_json_and_helm_carry_are_refused(
    args: dict[str, object], expected: tuple[str, str]
) -> None:
    assert config.check_args("tiny", args)[:1] == [expected]


@pytest.mark.parametrize("path", ["/", "//", "/.", "/tmp/..", "s3://"])  # noqa: S108 - nothing is written there
def test_the_root_folder_is_no_run_path(capsys: pytest.CaptureFixture[str], path: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--num-workers=0", f"--run-path={path}"])
    assert ended.value.code == 2
    assert f"--run-path={path} must be a folder of this run alone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"RANK": "x"}, "RANK=x must be a whole number, 0 or more"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE=0 must be a whole number, 1 or more"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 must be less than WORLD_SIZE=2"),
        ({"GROUP_RANK": "-1"}, "GROUP_RANK=-1 must be a whole number, 0 or more"),
    ],
)
def test_a_wrong_place_of_a_rank_is_named(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    variables: dict[str, str],
    message: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["--num-workers=0", f"--run-path={tmp_path}"]) == 1
    assert capsys.readouterr().err == f"wrong environment:\n{message}\n"
