"""The nodes' root volumes: what the image and the training write there, beside what the kubelet lets them have."""

from __future__ import annotations

from generator.plan.memory import Memory, training_config
from generator.resolve import Group, Resolved
from training import sizes
from training.config import Config

_MIB = 1024**2
_GB = 10**9

IMAGE_GIB = 20
"""The training image, unpacked; an estimate."""
SYSTEM = 8 * _GB
"""Operating system with the NVIDIA driver, and the images of the daemon sets; an estimate."""
LOGS = 2 * _GB
"""Logs of Ray, the ranks and the kubelet, which all rotate; an estimate."""

_EXPORT_BYTES = {"none": 0, "bfloat16": 2, "float32": 4}
_EXPORT_FILE = 5 * _GB
"""Largest file of an export (`training/export.py`); to an address they pass through the disk one by one."""


def disk(resolved: Resolved) -> list[tuple[str, Memory]]:
    """(group, disk of each of its nodes) of every group whose volumes are ours; nothing where the training is not."""
    config = training_config(resolved)
    if config is None:
        return []
    return [
        (group.name, _disk(config, resolved, group, group.room.disk_mib))
        for group in resolved.groups
        if group.room.disk_mib is not None
    ]


def checkpoints_on_disk(config: Config, resolved: Resolved) -> int:
    """How many checkpoints lie on a node's disk at once: those kept and the next, one on its way to S3, or none."""
    kind = resolved.environment.training.storage.kind
    return {"none": config.checkpoints.keep_checkpoints + 1, "s3": 1}.get(kind, 0)


def _disk(config: Config, resolved: Resolved, group: Group, room_mib: int) -> Memory:
    kind = resolved.environment.training.storage.kind
    parts = {"system": SYSTEM, "image": IMAGE_GIB * 2**30, "logs": LOGS}
    source = resolved.environment.training.model
    if "://" in source.uri or source.revision:
        parts["model"] = _EXPORT_BYTES["bfloat16"] * sizes.parameter_count(config.model)
    if copies := checkpoints_on_disk(config, resolved):
        # Each rank writes its own part; replicated parts are written once.
        parts["checkpoints"] = copies * sizes.checkpoint_bytes(config) // resolved.nodes
    whole = _EXPORT_BYTES[config.checkpoints.export] * sizes.parameter_count(config.model)
    if kind in ("none", "s3") and whole and group.name == resolved.groups[0].name:
        parts["export"] = whole if kind == "none" else min(whole, _EXPORT_FILE)
    return Memory(parts, room_mib * _MIB)
