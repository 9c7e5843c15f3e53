"""Synthetic tokens that can be learnt, as a pure function of (seed, index of the sequence).

The text is a Markov chain of order one: a token's class (its number modulo `CLASSES`) selects a list of `SUCCESSORS`
tokens, and the next token is the i-th of that list with a probability that halves with i. So every step of the chain
has the same known entropy, which is the lowest loss that any model can reach, and a model that has learnt nothing is
near ln(vocab_size). A sequence depends on nothing but the seed and its index, so the data is the same for every number
of ranks and goes on unchanged when a run resumes.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

CLASSES = 16
SUCCESSORS = 8
_WEIGHTS = [0.5**i for i in range(SUCCESSORS)]
_PROBABILITIES = [w / sum(_WEIGHTS) for w in _WEIGHTS]


def entropy() -> float:
    """Entropy of the next token given the one before, in nats: the lowest reachable loss."""
    return -sum(p * math.log(p) for p in _PROBABILITIES)


def mix(*numbers: int) -> int:
    """One well-spread 63-bit seed from several numbers (the finaliser of splitmix64)."""
    state = 0
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) & (2**64 - 1)
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        state ^= state >> 31
    return state >> 1


@dataclass(frozen=True)
class SyntheticTokens:
    """The chain over `vocab_size` tokens."""

    vocab_size: int
    """Number of token ids."""
    sequence_length: int
    """Tokens per sequence."""
    seed: int
    """Selects the chain and every sequence."""
    successors: tuple[tuple[int, ...], ...]
    """Class → the tokens that may follow."""

    @classmethod
    def create(cls, *, vocab_size: int, sequence_length: int, seed: int) -> SyntheticTokens:
        """Draw the chain that `seed` selects. Successors of a class are distinct."""
        table = []
        for group in range(CLASSES):
            drawn: dict[int, None] = {}
            for attempt in itertools.count():
                drawn[mix(seed, 1, group, attempt) % vocab_size] = None
                if len(drawn) == SUCCESSORS:
                    break
            table.append(tuple(drawn))
        return cls(vocab_size, sequence_length, seed, tuple(table))

    def sequence(self, index: int) -> Any:
        """Tokens of one sequence and the one after it: int64, shape (sequence_length + 1,)."""
        import torch

        generator = torch.Generator().manual_seed(mix(self.seed, 2, index))
        draws = torch.rand(self.sequence_length, generator=generator, dtype=torch.float64)
        bounds = torch.tensor(list(itertools.accumulate(_PROBABILITIES)), dtype=torch.float64)
        choices = torch.searchsorted(bounds, draws).clamp_(max=SUCCESSORS - 1).tolist()
        token = mix(self.seed, 3, index) % self.vocab_size
        tokens = [token]
        for choice in choices:
            token = self.successors[token % CLASSES][choice]
            tokens.append(token)
        return torch.tensor(tokens, dtype=torch.int64)

    def batch(self, step: int, *, global_batch_size: int, rank: int, world_size: int) -> tuple[Any, Any]:
        """This rank's part of the batch of `step` (counted from 1).

        Returns:
            inputs and labels, both int64 of shape (global_batch_size / world_size, sequence_length); a label is the
            token that follows its input.
        """
        import torch

        share = global_batch_size // world_size
        first = (step - 1) * global_batch_size + rank * share
        rows = torch.stack([self.sequence(first + i) for i in range(share)])
        return rows[:, :-1], rows[:, 1:]
