"""Packed tokens: whole sequences of any length, an order that is a permutation, and damage that is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.training.corpus import entropy_of, write_packed
from training.packed import DataError, PackedTokens, dtype_for, permuted, splits

pytestmark = pytest.mark.usefixtures("torch_installed")
STREAM = [(i * 37) % 300 + 1 for i in range(1000)]
SHARDS = [STREAM[:13], STREAM[13:14], STREAM[14:600], STREAM[600:]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four shards, one of them with a single token."""
    return write_packed(tmp_path / "packed", shards={"train": SHARDS, "validation": [STREAM[:50]]})


def opened(folder: Path, split: str = "train", **given: int) -> PackedTokens:
    """The split with small settings."""
    settings = {"sequence_length": 16, "seed": 5, "vocab_size": 512, **given}
    return PackedTokens.open(str(folder), split, **settings)


@pytest.mark.parametrize("length", [1, 5, 16, 999])
def test_sequences_are_cut_from_all_shards_as_one_and_overlap_by_a_token(folder: Path, length: int) -> None:
    data = opened(folder, sequence_length=length)
    assert data.sequences == 999 // length
    assert data.tokens == 1000
    rows = [data.sequence(i).tolist() for i in range(data.sequences)]
    assert rows == [STREAM[i * length : (i + 1) * length + 1] for i in range(data.sequences)]
    with pytest.raises(IndexError):
        data.sequence(data.sequences)


def test_ids_above_65535_are_kept_in_four_bytes(tmp_path: Path) -> None:
    tokens = [151_935, 0, 65_536, 7, 151_642]
    folder = write_packed(tmp_path, shards={"train": [tokens]}, dtype=dtype_for(151_936))
    assert (tmp_path / "train-00000.bin").stat().st_size == 20
    row = opened(folder, sequence_length=4, vocab_size=151_936).sequence(0)
    assert str(row.dtype) == "torch.int64"
    assert row.tolist() == tokens
    assert (dtype_for(65_536), dtype_for(65_537)) == ("uint16", "uint32")


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 63, 64, 65, 1000])
def test_the_order_is_a_permutation_for_every_size_and_key(size: int) -> None:
    for key in range(3):
        assert sorted(permuted(i, size, key) for i in range(size)) == list(range(size))


def test_the_order_is_spread_evenly() -> None:
    """Each of 8 positions goes to each place about as often: chi-square with 49 degrees of freedom."""
    size, keys = 8, 4000
    counts = [[0] * size for _ in range(size)]
    for key in range(keys):
        for position in range(size):
            counts[position][permuted(position, size, key)] += 1
    expected = keys / size
    statistic = sum((n - expected) ** 2 / expected for row in counts for n in row) * (size - 1) / size
    assert statistic < 95  # more by chance once in 10,000; the keys are always these


