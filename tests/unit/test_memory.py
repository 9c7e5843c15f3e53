"""What the training needs on each GPU, beside what the GPU has."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator.catalog import instance_types
from generator.plan.memory import gpu_memory
from generator.project import Project
from generator.resolve import Resolved, resolve
from tests.project import base, make
from training import sizes
from training.config import build


def resolved(root: Path, *changes: tuple[str, str]) -> Resolved:
    """The demo environment of the fixtures, with texts of it replaced, in numbers."""
    text = base("environment.yaml")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    loaded = Project(make(root, environment=text)).load("demo")
    assert loaded.environment.model is not None and loaded.cluster is not None
    return resolve(loaded.environment.model, loaded.cluster.model)


def test_parts_are_those_of_the_training_and_the_room_is_the_gpus(tmp_path: Path) -> None:
    [(name, memory)] = gpu_memory(resolved(tmp_path))
    planned = sizes.gpu_memory(build("qwen2.5-1.5b", {"sequence_length": 2048}), nodes=2, processes_per_node=4)
    assert name == "gpu"
    assert memory.total == planned.total == sum(memory.parts.values())
    assert memory.parts["state"] == planned.state
    assert memory.available == instance_types()["g6.12xlarge"].gpu_memory_mib * 2**20
    assert memory.share == pytest.approx(planned.total / memory.available)


def test_changes_are_laid_over_the_environments_arguments(tmp_path: Path) -> None:
    mine = resolved(tmp_path)
    plain, shorter = gpu_memory(mine)[0][1], gpu_memory(mine, sequence_length=1024)[0][1]
    assert shorter.parts["activations"] < plain.parts["activations"]
    assert shorter.parts["state"] == plain.parts["state"]


@pytest.mark.parametrize(
    "change",
    [
        ("mode: job", "mode: cluster"),
        ("preset: qwen2.5-1.5b", "preset: nobody"),
        ("steps: 200,", "stepz: 200,"),
        ("steps: 200,", "global_batch_size: 20,"),
        ("steps: 200,", "device: cpu,"),
        ("instanceType: g6.12xlarge", "instanceType: m7i.xlarge"),
    ],
    ids=["by hand", "unknown preset", "unknown argument", "batch and ranks", "on CPUs", "no usable type"],
)
def test_nothing_is_foreseen_where_the_training_is_not_known(tmp_path: Path, change: tuple[str, str]) -> None:
    assert gpu_memory(resolved(tmp_path, change)) == []
