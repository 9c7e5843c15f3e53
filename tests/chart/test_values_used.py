"""No template reads a value that is not declared. That each value does something is proven in test_names."""

from __future__ import annotations

import re

import pytest
import yaml

from generator.values.document import Row, rows
from tests.helm import CHART

ROWS = {row.path: row for row in rows()}
PATH = r"((?:\.[A-Za-z]\w*)+)"


def used(text: str) -> set[str]:
    """Values that a template reads: by name, and through a variable that stands for a part of them."""
    found = {path[1:] for path in re.findall(rf"\.Values{PATH}", text)}
    for variable, part in re.findall(rf"(\$\w+) :?= \$?(?:\.root)?\.Values{PATH} ?-?}}}}", text):
        found |= {part[1:] + path for path in re.findall(rf"{re.escape(variable)}{PATH}", text)}
    return found


def declared(path: str) -> bool:
    """A value, a part of the values, or a key of a value that is a map."""
    # The fields of `common` are in the table once; these places take them too.
    path = re.sub(r"^(head|job\.submitter)\.(?!resources|service|backoffLimit)", "common.", path)
    if path in ROWS or any(known.startswith(f"{path}.") for known in ROWS):
        return True
    holder: Row | None = next((row for known, row in ROWS.items() if path.startswith(f"{known}.")), None)
    return holder is not None and isinstance(yaml.safe_load(holder.default), dict)


TEMPLATES = {
    str(file.relative_to(CHART)): used(file.read_text(encoding="utf-8"))
    for file in sorted((CHART / "templates").rglob("*.*"))
}


@pytest.mark.parametrize("name", [name for name, paths in TEMPLATES.items() if paths])
def test_every_value_that_a_template_reads_is_declared(name: str) -> None:
    assert [path for path in sorted(TEMPLATES[name]) if not declared(path)] == []


def test_values_are_seen_in_every_way_of_writing_them() -> None:
    everything = set().union(*TEMPLATES.values())
    # By name, from a named template's dict, and through a variable.
    assert everything >= {"image.pullPolicy", "common", "monitoring.podMonitor.interval", "networkPolicy.extraEgress"}
    text = (
        "{{ .Values.job.nmae }}{{- $policy := .root.Values.networkPolicy -}}{{ $policy.limitEgres }}{{ $policies.a }}"
    )
    assert {path for path in used(text) if not declared(path)} == {"job.nmae", "networkPolicy.limitEgres"}
    assert declared("head.resources.cpu")
    assert not declared("image.tag.cpu")
