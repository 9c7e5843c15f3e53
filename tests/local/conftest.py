"""Fixtures of the tests of `local`: manifests in files, and a run in a process of its own."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.local.drive import Drive
from tests.local.manifest import config_map, manifests, rayjob


@pytest.fixture
def needs_ray() -> None:
    """Skip by name where Ray is not installed; on CI that is a failure."""
    if importlib.util.find_spec("ray") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("Ray is not installed: pip install 'ray-train-dlc[train]'")
        pytest.skip("Ray is not installed")


@pytest.fixture
def drive(needs_ray: None, tmp_path: Path) -> Iterator[Callable[..., Drive]]:
    """Start `local` in its own process on a tiny RayJob; whatever a test does, nothing is left at its end."""
    started: list[Drive] = []

    def start(
        name: str = "run",
        *,
        flags: str = "--steps=3",
        job: Mapping[str, Any] | None = None,
        code: Mapping[str, Any] | None = None,
        timeout: float = 150,
        fresh: bool = False,
    ) -> Drive:
        file = tmp_path / f"{name}.yaml"
        file.write_text(manifests(job or rayjob(flags=flags), code or config_map()), encoding="utf-8")
        one = Drive(file, tmp_path / name, timeout=timeout, fresh=fresh)
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()
