"""Each valid fixture has no finding at all, is valid for editors too, and renders."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from generator.project import Project
from generator.render import render
from generator.resolve import resolve
from generator.rules import check
from tests.project import FIXTURES, make

ROOT = Path(__file__).resolve().parents[2]
CASES = sorted(p for p in (FIXTURES / "valid").iterdir() if p.is_dir())
RANKS = {
    "capacity-block": 16,
    "existing-cluster": 16,
    "interactive": 8,
    "merge-keys": 8,
    "minimal": 4,
    "this-machine": 6,
    "two-groups": 8,
}


@pytest.mark.parametrize("case", CASES, ids=lambda p: p.name)
def test_valid_fixture(case: Path, tmp_path: Path) -> None:
    files = {path.stem: path.read_text(encoding="utf-8") for path in case.glob("*.yaml")}
    loaded = Project(make(tmp_path, **files)).load("demo")
    assert check(loaded) == []
    assert loaded.environment.model is not None and loaded.cluster is not None
    assert resolve(loaded.environment.model, loaded.cluster.model).world_size == RANKS[case.name]
    schema = json.loads((ROOT / "environments/environment.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(loaded.environment.source.data, schema)
    tree = render(loaded)
    assert ("eksctl/demo.yaml" in tree) == (
        loaded.cluster.model is not None and loaded.cluster.model.managed == "eksctl"
    )
    for text in tree.values():
        assert isinstance(yaml.safe_load(text), dict)
