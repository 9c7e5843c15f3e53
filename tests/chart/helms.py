"""The Helm releases that the chart is made for: the one that the tests use throughout, and the last of Helm 3."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.checkers import require_go
from tests.cluster.tools import build
from tests.helm import program

# Helm 3 is built when a test first asks for it: not in `make test`.
HELMS = ("helm4", pytest.param("helm3", marks=pytest.mark.full))


def helm(name: str) -> Path:
    """Path of `helm4` or `helm3`, or the end of the test where it cannot be had."""
    if name == "helm4":
        return program()
    require_go()
    return build.program(name)
