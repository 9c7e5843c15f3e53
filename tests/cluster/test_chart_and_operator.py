"""Whatever the chart accepts, the operator accepts: random values, rendered by Helm, judged by KubeRay's functions.

The reverse does not hold, and need not: docs/stricter-than-kuberay.md lists what the chart refuses and the operator
takes.
"""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster.checkers import KUBERAY, check_rayjobs, require_go
from tests.cluster.sets import rendered

SETS = 300
MANY = 10_000  # in `make test-full`


def judge(count: int) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = [text for text in pool.map(rendered, range(count)) if isinstance(text, str)]
    # Both sides of the chart's judgement are tried.
    assert count * 0.3 < len(texts) < count * 0.9
    for release in KUBERAY:
        reports = check_rayjobs("".join(texts), release=release)
        assert len(reports) == len(texts)
        kinds = Counter(report.kind for report in reports)
        assert min(kinds["RayJob"], kinds["RayCluster"]) > count * 0.05, kinds
        refused = [f"{report.name}: {error}" for report in reports for error in report.errors]
        assert not refused, "\n".join(refused)


def test_the_operator_takes_what_the_chart_takes() -> None:
    require_go()
    judge(SETS)


@pytest.mark.full
def test_the_operator_takes_what_the_chart_takes_many_times() -> None:
    require_go()
    judge(MANY)
