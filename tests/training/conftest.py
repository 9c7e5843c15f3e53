"""What the tests of training/ need: torch and ray where they are installed, and no process left behind."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

import pytest

from tests.training.processes import Started


def require(*names: str) -> None:
    """Skip, by name, when a library is missing; under CI that is a failure: there everything must run."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if not missing:
        return
    text = f"not installed: {', '.join(missing)}; get them with: pip install -e '.[train]'"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(text)
    pytest.skip(text)


@pytest.fixture(scope="module")
def torch_installed() -> None:
    """torch and transformers."""
    require("torch", "transformers")


@pytest.fixture(scope="module")
def ray_installed() -> None:
    """torch, transformers and ray."""
    require("torch", "transformers", "ray")


@pytest.fixture
def started() -> Iterator[Started]:
    """Starts processes; all of their groups are ended after the test."""
    group = Started()
    yield group
    group.end()
