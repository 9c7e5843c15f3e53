"""Pretrained weights: ranks hold what transformers saved, and transformers loads what they export."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import require
from tests.training.processes import ROOT, Started, finish, free_port, outputs
from training import config as configuration
from training import topology, weights
from training.contract import Exit, RunEndError
from training.export import export
from training.options import ModelShape
from training.storage import Storage

pytestmark = pytest.mark.usefixtures("torch_installed")

# Rows that four ranks cannot share evenly.
SHAPE = {"vocab_size": 509, "hidden_size": 56, "intermediate_size": 150}
ONE = ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": "0"},)
FOUR = tuple({"LOCAL_RANK": str(r % 2), "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": str(r // 2)} for r in range(4))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, torch_installed: None) -> Path:
    """Real Qwen2 models with random values everywhere, as `save_pretrained` writes them; names say what is special."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    root = tmp_path_factory.mktemp("models")
    for seed, (name, tied, dtype, most) in enumerate(
        [
            ("tied-bf16", True, torch.bfloat16, "1GB"),
            ("tied-fp32", True, torch.float32, "1GB"),
            ("untied-bf16-files", False, torch.bfloat16, "60KB"),
            ("untied-fp32-files", False, torch.float32, "120KB"),
        ]
    ):
        settings = Qwen2Config(
            vocab_size=509,
            hidden_size=56,
            intermediate_size=150,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6},
            tie_word_embeddings=tied,
        )
        torch.manual_seed(seed)
        model = Qwen2ForCausalLM(settings).to(dtype)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0.0, 0.5)  # biases and norms too: by default they are zeros and ones
        model.save_pretrained(root / name, max_shard_size=most)
        (root / name / "tokenizer.json").write_text('{"version": "1.0"}')
        (root / name / "tokenizer_config.json").write_text('{"chat_template": "x"}')
        (root / name / "optimizer.pt").write_text("not to be copied")
    assert len(list((root / "untied-bf16-files").glob("model-*.safetensors"))) > 1
    return root


def run_ranks(
    started: Started, tmp_path: Path, places: tuple[dict[str, str], ...], task: dict[str, Any], **env: str
) -> list[dict[str, Any]]:
    """What each rank found, by rank."""
    port = str(free_port())
    task = {**task, "result": str(tmp_path / "result")}
    ranks = [
        started.start(
            (sys.executable, "-m", "tests.training.weights_worker", json.dumps(task)),
            tmp_path / f"rank{rank}.log",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port,
            RANK=str(rank),
            WORLD_SIZE=str(len(places)),
            **place,
            **env,
        )
        for rank, place in enumerate(places)
    ]
    assert finish(ranks, 300) == [0] * len(places), outputs(ranks)
    return [json.loads((tmp_path / f"result-{rank}").read_text()) for rank in range(len(places))]


def file_tensors(folder: Path) -> dict[str, Any]:
    """All tensors in a directory's safetensors files."""
    from safetensors.torch import load_file

    return {name: value for file in folder.glob("*.safetensors") for name, value in load_file(file).items()}


def assert_same_files(found: Path, expected: Path) -> None:
    mine, theirs = file_tensors(found), file_tensors(expected)
    assert set(mine) == set(theirs)
    for name, value in theirs.items():
        assert mine[name].dtype == value.dtype, name
        assert mine[name].equal(value), name


def assert_loads(found: Path, expected: Path, dtype: str) -> None:
    """`from_pretrained` of both gives equal tensors, and of `found` in the exported format without being asked."""
    import torch
    from transformers import AutoModelForCausalLM

    mine = AutoModelForCausalLM.from_pretrained(found).state_dict()
    theirs = AutoModelForCausalLM.from_pretrained(expected, dtype=getattr(torch, dtype)).state_dict()
    assert set(mine) == set(theirs)
    for name, value in theirs.items():
        assert mine[name].dtype == value.dtype, name
        assert mine[name].equal(value), name


