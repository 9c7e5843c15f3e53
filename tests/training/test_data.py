"""Synthetic tokens: the same for every layout, learnable down to a known entropy."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest

from training.data import CLASSES, SUCCESSORS, SyntheticTokens, entropy

pytestmark = pytest.mark.usefixtures("torch_installed")
TOKENS = {"vocab_size": 512, "sequence_length": 64, "seed": 7}


def test_a_batch_is_the_same_however_many_ranks_share_it() -> None:
    import torch

    source = SyntheticTokens.create(**TOKENS)
    whole = source.batch(3, global_batch_size=12, rank=0, world_size=1)
    for world in (2, 3, 4):
        parts = [source.batch(3, global_batch_size=12, rank=r, world_size=world) for r in range(world)]
        for i in range(2):
            assert torch.equal(torch.cat([p[i] for p in parts]), whole[i])


def test_labels_are_the_next_tokens_and_steps_differ() -> None:
    import torch

    source = SyntheticTokens.create(**TOKENS)
    inputs, labels = source.batch(1, global_batch_size=4, rank=0, world_size=1)
    assert inputs.shape == labels.shape == (4, 64)
    assert torch.equal(inputs[:, 1:], labels[:, :-1])
    assert not torch.equal(inputs, source.batch(2, global_batch_size=4, rank=0, world_size=1)[0])
    other = SyntheticTokens.create(vocab_size=512, sequence_length=64, seed=8)
    assert not torch.equal(inputs, other.batch(1, global_batch_size=4, rank=0, world_size=1)[0])


def test_the_sequences_have_the_entropy_that_is_stated() -> None:
    source = SyntheticTokens.create(vocab_size=512, sequence_length=4096, seed=3)
    counts: dict[int, Counter[int]] = {}
    for index in range(16):
        row = source.sequence(index).tolist()
        for before, after in itertools.pairwise(row):
            counts.setdefault(before % CLASSES, Counter())[after] += 1
    assert all(len(c) <= SUCCESSORS for c in counts.values())
    total = sum(sum(c.values()) for c in counts.values())
    measured = -sum(n * math.log(n / sum(c.values())) for c in counts.values() for n in c.values()) / total
    assert measured == pytest.approx(entropy(), abs=0.01)


def test_large_vocabularies_stay_inside() -> None:
    source = SyntheticTokens.create(vocab_size=151_936, sequence_length=2048, seed=1)
    row = source.sequence(10**9)
    assert int(row.min()) >= 0
    assert int(row.max()) < 151_936
