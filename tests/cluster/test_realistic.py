"""The chart's rules are for mistakes: what platform teams really write is taken, by the chart and by all after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.cases import job
from tests.cluster.checkers import require_go
from tests.cluster.judges import refusals, rendered
from tests.helm import HelmError, template

VALUES = yaml.safe_load((Path(__file__).parent / "fixtures" / "realistic-values.yaml").read_text(encoding="utf-8"))


def over(given: Any, values: Any) -> Any:
    """Values over others, as Helm merges files."""
    if not isinstance(given, dict) or not isinstance(values, dict):
        return values
    return given | {key: over(given.get(key), value) for key, value in values.items()}


CASES = {name: over(job(), values) for name, values in VALUES.items()}


@pytest.mark.parametrize("case", CASES)
def test_the_chart_takes_it(case: str) -> None:
    try:
        template(CASES[case])
    except HelmError as refused:
        pytest.fail(f"{refused.problems or refused.stderr}")


@pytest.mark.go
def test_so_does_everybody_else() -> None:
    require_go()
    found = refusals(CASES, rendered(CASES))
    assert not found, "\n".join(found)
