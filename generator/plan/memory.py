"""GPU memory of the training, part by part, against what each GPU has. The formulae are those of `training/sizes.py`.

Measured on one H200 the estimate is 4 to 30 % above the peak (docs/results/one-gpu-2026-12-03.md): an upper bound.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from generator.resolve import Group, Resolved
from training import sizes
from training.config import Config, build, check_args, check_world_size, preset_names

_MIB = 1024**2


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
    return [(group.name, _gpu(config, resolved, group)) for group in resolved.groups if group.type.gpus and group.gpus]


def training_config(resolved: Resolved, **changes: Any) -> Config | None:
    """The training's configuration; None without a job, with a mistake in it, or with ranks that it does not divide by.

    The mistakes have findings of their own.
    """
    training = resolved.environment.training
    args = {**training.args, **changes}
    if resolved.environment.mode != "job" or not training.bundled or training.preset not in preset_names():
        return None
    if len(resolved.groups) != len(resolved.environment.workers) or len({g.processes for g in resolved.groups}) != 1:
        return None
    if check_args(training.preset, args):
        return None
    config = build(training.preset, args)
    return None if check_world_size(config.batch, resolved.world_size) else config


def _gpu(config: Config, resolved: Resolved, group: Group) -> Memory:
    planned = sizes.gpu_memory(config, nodes=resolved.nodes, processes_per_node=group.processes)
    return Memory(dataclasses.asdict(planned), group.type.gpu_memory_mib * _MIB)
