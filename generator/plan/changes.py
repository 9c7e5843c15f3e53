"""Which arguments of the training bring it into the GPUs' memory, each found by trying it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from generator.plan.memory import gpu_memory, training_config
from generator.resolve import Resolved
from training import sizes

_GRAIN = 128  # tokens; sequence lengths are proposed in multiples of it
_LEAST_CHUNK = 128
SMALLEST = {"micro_batch_size": 1, "activation_checkpointing": "full", "sharding": "full"}
"""What together needs the least memory for the same training."""


def changes_that_fit(resolved: Resolved, share: float) -> list[tuple[str, Any]]:
    """(argument, value) pairs, each of which alone brings every GPU to `share` of its memory or less.

    Of each argument the value nearest to the one of now, those that leave the training as it is first.
    """
    found = []
    for name, values in _candidates(resolved):
        first = bisect_left(values, True, key=lambda value: fits(resolved, share, **{name: value}))
        if first < len(values):
            found.append((name, values[first]))
    return found


def needed_at_least(resolved: Resolved) -> int:
    """Bytes that each GPU needs for the same training when its arguments are those that need the least."""
    return max((memory.total for _, memory in gpu_memory(resolved, **SMALLEST)), default=0)


def fits(resolved: Resolved, share: float, **changes: Any) -> bool:
    """Whether every GPU needs `share` of its memory or less with these arguments on top of the environment's."""
    found = gpu_memory(resolved, **changes)
    return bool(found) and all(memory.share <= share for _, memory in found)


def _candidates(resolved: Resolved) -> Iterator[tuple[str, list[Any]]]:
    """Argument → values that need less than now, from the one that needs the most to the one that needs the least."""
    config = training_config(resolved)
    if config is None:
        return
    batch, parallel = config.batch, config.parallel
    sequences = sizes.micro_batch(batch, resolved.world_size)
    yield "micro_batch_size", _falling(sequences, 1)
    recomputed = ["none", "alternate", "full"]
    yield "activation_checkpointing", recomputed[recomputed.index(parallel.activation_checkpointing) + 1 :]
    yield "loss_chunk", _falling(parallel.loss_chunk, _LEAST_CHUNK)
    if sizes.sharding_mode(parallel, resolved.nodes, resolved.groups[0].processes) != "full":
        yield "sharding", ["full"]
    yield "sequence_length", [n * _GRAIN for n in range((batch.sequence_length - 1) // _GRAIN, 0, -1)]
    if parallel.precision == "mixed":
        yield "precision", ["bfloat16"]


def _falling(now: int, least: int) -> list[int]:
    """Half of `now`, half of that, and so on, down to `least`."""
    values = []
    while (now := now // 2) >= least:
        values.append(now)
    return values