def cases(models: Path, runs: str) -> list[dict[str, Any]]:
    """Every kind of file into every kind of model."""
    tied, untied = {**SHAPE, "tied": True}, {**SHAPE, "tied": False}
    return [
        {
            "folder": str(models / "tied-bf16"),
            "args": {**tied, "activation_checkpointing": "full"},
            "exports": [
                {"to": runs, "name": "same", "dtype": "bfloat16", "source": str(models / "tied-bf16")},
                {"to": runs, "name": "made", "dtype": "float32", "source": None, "file_bytes": 60_000},
            ],
        },
        {
            "folder": str(models / "tied-bf16"),
            "args": {**untied, "precision": "bfloat16"},
            "exports": [{"to": runs, "name": "parted", "dtype": "bfloat16", "source": str(models / "tied-bf16")}],
        },
        {
            "folder": str(models / "untied-fp32-files"),
            "args": untied,
            "exports": [{"to": runs, "name": "fp32", "dtype": "float32", "source": str(models / "untied-fp32-files")}],
        },
        {"folder": str(models / "untied-bf16-files"), "args": {**untied, "precision": "bfloat16"}},
        {"folder": str(models / "tied-fp32"), "args": {**tied, "precision": "bfloat16"}},
    ]


def check_exports(runs: Path, models: Path) -> None:
    assert sorted(p.name for p in runs.iterdir()) == ["fp32", "made", "parted", "same"]  # and nothing temporary
    assert_same_files(runs / "same", models / "tied-bf16")
    assert_same_files(runs / "fp32", models / "untied-fp32-files")
    for name, source, dtype in (
        ("same", "tied-bf16", "bfloat16"),
        ("made", "tied-bf16", "float32"),
        ("parted", "tied-bf16", "bfloat16"),
        ("fp32", "untied-fp32-files", "float32"),
    ):
        assert_loads(runs / name, models / source, dtype)
    parted = file_tensors(runs / "parted")
    assert parted["lm_head.weight"].equal(parted["model.embed_tokens.weight"])
    assert json.loads((runs / "parted" / "config.json").read_text())["tie_word_embeddings"] is False
    kept = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    assert sorted(p.name for p in (runs / "same").iterdir()) == kept
    # A file holds its limit of values, or one tensor that is larger alone.
    index = json.loads((runs / "made" / "model.safetensors.index.json").read_text())
    files = sorted((runs / "made").glob("model-*-of-*.safetensors"))
    assert {file.name for file in files} == set(index["weight_map"].values())
    assert max(file.stat().st_size for file in files if len(names_in(file)) > 1) < 64_000
    assert index["metadata"]["total_size"] == sum(v.numel() * 4 for v in file_tensors(runs / "made").values())


def names_in(file: Path) -> list[str]:
    from safetensors import safe_open

    with safe_open(file, framework="pt") as opened:
        return list(opened.keys())


@pytest.mark.parametrize(("sharding", "copies"), [("full", 1), ("hsdp", 2)])
def test_four_ranks_hold_what_transformers_loads_and_each_asks_for_its_share(
    models: Path, tmp_path: Path, started: Started, sharding: str, copies: int
) -> None:
    runs = tmp_path / "runs"
    task = {"sharding": sharding, "cases": cases(models, str(runs))}
    found = [rank["results"] for rank in run_ranks(started, tmp_path, FOUR, task)]
    for number, case in enumerate(task["cases"]):
        results = [rank[number] for rank in found]
        assert [r["unequal"] for r in results] == [[]] * 4
        assert [r["differences"] for r in results] == [[]] * 4
        assert [r["tied"] for r in results] == [case["args"]["tied"]] * 4
        tensors = file_tensors(Path(case["folder"]))
        stored = sum(value.numel() * value.element_size() for value in tensors.values())
        if number == 1:  # the embedding is read once more, for the output layer
            stored += 509 * 56 * 2
        assert sum(r["asked"] for r in results) == copies * stored
        assert max(r["asked"] for r in results) < 1.1 * copies * stored / 4
    check_exports(runs, models)


