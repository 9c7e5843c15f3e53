"""Packed tokens: documents as token ids one after the other, in files that every rank maps into its memory.

A folder that `python -m training.pack` has written holds `index.json` and, per split, shards such as
`train-00000.bin`: token ids of two or four bytes, little endian, each document ended with the EOS id. Nothing in it
depends on a sequence length. Sequence i of length L is tokens i·L to i·L+L of the split, so the last token of one,
which is a label alone, is the first of the next; what is left at the end is dropped.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.data import mix

VERSION = 1
INDEX = "index.json"
DTYPES = {"uint16": "<u2", "uint32": "<u4"}
ROUNDS = 6  # of the Feistel network; four, the usual number, favour some places where there are few sequences
_ORDER = 4  # `mix`: apart from the streams of `SyntheticTokens`


class DataError(ValueError):
    """Packed data that cannot be used: says which file, why, and what to do."""


def dtype_for(vocab_size: int) -> str:
    """The smaller type of `DTYPES` that holds every token id below `vocab_size`."""
    return "uint16" if vocab_size <= 2**16 else "uint32"


def permuted(position: int, size: int, key: int) -> int:
    """Where `position` goes in the permutation of range(size) that `key` selects; no table is made.

    A Feistel network permutes the numbers of an even number of bits, fewer than 4 × size of them; a number that is too
    large goes through it again until one is not.
    """
    half = (max(1, (size - 1).bit_length()) + 1) // 2
    mask = (1 << half) - 1
    while True:
        left, right = position >> half, position & mask
        for turn in range(ROUNDS):
            left, right = right, left ^ (mix(key, turn, right) & mask)
        position = left << half | right
        if position < size:
            return position


class _Shard:
    """The token ids of one file; read and not mapped: a mapped file that is cut off ends the process with SIGBUS."""

    def __init__(self, path: Path, tokens: int, kind: str) -> None:
        """Open it.

        Raises:
            DataError: it is missing, cannot be read or has not the bytes of `tokens` tokens.
        """
        import numpy as np

        self.path, self.tokens, self.dtype = path, tokens, np.dtype(DTYPES[kind])
        expected = tokens * self.dtype.itemsize
        try:
            self.file = path.open("rb", buffering=0)
            found = os.fstat(self.file.fileno()).st_size
        except FileNotFoundError:
            raise DataError(
                f"{path}: not there (0 bytes found, {expected} expected); copy it again or pack again"
            ) from None
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error}") from error
        if found != expected:
            raise DataError(f"{path}: {found} bytes found, {expected} expected; copy it again or pack again")

    def read(self, first: int, count: int) -> Any:
        """At most `count` tokens from `first` on: shape (number,), the number that is left when that is less.

        Raises:
            DataError: it has become shorter, or cannot be read.
        """
        import numpy as np

        count = min(count, self.tokens - first)
        size, at = count * self.dtype.itemsize, first * self.dtype.itemsize
        data = b""
        try:
            while len(data) < size and (more := os.pread(self.file.fileno(), size - len(data), at + len(data))):
                data += more
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read: {error}") from error
        if len(data) < size:
            raise DataError(
                f"{self.path}: ends at byte {os.fstat(self.file.fileno()).st_size} and had "
                f"{self.tokens * self.dtype.itemsize} when this run began; copy it again, and never change packed data "
                "in place"
            )
        return np.frombuffer(data, dtype=self.dtype)


@dataclass(frozen=True)
class PackedTokens:
    """One split of a packed folder, cut to sequences."""

    folder: Path
    """Where the shards lie."""
    split: str
    """`train` or `validation`."""
    sequence_length: int
    """Tokens per sequence."""
    seed: int
    """Selects the order of the sequences."""
    vocab_size: int
    """Token ids of the model; the data's are below it."""
    tokens: int
    """Tokens of the split, EOS included."""
    documents: int
    """Documents of the split."""
    unigram_entropy: float
    """Entropy of single tokens of the split, in nats: the loss of a model that knows nothing but their frequencies."""
    digest: str
    """SHA-256 over what a run reads here, shards' checksums included: the same data, wherever it lies."""
    eos: int
    """Token id at the end of every document."""
    _starts: tuple[int, ...]
    _shards: tuple[_Shard, ...]

    @classmethod
    def open(cls, folder: str, split: str, *, sequence_length: int, seed: int, vocab_size: int) -> PackedTokens:
        """Check a split against its index, in a time that does not grow with the data, and open it.

        Raises:
            DataError: no packed folder, no such split, a file that is missing or of another size, token ids that the
                model does not have, or less than one sequence.
        """
        root = Path(folder).expanduser()
        path = root / INDEX
        index = _read(path)
        try:
            part = index["splits"].get(split)
            if part is None:
                raise DataError(
                    f"{path}: no split {split}, only {', '.join(index['splits'])}"
                    + ("; pack with --validation-fraction" if split == "validation" else "")
                )
            kind, listed = index["dtype"], part["shards"]
            if kind not in DTYPES:
                raise DataError(f"{path}: dtype {kind} is none of {', '.join(DTYPES)}")
            counts = [int(s["tokens"]) for s in listed]
            files = [str(s["file"]) for s in listed]
            largest = max(int(s["largest"]) for s in listed)
            content = [kind, index["eos"], index["tokenizer"]["sha256"], split, [s["sha256"] for s in listed]]
            facts = int(part["tokens"]), int(part["documents"]), float(part["unigramEntropy"])
            eos = int(index["eos"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{path}: not an index of packed tokens ({error!r}); pack again") from error
        if sum(counts) != facts[0] or min(counts) < 1:
            raise DataError(f"{path}: the shards of {split} hold {sum(counts)} tokens, the split says {facts[0]}")
        if largest >= vocab_size:
            raise DataError(
                f"{path}: token id {largest} in {split}, and the model's vocabulary ends at {vocab_size - 1}; "
                f"pack with the model's own tokenizer (this is {index['tokenizer'].get('name')})"
            )
        if facts[0] <= sequence_length:
            raise DataError(
                f"{path}: {split} has {facts[0]} tokens, less than one sequence of {sequence_length} + 1; take a "
                "smaller sequence_length or more data" + (" or validation" if split == "validation" else "")
            )
        shards = tuple(_Shard(root / file, count, kind) for file, count in zip(files, counts, strict=True))
        return cls(
            root,
            split,
            sequence_length,
            seed,
            vocab_size,
            *facts,
            digest=hashlib.sha256(json.dumps(content).encode()).hexdigest(),
            eos=eos,
            _starts=tuple(itertools.accumulate(counts, initial=0))[:-1],
            _shards=shards,
        )

    @property
    def sequences(self) -> int:
        """Whole sequences of the split: one epoch."""
        return (self.tokens - 1) // self.sequence_length

    def sequence(self, index: int) -> Any:
        """Sequence `index` in the order of the files: int64, shape (sequence_length + 1,).

        Raises:
            IndexError: there are fewer sequences.
            DataError: the file has become shorter or cannot be read, or a token id that the model does not have.
        """
        import numpy as np
        import torch

        if not 0 <= index < self.sequences:
            raise IndexError(f"sequence {index} of {self.sequences}")
        at = index * self.sequence_length
        end = at + self.sequence_length + 1
        row = np.empty(self.sequence_length + 1, dtype=np.int64)
        filled = 0
        shard = bisect_right(self._starts, at) - 1
        while at < end:
            first = at - self._starts[shard]
            piece = self._shards[shard].read(first, end - at)
            if piece.size and (found := int(piece.max())) >= self.vocab_size:
                raise DataError(
                    f"{self._shards[shard].path}: token id {found} after token {first}, above all that "
                    "the index knows: the file is damaged; copy it again"
                )
            row[filled : filled + piece.size] = piece
            filled += piece.size
            at += piece.size
            shard += 1
        return torch.from_numpy(row)

    def order(self, position: int) -> int:
        """Which sequence is the `position`-th of the run, from 0: each once per epoch, every epoch in another order."""
        epoch, place = divmod(position, self.sequences)
        return permuted(place, self.sequences, mix(self.seed, _ORDER, epoch))

    def batch(self, step: int, *, global_batch_size: int, rank: int, world_size: int) -> tuple[Any, Any]:
        """This rank's part of the batch of `step` (counted from 1); the batch is the same for every number of ranks.

        Returns:
            inputs and labels, both int64 of shape (global_batch_size / world_size, sequence_length); a label is the
            token that follows its input.

        Raises:
            DataError: as `sequence`.
        """
        import torch

        share = global_batch_size // world_size
        first = (step - 1) * global_batch_size + rank * share
        rows = torch.stack([self.sequence(self.order(first + i)) for i in range(share)])
        return rows[:, :-1], rows[:, 1:]


def splits(folder: str) -> Sequence[str]:
    """Names of the splits of a packed folder.

    Raises:
        DataError: not a packed folder.
    """
    return tuple(_read(Path(folder).expanduser() / INDEX).get("splits") or ())


def _read(path: Path) -> dict[str, Any]:
    try:
        index = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{path}: not there; make the folder with python -m training.pack") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    if not isinstance(index, dict) or index.get("version") != VERSION:
        found = index.get("version") if isinstance(index, dict) else None
        raise DataError(f"{path}: version {found} of the format, and this training reads {VERSION}; pack again")
    return index
