"""The collectives of a sharded training, one at a time: run them, know their right result, count their bytes.

Sizes and bandwidths are those of nccl-tests (NVIDIA/nccl-tests, doc/PERFORMANCE.md): the size S of an all-gather is
that of its output, of a reduce-scatter that of its input, of an all-reduce that of its buffer. Algorithm bandwidth is
S / time. Bus bandwidth is algorithm bandwidth × (n-1)/n, for an all-reduce × 2 (n-1)/n: what each of the n ranks would
have to send in a ring, so it can be held to the speed of the hardware whatever n is.
"""

from __future__ import annotations

import time
from typing import Any

NAMES = ("all-gather", "reduce-scatter", "all-reduce")
ELEMENT = 4  # bytes of a float32
_PERIOD = 251  # of the test values; a prime, so that parts of a buffer differ whatever its size


def bus_factor(name: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth."""
    return (2 if name == "all-reduce" else 1) * (ranks - 1) / ranks


def node_bytes(name: str, size: int, *, ranks: int, groups: int, cuda: bool) -> float:
    """Bytes that each node sends over its network, in one direction, when every group runs the collective once.

    A ring enters and leaves each node once. NCCL may choose a tree or another algorithm, which sends somewhat more or
    less.

    Args:
        ranks: of one group.
        groups: how many of them cross each node's edge.
        cuda: over NCCL; else over gloo, whose reduce-scatter is an all-reduce of which each rank keeps its part.
    """
    times = 2 if name == "reduce-scatter" and not cuda else 1
    return groups * times * bus_factor(name, ranks) * size


class Collective:
    """One collective over one group, with buffers of its own."""

    def __init__(self, name: str, size: int, group: Any, device: Any) -> None:
        """Allocate the buffers.

        Args:
            size: S in bytes; `self.size` is the next smaller one that has equal parts for all ranks, at least one
                element each.
        """
        import torch
        import torch.distributed as dist

        self.name = name
        self.ranks, self._index = dist.get_world_size(group), dist.get_rank(group)
        self._group = group
        self._part = max(1, size // (ELEMENT * self.ranks))
        self.size = ELEMENT * self._part * self.ranks
        self._device = device
        self._whole = torch.zeros(self._part * self.ranks, dtype=torch.float32, device=device)
        self._own = self._whole[:0] if name == "all-reduce" else torch.zeros_like(self._whole[: self._part])

    def __call__(self) -> None:
        """Run it once; on a GPU it may go on after the return."""
        import torch.distributed as dist

        if self.name == "all-reduce":
            dist.all_reduce(self._whole, group=self._group)
        elif self.name == "all-gather":
            _single(dist, "all_gather_single", "all_gather_into_tensor")(self._whole, self._own, group=self._group)
        else:
            _single(dist, "reduce_scatter_single", "reduce_scatter_tensor")(self._own, self._whole, group=self._group)

    def wait(self) -> None:
        """Wait until the device has done what it was given."""
        import torch

        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def right(self) -> bool:
        """Run it once on known numbers; whether this rank's result is exact. Leaves zeros in the buffers.

        Rank k of n contributes i mod 251 + k + 1 at position i of the buffer. All sums are whole numbers far below
        2^24, where float32 is exact in any order.
        """
        n, k, part = self.ranks, self._index, self._part
        if self.name == "all-gather":
            self._own.copy_(self._values(k) + (k + 1))
        else:
            for i in range(n):
                self._piece(i).copy_(self._values(i) + (k + 1))
        self()
        self.wait()
        summed = n * (n + 1) // 2
        if self.name == "all-gather":
            good = all(bool((self._piece(i) == self._values(i) + (i + 1)).all()) for i in range(n))
        elif self.name == "reduce-scatter":
            good = bool((self._own == n * self._values(k) + summed).all())
        else:
            good = all(bool((self._piece(i) == n * self._values(i) + summed).all()) for i in range(n))
        self._whole.zero_()  # an all-reduce in place would grow without end
        self._own.zero_()
        assert len(self._whole) == n * part  # noqa: S101 - a collective never changes the shape
        return good

    def _piece(self, index: int) -> Any:
        return self._whole[index * self._part : (index + 1) * self._part]

    def _values(self, index: int) -> Any:
        import torch

        first = index * self._part
        return (torch.arange(first, first + self._part, device=self._device) % _PERIOD).float()

    def seconds(self, iterations: int) -> float:
        """Mean wall time of `iterations` runs, one after the other."""
        self.wait()
        began = time.perf_counter()
        for _ in range(iterations):
            self()
        self.wait()
        return (time.perf_counter() - began) / iterations


def _single(dist: Any, name: str, before: str) -> Any:
    """torch 2.13 gave two collectives new names and warns of the old ones."""
    return getattr(dist, name, None) or getattr(dist, before)
