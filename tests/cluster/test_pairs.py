"""Whatever the chart accepts, KubeRay and the API server accept: every two fields of each type, all of them right
alone."""

from __future__ import annotations

import zlib

import pytest

from tests.cluster.checkers import require_go
from tests.cluster.judges import refusals, rendered
from tests.cluster.pairs import cases

PART = 24
"""`make test` tries every twenty-fourth, `make test-full` all."""

pytestmark = pytest.mark.go


@pytest.mark.parametrize("part", [PART, pytest.param(1, marks=pytest.mark.full)])
def test_what_the_chart_accepts_is_accepted(part: int) -> None:
    require_go()
    tried = {name: values for name, values in cases().items() if zlib.crc32(name.encode()) % part == 0}
    texts = rendered(tried)
    # Both sides of the chart's judgement are tried.
    assert len(tried) > 6000 / part
    assert len(tried) * 0.2 < len(texts) < len(tried) * 0.8
    found = refusals(tried, texts)
    assert not found, f"{len(found)} refusals:\n" + "\n".join(found[:100])
