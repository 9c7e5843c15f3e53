"""One test bench for the session, one namespace for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.cluster.bench import prerequisites
from tests.cluster.bench.bench import Bench
from tests.cluster.bench.prerequisites import PrerequisiteError
from tests.cluster.release import Space
from tests.cluster.spaces import FAILED, KEPT, made_space, wait_until_gone


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    """The bench that runs already (`make cluster-up`), which stays, or one for this session."""
    found = Bench("demo")
    problem = ""
    try:
        prerequisites.check(found.files)
    except PrerequisiteError as missing:
        problem = str(missing)
    if problem and os.environ.get("CI", "").lower() in {"true", "1"}:
        pytest.fail(f"CI must have what the bench needs: {problem}", pytrace=False)
    if problem:
        pytest.skip(problem)
    if found.runs():
        found.check()
        yield found
        wait_until_gone(found)
        return
    found.up()
    try:
        yield found
    finally:
        found.down()


@pytest.fixture
def space(bench: Bench, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace of the test's own."""
    with made_space(bench, request.node) as made:
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Remember that a test failed: its fixtures keep more then."""
    report = yield
    if report.failed:
        for node in item.listchain():
            node.stash[FAILED] = True
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if kept := config.stash.get(KEPT, []):
        terminalreporter.section("objects, events and logs of failed tests on the bench")
        for line in kept:
            terminalreporter.line(line)
