"""The JSON Schemas for editors: up to date, and saying the same as the models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from generator.model.jsonschema import FILES, schema_text
from generator.project import Project
from generator.source import parse
from tests.project import FIXTURES, base

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / "environments"


def schema(kind: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ENVIRONMENTS / f"{kind}.schema.json").read_text(encoding="utf-8"))
    return loaded


def data(path: Path) -> Any:
    source = parse(path.read_bytes(), path.name)
    assert source.findings == ()
    return source.data


def errors(kind: str, value: Any) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(schema(kind)).iter_errors(value)]


@pytest.mark.parametrize("kind", FILES)
def test_the_written_schema_is_up_to_date(kind: str) -> None:
    written = (ENVIRONMENTS / f"{kind}.schema.json").read_text(encoding="utf-8")
    assert written == schema_text(kind), "run `python -m generator schema --write`"


@pytest.mark.parametrize("kind", FILES)
def test_the_schema_is_one(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(kind))


@pytest.mark.parametrize("kind", FILES)
def test_every_key_has_a_text(kind: str) -> None:
    whole = schema(kind)
    for part in (*([whole] if "if" not in whole else []), *whole.get("$defs", {}).values()):
        assert part["additionalProperties"] is False
        for key, entry in part["properties"].items():
            assert len(entry.get("description", "")) > 5, key


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        *(("environment", ENVIRONMENTS / name / "environment.yaml") for name in Project(ROOT).names()),
        *(("version", ENVIRONMENTS / name / "version.yaml") for name in Project(ROOT).names()),
        *(("cluster", path) for path in sorted((ENVIRONMENTS / "_clusters").glob("*.yaml"))),
        *((kind, FIXTURES / "base" / f"{kind}.yaml") for kind in FILES if kind != "layer"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.parent.name}/{value.name}",
)
def test_real_files_are_valid(kind: str, path: Path) -> None:
    assert errors(kind, data(path)) == []


@pytest.mark.parametrize("kind", FILES)
def test_unknown_keys_are_refused(kind: str) -> None:
    value = {} if kind == "layer" else parse(base(f"{kind}.yaml").encode(), "f").data
    assert errors(kind, value | {"extra": 1}) == ["Additional properties are not allowed ('extra' was unexpected)"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nodes: 2", "nodes: two"),
        ("nodes: 2", "nodes: 0"),
        ("nodes: 2", "node: 2"),
        ("efa: required", "efa: maybe"),
        ("kind: s3, uri: s3://bucket/ray-train", "kind: s3"),
        ("kind: s3, uri: s3://bucket/ray-train", "kind: tape"),
        ("memory: 8Gi", "memory: 8GB"),
        ("name: demo", "name: Demo"),
        ("  gpu:\n", "  G_PU:\n"),
        ("schemaVersion: 1", "schemaVersion: 2"),
    ],
)
def test_the_schema_refuses_what_the_models_refuse(old: str, new: str) -> None:
    text = base("environment.yaml")
    assert text.count(old) == 1
    assert errors("environment", parse(text.replace(old, new).encode(), "f").data)


@pytest.mark.parametrize(
    "text",
    [
        "schemaVersion: 1\nname: demo\nextends: gpu\n",
        "schemaVersion: 1\nname: demo\nextends: [gpu, team-a]\nworkers: {gpu: {nodes: 4}}\n",
        "extends: gpu\nworkers: {gpu: {efa: null}}\ntraining: {storage: {uri: s3://b/c}}\nhead: null\n",
        "extends: []\npolicy: {quota: null}\nworkers: {cpu: null}\ntraining: {args: {steps: null}}\n",
    ],
)
def test_a_part_of_an_environment_is_a_layer_or_stands_over_one(text: str) -> None:
    value = parse(text.encode(), "f").data
    assert errors("layer", value) == []
    assert errors("environment", value) == []
    assert errors("environment", {key: child for key, child in value.items() if key != "extends"})


@pytest.mark.parametrize(
    "text",
    [
        "extends: ../gpu\n", "extends: {gpu: 1}\n", "extends: [5]\n", "extends: a\nworkers: {gpu: {node: 4}}\n",
        "extends: a\nhead: {cpu: two}\n", "extends: a\ntraining: {storage: {kind: s3, claimName: c}}\n",
    ],
)  # fmt: skip
def test_a_layer_is_checked_as_far_as_it_goes(text: str) -> None:
    value = parse(text.encode(), "f").data
    assert errors("layer", value)
    assert errors("environment", value)
