"""Each fixture gives exactly the findings of its sidecar; its near-miss gives no error, and no finding of that code."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import yaml

from generator.diagnostics import CODES, Finding, Severity
from generator.project import Project
from generator.rules import check
from tests.project import FIXTURES, PLACES, base

TODAY = date(2026, 12, 3)  # for what ends on a day
ASKS_A_REGISTRY = "RTD430"  # tests/registry/test_pin.py
CASES = sorted(p for p in (FIXTURES / "invalid").iterdir() if p.is_dir())


def project(root: Path, case: Path, near_miss: Path | None = None) -> list[Finding]:
    """The findings of environment demo: files of the near-miss win over the case's, those over the base's."""
    for name, place in PLACES.items():
        candidates = [
            folder / name for folder in (near_miss, case if near_miss is None else None) if folder is not None
        ]
        found = next((c for c in candidates if c.exists()), None)
        target = root / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(found.read_bytes() if found else base(name).encode())
    neighbour = (near_miss or case) / "neighbour" / "environment.yaml"
    if neighbour.exists():
        folder = root / "environments" / yaml.safe_load(neighbour.read_text())["name"]
        folder.mkdir()
        (folder / "environment.yaml").write_bytes(neighbour.read_bytes())
    layers = sorted((near_miss or case).glob("_base/*.yaml"))
    for layer in layers:
        target = root / "environments" / "_base" / layer.name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(layer.read_bytes())
    loaded = Project(root)
    unused, _ = loaded.layers().unused(loaded.environment(name).source for name in loaded.names())
    return check(loaded.load("demo"), TODAY) + unused


def place(name: str) -> str:
    """Where a file of a fixture stands in a project."""
    return PLACES.get(name, f"environments/{name}")


@pytest.mark.parametrize("case", CASES, ids=lambda p: p.name)
def test_fixture_gives_what_its_sidecar_says(case: Path, tmp_path: Path) -> None:
    expected = yaml.safe_load((case / "expected.yaml").read_text(encoding="utf-8"))["findings"]
    findings = project(tmp_path, case)
    got = [(f.code, f.severity.value, f.file, f.range.start.line, f.range.start.column) for f in findings]
    want = [(e["code"], e["severity"], place(e["file"]), e["line"], e["column"]) for e in expected]
    assert sorted(got) == sorted(want)
    for e in expected:
        line = (tmp_path / place(e["file"])).read_text(encoding="utf-8").splitlines()[e["line"] - 1]
        assert line[e["column"] - 1 :].startswith(e["marks"]), "the sidecar itself points at something else"
    for finding in findings:
        assert finding.help, f"{finding.code} does not say what to do"
        assert finding.code == case.name[:6] or any(e["code"] == finding.code for e in expected)


@pytest.mark.parametrize("case", CASES, ids=lambda p: p.name)
def test_near_miss_passes(case: Path, tmp_path: Path) -> None:
    near_miss = case / "near-miss"
    assert near_miss.is_dir(), "every fixture has a near-miss beside it"
    findings = project(tmp_path, case, near_miss)
    assert [f for f in findings if f.severity is Severity.ERROR or f.code == case.name[:6]] == []


def test_every_code_has_a_fixture() -> None:
    assert {case.name[:6] for case in CASES} == set(CODES) - {ASKS_A_REGISTRY}
