"""The loss on data that the training never sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

IGNORED = -100  # label that cross entropy leaves out


@dataclass(frozen=True)
class HeldOut:
    """Sequences for validation."""

    sequence: Callable[[int], Any]
    """Tokens of one sequence and the one after it: int64, shape (sequence_length + 1,)."""
    count: int
    """How many are measured, counted from 0."""


def held_out_loss(model: Any, data: HeldOut, *, micro_batch_size: int, rank: int, world_size: int) -> float:
    """Mean cross entropy per token over all held-out sequences, in nats. All ranks together.

    Every rank takes part in as many forward passes, for FSDP gathers weights in each; places beyond the last sequence
    are filled with one that does not count. The weights are those after the step just taken.
    """
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import FSDPModule

    device = next(model.parameters()).device
    summed = torch.zeros(2, dtype=torch.float64, device=device)
    with torch.no_grad():
        for first in range(0, data.count, micro_batch_size * world_size):
            mine = range(first + rank * micro_batch_size, first + (rank + 1) * micro_batch_size)
            rows = torch.stack([data.sequence(i % data.count) for i in mine])
            labels = rows[:, 1:].clone()
            labels[[i >= data.count for i in mine]] = IGNORED
            summed[0] += model.token_loss(rows[:, :-1].to(device), labels.to(device))
            summed[1] += int((labels != IGNORED).sum())
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()  # what no backward pass has let go of
    dist.all_reduce(summed)
    total, tokens = summed.tolist()
    return float(total / tokens)
