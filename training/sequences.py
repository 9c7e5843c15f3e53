"""The sequences of a run: packed tokens of a folder, or the synthetic language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from training.config import Config
from training.data import SyntheticTokens, entropy
from training.packed import PackedTokens, splits
from training.validation import HeldOut

HELD_OUT = 2**40  # index of the first synthetic sequence that no training reaches
VALIDATION = "validation"


@dataclass(frozen=True)
class Sequences:
    """What is trained on, and what is held out."""

    tokens: SyntheticTokens | PackedTokens
    """Gives the batch of a step."""
    held_out: HeldOut | None
    """Sequences to validate on; None: there are none, or none are wanted."""
    digest: str
    """Identifies the data: a run goes on from its own checkpoint with the same data only."""
    facts: dict[str, Any]
    """For the run record."""
    summary: str
    """For the first line of a run."""


def open_sequences(config: Config, folder: str) -> Sequences:
    """The data in `folder`, as `python -m training.pack` writes it; the synthetic language when it is empty.

    Raises:
        DataError: the folder cannot be used, and why.
    """
    batch, vocab_size, count = config.batch, config.model.vocab_size, config.reports.validation_sequences
    common = {"sequence_length": batch.sequence_length, "seed": batch.seed, "vocab_size": vocab_size}
    if not folder:
        made = SyntheticTokens.create(**common)
        held_out = HeldOut(lambda index: made.sequence(HELD_OUT + index), count) if count else None
        facts: dict[str, Any] = {"kind": "synthetic", "entropy": round(entropy(), 6)}
        return Sequences(made, held_out, "synthetic", facts, f"entropy of the data {entropy():.4f}")
    train = PackedTokens.open(folder, "train", **common)
    held_out = None
    if count and VALIDATION in splits(folder):
        validation = PackedTokens.open(folder, VALIDATION, **common)
        held_out = HeldOut(validation.sequence, min(count, validation.sequences))
    facts = {
        "kind": "packed",
        "folder": folder,
        "digest": train.digest,
        "tokens": train.tokens,
        "documents": train.documents,
        "unigramEntropy": train.unigram_entropy,
    }
    summary = (
        f"{train.tokens:,} tokens of data in {train.documents:,} documents, unigram entropy {train.unigram_entropy:.4f}"
    )
    if count and not held_out:
        summary += f"; nothing is held out (no split {VALIDATION} in the data)"
    return Sequences(train, held_out, train.digest, facts, summary)
