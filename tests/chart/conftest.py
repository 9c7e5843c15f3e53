"""A copy of the chart that a test may change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.helm import CHART


@pytest.fixture
def chart_copy(tmp_path: Path) -> Path:
    """The chart, in a folder of its own name."""
    return Path(shutil.copytree(CHART, tmp_path / CHART.name))