def test_every_epoch_has_every_sequence_once_in_an_order_of_its_own(folder: Path) -> None:
    data = opened(folder)
    epochs = [[data.order(epoch * data.sequences + i) for i in range(data.sequences)] for epoch in range(3)]
    assert all(sorted(epoch) == list(range(data.sequences)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    again = [opened(folder, seed=6).order(i) for i in range(data.sequences)]
    assert again not in epochs


def test_steps_go_through_the_epoch_and_over_its_end(folder: Path) -> None:
    """62 sequences in steps of 10: the seventh step begins the second epoch."""
    data = opened(folder)
    seen: list[list[int]] = []
    for step in range(1, 14):
        inputs, labels = data.batch(step, global_batch_size=10, rank=0, world_size=1)
        assert inputs.shape == labels.shape == (10, 16)
        assert inputs[:, 1:].equal(labels[:, :-1])
        seen += [[*row, last] for row, last in zip(inputs.tolist(), labels[:, -1].tolist(), strict=True)]
    rows = sorted(data.sequence(i).tolist() for i in range(62))
    assert sorted(seen[:62]) == sorted(seen[62:124]) == rows
    assert seen[:62] != seen[62:124]


def test_a_batch_is_the_same_however_many_ranks_share_it(folder: Path) -> None:
    import torch

    data = opened(folder)
    for step in (1, 6, 7):
        whole = data.batch(step, global_batch_size=12, rank=0, world_size=1)
        for world in (2, 3, 4, 12):
            parts = [data.batch(step, global_batch_size=12, rank=r, world_size=world) for r in range(world)]
            for i in range(2):
                assert torch.equal(torch.cat([part[i] for part in parts]), whole[i])


def test_the_digest_is_that_of_the_data_and_not_of_its_place(folder: Path, tmp_path: Path) -> None:
    same = write_packed(tmp_path / "elsewhere", shards={"train": SHARDS, "validation": [STREAM[:40]]})
    other = write_packed(tmp_path / "other", shards={"train": [*SHARDS[:3], [2, *SHARDS[3][1:]]]})
    digest = opened(folder).digest
    assert digest == opened(same).digest == opened(folder, sequence_length=8, seed=1).digest
    assert digest not in (opened(other).digest, opened(folder, "validation").digest)
    assert opened(folder).unigram_entropy == pytest.approx(entropy_of(STREAM))
    assert splits(str(folder)) == ("train", "validation")


def edit(folder: Path, change: Callable[[Any], object]) -> None:
    """Change the index."""
    index = json.loads((folder / "index.json").read_text())
    change(index)
    (folder / "index.json").write_text(json.dumps(index))


def test_damaged_data_is_refused_with_file_and_reason(folder: Path) -> None:
    shard, index = folder / "train-00002.bin", folder / "index.json"
    good, text = shard.read_bytes(), index.read_text()

    def refused(*parts: str, split: str = "train", **given: int) -> None:
        with pytest.raises(DataError) as caught:
            opened(folder, split, **given)
        assert all(part in str(caught.value) for part in parts), caught.value

    shard.write_bytes(good[:-3])
    refused(str(shard), "1169 bytes found, 1172 expected")
    shard.write_bytes(good + b"\0")
    refused(str(shard), "1173 bytes found, 1172 expected")
    shard.unlink()
    refused(str(shard), "not there", "1172 expected")
    shard.write_bytes(good)
    refused(str(index), "no split test", "train, validation", split="test")
    refused(str(index), "token id 300", "by-hand", vocab_size=300)
    refused(str(index), "train has 1000 tokens", "1000 + 1", sequence_length=1000)
    for change, reason in (
        (lambda i: i.update(version=2), "version 2"),
        (lambda i: i.update(dtype="int64"), "dtype int64"),
        (lambda i: i["splits"]["train"].update(tokens=999), "1000 tokens, the split says 999"),
        (lambda i: i["splits"]["train"].update(shards=[]), "not an index"),
        (lambda i: i["splits"]["train"]["shards"][0].pop("sha256"), "sha256"),
        (lambda i: i.update(splits=[]), "not an index"),
    ):
        edit(folder, change)
        refused(str(index), reason)
        index.write_text(text)
    index.write_text(text[:100])
    refused(str(index), "cannot be read")
    index.unlink()
    refused(str(index), "not there", "training.pack")


def test_a_token_id_that_only_damage_explains_is_refused_when_it_is_read(folder: Path) -> None:
    shard = folder / "train-00002.bin"
    content = bytearray(shard.read_bytes())
    content[801] = 0xFF
    shard.write_bytes(content)
    data = opened(folder)
    whole = [i for i in range(data.sequences) if not i * 16 <= 414 <= i * 16 + 16]
    assert [data.sequence(i).tolist() for i in whole] == [STREAM[i * 16 : i * 16 + 17] for i in whole]
    with pytest.raises(DataError, match=r"train-00002\.bin: token id 65\d{3}"):
        data.sequence(414 // 16)
