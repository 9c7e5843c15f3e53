"""GPU memory of the training, part by part, against what each GPU has. The formulae are those of `training/sizes.py`.

Measured on one H200 the estimate is 4 to 30 % above the peak (docs/results/one-gpu-2026-12-03.md): an upper bound.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from generator.catalog import InstanceType
from generator.resolve import Resolved
from training import sizes
from training.config import Config, build, check_args, check_world_size, preset_names

_MIB = 1024**2
NEAR = 0.90
"""Above this share of a GPU's memory it is tight: allocators fragment, and the estimate has an error."""
_MOST_SEQUENCES = 10_000  # in one pass of one rank; `sizes.micro_batch` tries them all, and no GPU holds more


@dataclass(frozen=True, slots=True)
class Memory:
    """What something needs, by name of the part, and what there is. In bytes."""

    parts: Mapping[str, int]
    available: int

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return sum(self.parts.values())

    @property
    def share(self) -> float:
        """Needed as a share of what there is; above 1 it does not fit."""
        return self.total / self.available


def gpu_memory(resolved: Resolved, **changes: Any) -> list[tuple[str, Memory]]:
    """(group, memory of each of its GPUs) of every group with GPUs; nothing where the training is not ours to foresee.

    Args:
        changes: arguments of the training on top of the environment's, to see what they would come to.
    """
    config = training_config(resolved, **changes)
    if config is None or config.parallel.device == "cpu":
        return []
    return [
        (group.name, of_one_gpu(config, group.type, resolved.nodes, group.processes))
        for group in resolved.groups
        if group.type.gpus and group.gpus
    ]


def training_config(resolved: Resolved, **changes: Any) -> Config | None:
    """The training's configuration; None without a job, with a mistake in it, or with ranks that it does not divide by.

    The mistakes have findings of their own.
    """
    training = resolved.environment.training
    args = {**training.args, **changes}
    if resolved.environment.mode == "cluster" or not training.bundled or training.preset not in preset_names():
        return None
    if len(resolved.groups) != len(resolved.environment.workers) or len({g.processes for g in resolved.groups}) != 1:
        return None
    if check_args(training.preset, args):
        return None
    config = build(training.preset, args)
    if check_world_size(config.batch, resolved.world_size):
        return None
    sequences = min(config.batch.micro_batch_size, _MOST_SEQUENCES)
    return dataclasses.replace(config, batch=dataclasses.replace(config.batch, micro_batch_size=sequences))


def of_one_gpu(config: Config, found: InstanceType, nodes: int, ranks_per_node: int) -> Memory:
    """What a training needs on each GPU of nodes of one type."""
    planned = sizes.gpu_memory(config, nodes=nodes, processes_per_node=ranks_per_node)
    return Memory(dataclasses.asdict(planned), found.gpu_memory_mib * _MIB)
