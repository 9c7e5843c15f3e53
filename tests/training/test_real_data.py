"""Training on real text: this repository's documents, tokenised with a tokenizer made of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.training.corpus import DOCUMENTS, VOCAB, make_tokenizer, write_packed
from tests.training.processes import TRAIN, Started, finish, losses, outputs, record

pytestmark = pytest.mark.usefixtures("torch_installed")
FLAGS = ("--preset=tiny", "--checkpoint-every=20", "--log-every=20", f"--vocab-size={VOCAB}", "--global-batch-size=16")
PAIR = tuple({"LOCAL_RANK": str(r), "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"} for r in range(2))


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every tenth document is held out; two shards for training."""
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("packed")
    tokenizer = AutoTokenizer.from_pretrained(make_tokenizer(folder / "tokenizer"))
    documents = [[*tokenizer(path.read_text())["input_ids"], tokenizer.eos_token_id] for path in DOCUMENTS]
    held_out = [token for document in documents[::10] for token in document]
    kept = [document for number, document in enumerate(documents) if number % 10]
    shards = [[t for d in kept[:half] for t in d] if first else [t for d in kept[half:] for t in d]
              for half in [len(kept) // 2] for first in (True, False)]  # fmt: skip
    return write_packed(
        folder / "docs", shards={"train": shards, "validation": [held_out]}, eos=int(tokenizer.eos_token_id)
    )


def test_a_small_model_learns_real_text(packed: Path, tmp_path: Path, started: Started) -> None:
    """Two ranks; the loss on held-out documents falls below what the frequencies of single tokens give."""
    flags = (*FLAGS, "--steps=120", "--validate-every=60", f"--data={packed}", f"--run-path={tmp_path / 'run'}")
    ranks = started.ranks(tmp_path, flags, PAIR)
    assert finish(ranks, 300) == [0, 0], outputs(ranks)
    content = record(tmp_path / "run")
    first, last = (v["loss"] for v in content["validation"])
    entropy = json.loads((packed / "index.json").read_text())["splits"]["validation"]["unigramEntropy"]
    assert last < first
    assert last < entropy - 0.2
    assert content["data"]["kind"] == "packed"
    assert content["data"]["tokens"] > 50_000
    assert "tokens of data in" in ranks[0].output()


def test_a_run_goes_on_with_the_data_it_would_have_seen_and_with_no_other(
    packed: Path, tmp_path: Path, started: Started
) -> None:
    common = (*TRAIN, "--num-workers=0", *FLAGS, "--schedule=constant", "--warmup-fraction=0")
    whole = started.start(
        (*common, "--steps=40", f"--data={packed}", f"--run-path={tmp_path / 'whole'}"), tmp_path / "a"
    )
    assert whole.wait() == 0, whole.output()
    moved = tmp_path / "moved"
    shutil.copytree(packed, moved)  # the same data in another place is the same data
    for steps, data in ((20, packed), (40, moved)):
        part = started.start(
            (*common, f"--steps={steps}", f"--data={data}", f"--run-path={tmp_path / 'parts'}"), tmp_path / f"b{steps}"
        )
        assert part.wait() == 0, part.output()
    assert losses(tmp_path / "parts") == pytest.approx(losses(tmp_path / "whole"), rel=1e-6)
    other = started.start((*common, "--steps=60", f"--run-path={tmp_path / 'parts'}"), tmp_path / "c")
    assert other.wait() == 1
    assert "this configuration cannot go on from" in other.output()
    assert "now synthetic" in other.output()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "train-00001.bin").write_bytes(b"ab"), "train-00001.bin: 2 bytes found, "),
        (lambda folder: (folder / "train-00000.bin").unlink(), "train-00000.bin: not there (0 bytes found, "),
        (lambda folder: (folder / "index.json").write_text("{"), "index.json: cannot be read"),
    ],
    ids=["truncated", "missing", "index"],
)
def test_damaged_data_ends_all_ranks_with_the_file(
    packed: Path, tmp_path: Path, started: Started, damage: object, message: str
) -> None:
    folder = tmp_path / "docs"
    shutil.copytree(packed, folder)
    damage(folder)  # type: ignore[operator]
    ranks = started.ranks(tmp_path, (*FLAGS, "--steps=5", f"--data={folder}", f"--run-path={tmp_path / 'run'}"), PAIR)
    assert finish(ranks) == [1, 1], outputs(ranks)
    assert "cannot use the data:\nrank 0 on" in ranks[0].output()
    assert message in ranks[0].output()
