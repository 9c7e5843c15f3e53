"""values.yaml, values.schema.json and the table of README.md come from the models, and the examples among them hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.values.__main__ import files
from generator.values.compared import BEYOND, RAY_CLUSTER_CHART
from generator.values.document import rows
from generator.values.pods import WorkerGroup
from tests.chart.cases import job, with_key
from tests.chart.every_value import CLUSTER, OWN, POD_FIELDS, RAY_FIELDS, VOLUME_FIELDS
from tests.helm import CHART, CI_VALUES, render

ROWS = {row.path: row for row in rows()}


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_generated_files_are_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == files()[path], "run: make schema"


def test_the_chart_has_exactly_these_defaults() -> None:
    """No template works with a default of its own that the table does not show."""
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert render(values) == render()


def test_the_example_group_of_the_values_file_is_valid() -> None:
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    example = text.partition("workerGroups: {}\n")[2].partition("\nplacement:")[0]
    group = yaml.safe_load(re.sub(r"^# ?", "", example, flags=re.MULTILINE))["workerGroups"]["gpu"]
    assert render({"workerGroups": {"gpu": group}, "training": {"storage": {"kind": "pvc", "claimName": "runs"}}})
    own = {path.split(".")[2] for path in ROWS if path.startswith("workerGroups.<name>.")}
    assert set(group) >= own


@pytest.mark.parametrize(
    "row", [row for row in rows() if row.example and "<name>" not in row.path], ids=lambda r: r.path
)
def test_every_example_is_taken(row: Any) -> None:
    """By the schema and by the rules."""
    before = job()
    if row.path == "training.storage.uri":
        before = job("training.storage", {"kind": "s3"})
    elif row.path in {"training.model.uri", "training.data.uri"}:
        before = OWN
    elif row.path.startswith("cluster.autoscaling"):
        before = with_key(CLUSTER, "cluster.autoscaling.enabled", True)
    elif row.path.startswith("cluster."):
        before = CLUSTER
    assert render(with_key(before, row.path, yaml.safe_load(row.example)))


def test_the_lists_of_pod_fields_are_complete() -> None:
    """So that each of them is tried in every place (test_names)."""
    known = {path.split(".")[0] for path in (*POD_FIELDS, *RAY_FIELDS, *VOLUME_FIELDS, "labels", "annotations")}
    own = {path.split(".")[2] for path in ROWS if path.startswith("workerGroups.<name>.")}
    assert {field.alias for field in WorkerGroup.model_fields.values()} - own == known


@pytest.mark.parametrize("ours", [*RAY_CLUSTER_CHART.values(), *BEYOND.values()])
def test_what_kuberays_chart_can_express_has_a_value_here(ours: str) -> None:
    """And each value does something (test_names)."""
    assert ours in ROWS


def test_all_options_files_set_each_value() -> None:
    given: set[str] = set()
    for file in CI_VALUES:
        if file.name.startswith("all-options"):
            given |= set(_leaves(yaml.safe_load(file.read_text(encoding="utf-8"))))
    for path in ROWS:
        wanted = path.replace(".<name>.", ".one.")
        assert any(item == wanted or item.startswith(f"{wanted}.") for item in given), path


def _leaves(values: dict[str, Any], path: str = "") -> list[str]:
    found = []
    for key, value in values.items():
        inner = f"{path}.{key}".strip(".")
        found += [inner, *(_leaves(value, inner) if isinstance(value, dict) else ())]
    return found
