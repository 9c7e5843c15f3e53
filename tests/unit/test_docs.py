"""The documentation names everything that is there, and nothing that is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from generator.diagnostics import CODES
from generator.model.cluster import Cluster
from generator.model.environment import ClaimStorage, Environment, NoStorage, S3Storage, WorkerGroup
from generator.model.version import Version

ROOT = Path(__file__).resolve().parents[2]


def table(section: str) -> set[str]:
    """The keys in the first column of a section of docs/environment.md."""
    text = (ROOT / "docs/environment.md").read_text(encoding="utf-8")
    part = text.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
    return {key for row in rows for key in re.findall(r"`([^`]+)`", row)}


def keys(model: type[BaseModel], prefix: str = "") -> set[str]:
    """Every key of a model, as documentation writes it."""
    found: set[str] = set()
    for field in model.model_fields.values():
        name = prefix + str(field.alias)
        found |= members(field.annotation, name)
    return found


def members(annotation: Any, name: str) -> set[str]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return keys(annotation, name + ".")
    if get_origin(annotation) is dict and get_args(annotation)[1] is WorkerGroup:
        return {f"{name}.<group>"} | keys(WorkerGroup, f"{name}.<group>.")
    parts = set(get_args(annotation)) & {NoStorage, S3Storage, ClaimStorage}
    if parts:
        return set().union(*(keys(part, name + ".") for part in parts))
    return {name}


@pytest.mark.parametrize(
    ("section", "model"),
    [("environment.yaml", Environment), ("The cluster's file", Cluster), ("version.yaml", Version)],
)
def test_every_key_is_documented(section: str, model: type[BaseModel]) -> None:
    assert table(section) == keys(model)


def test_the_mistakes_name_findings_and_files_that_exist() -> None:
    text = (ROOT / "docs/mistakes.md").read_text(encoding="utf-8")
    named = set(re.findall(r"RTD\d{3}", text))
    assert named <= set(CODES)
    for path in re.findall(r"`(tests/[\w/.-]+)`", text):
        assert (ROOT / path).exists(), path
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| mistake")]
    assert len(rows) > 100
    for row in rows:
        assert row.count("|") == 4 and row.split("|")[3].strip(), row


def test_links_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("charts/*/README.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
