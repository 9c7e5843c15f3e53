"""Where the chart is stricter than the operator, docs/stricter-than-kuberay.md says so, and why."""

from __future__ import annotations

import pytest

from tests.cluster.checkers import require_go
from tests.cluster.sets import values
from tests.cluster.stricter import BEYOND_VALUES, MISSING, Outcome, compare, known_cases, read, rules

SETS = 100
MANY = 3_000  # in `make test-full`

pytestmark = pytest.mark.go


@pytest.fixture(scope="module")
def known() -> Outcome:
    require_go()
    return compare(known_cases().values())


def test_each_rule_is_broken_by_a_case(known: Outcome) -> None:
    untried = [rule.text for rule in rules() if rule not in known.broken]
    assert [text for text in untried if not text.startswith(BEYOND_VALUES)] == []


def test_the_list_is_that_of_the_cases(known: Outcome) -> None:
    found = {rule.text for rule in known.stricter}
    assert found == set(read()), "run `python -m tests.cluster.stricter`, and give its new lines a reason"


def test_each_line_has_a_reason() -> None:
    assert [text for text, reason in read().items() if reason == MISSING or len(reason) < len("As above.")] == []


@pytest.mark.parametrize("count", [SETS, pytest.param(MANY, marks=pytest.mark.full)])
def test_random_sets_find_no_other_rule(count: int) -> None:
    require_go()
    found = {rule.text: broken for rule, broken in compare(map(values, range(count))).stricter.items()}
    assert len(found) > 5
    assert {text: broken for text, broken in found.items() if text not in read()} == {}
