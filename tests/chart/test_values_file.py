"""values.yaml, README.md and the templates name the same values; each value does something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.chart.test_schema import SCHEMA, VALUES
from tests.helm import CHART, CI_VALUES, render

TEMPLATES = {file.name: file.read_text(encoding="utf-8") for file in sorted((CHART / "templates").iterdir())}
# Maps that a template takes as one.
WHOLE = {"head.resources"}


def leaves(values: dict[str, Any], path: str = "") -> Iterator[str]:
    """Dotted paths of the values that hold no further keys of the chart."""
    for key, value in values.items():
        inner = f"{path}.{key}".strip(".")
        if isinstance(value, dict) and value and inner not in WHOLE:
            yield from leaves(value, inner)
        else:
            yield inner


def group_leaves() -> list[str]:
    """Paths of a worker group's fields, which stand in the schema only."""
    fields = SCHEMA["definitions"]["workerGroup"]["properties"]
    found = [f"workerGroups.<name>.{key}" for key in fields if key != "transport"]
    return found + [f"workerGroups.<name>.transport.{key}" for key in fields["transport"]["properties"]]


LEAVES = sorted(leaves(VALUES))


def used() -> set[str]:
    """Every `.Values.a.b` of the templates, also through the variables that stand for `.Values` or a part of it."""
    aliases = {
        **dict.fromkeys(("$values", "$v", "$root.Values", ".root.Values", ".Values", "$.Values"), ""),
        **{"$job": "job", "$image": "image", "$training": "training", "$storage": "training.storage", "$head": "head"},
    }
    found = set()
    for text in TEMPLATES.values():
        for alias, prefix in aliases.items():
            for match in re.findall(rf"(?<![\w$.]){re.escape(alias)}\.([A-Za-z][\w.]*)", text):
                if not (alias in ("$head", "$job", "$storage", "$image", "$training") and alias + " :=" not in text):
                    found.add(f"{prefix}.{match}".strip("."))
    return found


@pytest.mark.parametrize("path", LEAVES)
def test_each_value_is_used(path: str) -> None:
    # The head's scheduling and environment go through the same templates as a group's.
    as_group = path.removeprefix("head.") if path.startswith("head.") else ""
    assert path in used() or (
        as_group and any(f".group.{as_group}" in text or f'"{as_group}"' in text for text in TEMPLATES.values())
    )


def test_each_used_value_is_declared() -> None:
    declared = set(LEAVES)
    branches = {path.rsplit(".", n)[0] for path in declared for n in range(1, path.count(".") + 1)}
    group_like = {"head.gpus", "head.efa"}  # given to the head by the template, so that it has a group's shape
    assert used() - declared - branches - group_like == set()


@pytest.mark.parametrize("path", [*LEAVES, *group_leaves()])
def test_readme_lists_each_value(path: str) -> None:
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    assert f"| `{path}` |" in readme


def test_readme_lists_nothing_else() -> None:
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([^`]+)` \|", readme.partition("## Values")[2], flags=re.MULTILINE)
    assert sorted(listed) == sorted([*LEAVES, *group_leaves()])


def test_readme_gives_the_real_defaults() -> None:
    readme = (CHART / "README.md").read_text(encoding="utf-8").partition("## Values")[2]
    for path, default in re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", readme, flags=re.MULTILINE):
        value: Any = VALUES
        if path.startswith("workerGroups."):
            continue
        for key in path.split("."):
            value = value[key]
        assert yaml.safe_load(default) == value, path


def test_each_value_has_a_comment() -> None:
    """`# --` above each key, as helm-docs reads it; further lines of the comment may follow."""
    lines = (CHART / "values.yaml").read_text(encoding="utf-8").splitlines()
    for path in LEAVES:
        key = path.split(".")[-1] if path not in WHOLE else "resources"
        indent = "  " * path.count(".")
        at = next(i for i, line in enumerate(lines) if re.match(rf"{indent}{re.escape(key)}:", line))
        above = at - 1
        while lines[above].strip().startswith("#") and "# -- " not in lines[above]:
            above -= 1
        assert "# -- " in lines[above], f"{path} (line {at + 1})"


def test_the_example_group_of_the_values_file_is_complete_and_valid() -> None:
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    example = text.partition("workerGroups: {}\n")[2].partition("\ntraining:")[0]
    group = yaml.safe_load(re.sub(r"^# ", "", example, flags=re.MULTILINE))["workerGroups"]["gpu"]
    assert render({"workerGroups": {"gpu": group}, "training": {"storage": {"kind": "pvc", "claimName": "runs"}}})
    assert set(group) == set(SCHEMA["definitions"]["workerGroup"]["properties"])


def test_all_options_file_sets_each_value() -> None:
    (file,) = [file for file in CI_VALUES if file.name == "all-options-values.yaml"]
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    group = values.pop("workerGroups")["one"]
    given = set(leaves(values)) | {f"workerGroups.<name>.{path}" for path in leaves(group)}
    for path in [*(leaf for leaf in LEAVES if leaf != "workerGroups"), *group_leaves()]:
        assert any(item == path or item.startswith(f"{path}.") for item in given), path