def test_one_rank_exports_to_an_address_too(models: Path, tmp_path: Path, started: Started) -> None:
    require("pyarrow")
    runs = tmp_path / "runs"
    (runs / "same").mkdir(parents=True)
    (runs / "same" / "model-00001-of-00009.safetensors").write_text("of an older export")
    local = tmp_path / "local"
    local.mkdir()
    task = {"sharding": "full", "cases": cases(models, f"file://{runs}")}
    (found,) = run_ranks(started, tmp_path, ONE, task, TMPDIR=str(local))
    assert [r["unequal"] for r in found["results"]] == [[]] * 5
    assert found["results"][0]["exported"] == [f"file://{runs}/same", f"file://{runs}/made"]
    check_exports(runs, models)
    assert list(local.glob("ray-train-*")) == []


@pytest.fixture(scope="session")
def transformers_of_the_image() -> Path:
    """transformers 5.13.0, that of the AWS image, in a folder to be put in front; fetched once."""
    target = Path.home() / ".cache" / "ray-train-dlc" / "transformers-5.13.0"
    if not (target / "complete").exists():
        shutil.rmtree(target, ignore_errors=True)
        wanted = ["transformers==5.13.0", "huggingface_hub>=1.5,<2", "tokenizers>=0.22,<=0.23.0"]
        wanted += ["httpx", "httpcore", "h11", "anyio"]  # of its huggingface_hub
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), *wanted]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            pytest.skip(f"transformers 5.13.0 cannot be installed: {done.stderr[-300:]}")
        (target / "complete").touch()
    return target


def test_all_of_it_with_the_transformers_of_the_image(
    models: Path, tmp_path: Path, started: Started, transformers_of_the_image: Path
) -> None:
    runs = tmp_path / "runs"
    task = {"sharding": "full", "cases": cases(models, str(runs))}
    path = f"{transformers_of_the_image}{os.pathsep}{ROOT}"
    (found,) = run_ranks(started, tmp_path, ONE, task, PYTHONPATH=path)
    assert found["transformers"] == "5.13.0"
    assert [r["unequal"] for r in found["results"]] == [[]] * 5
    check_exports(runs, models)
    # And the other way round: its library reads what the installed one's model gave.
    again = {"sharding": "full", "cases": [{"folder": str(runs / "made"), "args": {**SHAPE, "tied": True}}]}
    (back,) = run_ranks(started, tmp_path / "again", ONE, again, PYTHONPATH=path)
    assert back["results"][0]["unequal"] == []


def test_a_file_that_one_rank_cannot_read_ends_all_with_one_sentence(
    models: Path, tmp_path: Path, started: Started
) -> None:
    """Each node has a download of its own, so one may be damaged; here that of rank 2."""
    for rank in range(4):
        shutil.copytree(models / "untied-bf16-files", tmp_path / f"model-{rank}")
    file = sorted((tmp_path / "model-2").glob("*.safetensors"))[1]
    os.truncate(file, file.stat().st_size - 10)
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder should be")
    good = cases(models, str(tmp_path / "runs"))[2]
    good["exports"] = [{**good["exports"][0], "to": str(blocked)}]
    broken = {"folder": str(tmp_path / "model-RANK"), "args": {**SHAPE, "tied": False}}
    found = run_ranks(started, tmp_path, FOUR, {"sharding": "full", "cases": [broken, good]})
    errors = [rank["results"][0] for rank in found]
    assert errors == [errors[0]] * 4
    assert errors[0]["error"].startswith(f"cannot load the model: {file} cannot be read: ")
    assert (errors[0]["code"], errors[0]["lasting"]) == (1, False)
    refused = [rank["results"][1]["exported"] for rank in found]
    assert refused == [refused[0]] * 4
    assert refused[0][0].startswith("OSError: rank 0 on ")
    assert f"cannot export to {blocked}/fp32: " in refused[0][0]


@pytest.fixture
def alone() -> Iterator[None]:
    """This process as the only rank."""
    with topology.process_group(topology.Place(), cuda=False, timeout_s=60):
        yield


