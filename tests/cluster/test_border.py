"""Whatever the chart accepts, KubeRay and the API server accept: an odd value in every place, one at a time, and every
two fields of each type, both right alone.

A pod that the API server refuses is never seen by whoever installs the chart: the operator tries again for ever.
"""

from __future__ import annotations

import zlib
from types import ModuleType

import pytest

from tests.cluster import border, pairs
from tests.cluster.checkers import require_go
from tests.cluster.judges import refusals, rendered

pytestmark = pytest.mark.go


@pytest.mark.parametrize("part", ["part", pytest.param("all", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("source", "least", "share", "every"),
    # At least so many cases, the share of them that the chart takes, and which of them `make test` tries.
    [(border, 5000, (0.1, 0.7), 32), (pairs, 6000, (0.2, 0.8), 48)],
    ids=["odd values", "pairs"],
)
def test_what_the_chart_accepts_is_accepted(
    source: ModuleType, least: int, share: tuple[float, float], every: int, part: str
) -> None:
    require_go()
    step = every if part == "part" else 1
    tried = {name: values for name, values in source.cases().items() if zlib.crc32(name.encode()) % step == 0}
    texts = rendered(tried)
    # Both sides of the chart's judgement are tried.
    assert len(tried) > least / step
    assert len(tried) * share[0] < len(texts) < len(tried) * share[1]
    found = refusals(tried, texts)
    assert not found, f"{len(found)} refusals:\n" + "\n".join(found[:100])
