"""The README's table of what Helm's schema check says: each message is Helm's own, and each way out is free of it."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.helm import CHART, HelmError, render

ROWS = re.findall(
    r"^\| `(?P<wrong>[^`]+)` \| `(?P<says>at [^`]+)` \| `(?P<right>[^`]+)`",
    (CHART / "README.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_the_table_is_found() -> None:
    assert len(ROWS) >= 6


@pytest.mark.parametrize(("wrong", "says", "right"), ROWS, ids=[row[0] for row in ROWS])
def test_the_schema_says_so_and_not_of_the_way_out(wrong: str, says: str, right: str) -> None:
    with pytest.raises(HelmError) as refused:
        render(yaml.safe_load(wrong))
    assert f"- {says}\n" in refused.value.stderr
    try:
        render(yaml.safe_load(right))
    except HelmError as error:  # the rules of the chart may still want more
        assert "specifications of the schema" not in error.stderr