def sharded_model(**args: Any) -> tuple[Any, ModelShape]:
    from training import model

    config = configuration.build("tiny", {**SHAPE, **args})
    mesh = topology.build_mesh([topology.Place()], config.parallel, cuda=False)
    return model.build(config, mesh, mode="full", processes_per_node=1, cuda=False), config.model


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("no file", "no model.safetensors and no model.safetensors.index.json in "),
        ("garbage", "model.safetensors cannot be read: "),
        ("header", "model.safetensors cannot be read: "),
        ("missing", "model.norm.weight is missing"),
        ("unknown", "model.safetensors: score.weight is no tensor of this model"),
        ("shape", "model.safetensors: model.norm.weight has shape (55,), needed (56,)"),
        ("format", "model.safetensors: model.norm.weight is in I64, needed one of F32, BF16, F16"),
        ("no head", "lm_head.weight is missing"),
    ],
)
def test_weights_that_do_not_fit_are_named(models: Path, tmp_path: Path, damage: str, said: str) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "model"
    shutil.copytree(models / "tied-fp32", folder)
    file = folder / "model.safetensors"
    tensors = load_file(file)
    if damage == "no file":
        file.unlink()
    elif damage in ("garbage", "header"):
        content = file.read_bytes()
        file.write_bytes(b"x" * len(content) if damage == "garbage" else content[:8] + b"}" + content[9:])
    else:
        if damage == "missing":
            del tensors["model.norm.weight"]
        elif damage == "unknown":
            tensors["score.weight"] = torch.zeros(2)
        elif damage == "shape":
            tensors["model.norm.weight"] = torch.zeros(55)
        elif damage == "format":
            tensors["model.norm.weight"] = torch.zeros(56, dtype=torch.int64)
        else:  # a directory that says untied and has no output layer
            config = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
        save_file(tensors, file)
    model, shape = sharded_model(tied=damage != "no head")
    with pytest.raises(RunEndError, match=r"^cannot load the model: ") as caught:
        weights.load(model, folder, shape=shape, place=topology.Place())
    assert said in caught.value.message
    assert caught.value.code == Exit.FAILED
    assert not caught.value.lasting


@pytest.mark.usefixtures("alone")
def test_an_index_that_promises_a_file_or_tensor_that_is_not_there_is_named(models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(models / "untied-fp32-files", folder)
    index = folder / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    places = content["weight_map"]
    model, shape = sharded_model(tied=False)
    other = next(file for file in places.values() if file != places["model.norm.weight"])
    places["model.norm.weight"] = other
    index.write_text(json.dumps(content))
    with pytest.raises(RunEndError, match=rf"{other}: model\.norm\.weight is missing, and .* has it there"):
        weights.load(model, folder, shape=shape, place=topology.Place())
    (folder / other).unlink()
    with pytest.raises(RunEndError, match=f"{other} cannot be read: "):
        weights.load(model, folder, shape=shape, place=topology.Place())


@pytest.mark.usefixtures("alone")
def test_an_export_replaces_an_older_one_whole_and_removes_what_a_cut_off_one_left(
    models: Path, tmp_path: Path
) -> None:
    model, shape = sharded_model()
    source = models / "tied-fp32"
    weights.load(model, source, shape=shape, place=topology.Place())
    storage = Storage(str(tmp_path / "run"))
    storage.write("export/model-00001-of-00009.safetensors", b"old")
    storage.write(".export.part-12345678/model.safetensors", b"cut off")
    for _ in range(2):
        path = export(model, storage, "export", source=source, dtype="float32", shape=shape, place=topology.Place())
    assert path == f"{tmp_path}/run/export"
    assert storage.names("") == ["export"]
    assert_same_files(Path(path), source)
    storage.write("export/kept", b"")
    with pytest.raises(OSError, match=r"cannot export to .*/run/export: .*gone"):
        export(model, storage, "export", source=tmp_path / "gone", dtype="float32", shape=shape, place=topology.Place())
    assert storage.read("export/kept") == b""  # the older one is still there
    assert storage.names("") == ["export"]
