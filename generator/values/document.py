"""values.yaml and the tables of the values, from the models."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from generator.values.chart import Values
from generator.values.pods import Common, Head, PodFields, RayPodFields, Submitter, WorkerGroup
from generator.values.schema import texts

WIDTH = 130
# Fields of an example group in values.yaml besides a group's own.
_ALSO = ("node_selector", "tolerations")
_HEADING = """\
# Values of ray-train-dlc. As it stands, this file installs one training on one node with one GPU.
# Maps merge and lists replace when several values files are given; a key of a map is removed with `null`.
# Generated from generator/values/ by `make schema`; do not edit.
"""
_SHARED = "and all fields of `common`"


@dataclass(frozen=True)
class Row:
    """One value.

    Attributes:
        path: with dots; `<name>` for the keys of a map of groups.
        default: as YAML in one line; empty where there is none.
        text: what it is.
        example: as YAML in one line, or empty.
    """

    path: str
    default: str
    text: str
    example: str


def rows() -> list[Row]:
    """All values, those that several places share at `common` only."""
    return list(_rows(Values, ""))


def values_text() -> str:
    """The text of values.yaml."""
    return _HEADING + "\n".join(["", *_lines(Values, 0)]) + "\n"


def table() -> str:
    """All values as a Markdown table."""
    lines = ["| value | default | what |", "|---|---|---|"]
    for row in rows():
        example = f" Example: `{row.example}`" if row.example else ""
        default = f"`{row.default}`" if row.default else ""
        lines.append(f"| `{row.path}` | {default} | {(row.text + example).replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def own_fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Fields to show for a model: of those that take the fields of `common` too, their own."""
    shared: type[BaseModel] | None = None
    if model in {Head, WorkerGroup}:
        shared = RayPodFields
    elif model is Submitter:
        shared = PodFields
    return {name: f for name, f in model.model_fields.items() if shared is None or name not in shared.model_fields}


def nested(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a field that is a map with fixed keys."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def flow(value: Any) -> str:
    """A value as YAML in one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def default_of(field: FieldInfo) -> Any:
    """A field's default as plain data; None where there is none."""
    if field.is_required():
        return None
    value = field.get_default()
    return value.model_dump(by_alias=True, exclude_none=True) if isinstance(value, BaseModel) else value


def _rows(model: type[BaseModel], prefix: str) -> Iterator[Row]:
    about = texts(model)
    for name, field in own_fields(model).items():
        path = f"{prefix}{field.alias}"
        part = nested(field)
        if part is not None and not _whole(name):
            yield from _rows(part, f"{path}.")
            continue
        default = "" if field.is_required() else flow(default_of(field))
        example = flow(field.examples[0]) if field.examples else ""
        yield Row(path, default, about[name], example)
        if name == "worker_groups":
            yield from _rows(WorkerGroup, f"{path}.<name>.")


def _whole(name: str) -> bool:
    """Whether a field is shown as one map, because its keys are Kubernetes' or KubeRay's own."""
    return name in {"resources", "options", "gcs_fault_tolerance_options", "extra_spec"}


def _lines(model: type[BaseModel], depth: int) -> Iterator[str]:
    about = texts(model)
    indent = "  " * depth
    for number, (name, field) in enumerate(own_fields(model).items()):
        if number and depth == 0:
            yield ""
        part = nested(field)
        if part is not None and not _whole(name):
            if part in {Common, Head, Submitter}:
                yield from _comment(about[name], indent, "# ")
            yield f"{indent}{field.alias}:"
            yield from _lines(part, depth + 1)
            continue
        yield from _comment(about[name], indent, "# -- ")
        if field.examples:
            yield f"{indent}# Example: `{flow(field.examples[0])}`"
        value = default_of(field)
        if isinstance(value, dict) and value:
            yield f"{indent}{field.alias}:"
            yield from textwrap.indent(yaml.safe_dump(value, sort_keys=False), indent + "  ").splitlines()
        else:
            yield f"{indent}{field.alias}: {json.dumps(value) if isinstance(value, str) else flow(value)}"
        if name == "worker_groups":
            yield from _example_group()


def _example_group() -> Iterator[str]:
    yield "# workerGroups:"
    yield "#   gpu:"
    shown = own_fields(WorkerGroup) | {name: WorkerGroup.model_fields[name] for name in _ALSO}
    about = texts(WorkerGroup)
    for name, field in shown.items():
        yield from _comment(about[name], "#     ", "# ")
        value = field.examples[0] if field.examples else default_of(field)
        yield f"#     {field.alias}: {flow(value)}"
    yield f"#     # … {_SHARED}"


def _comment(text: str, indent: str, first: str) -> list[str]:
    return textwrap.wrap(
        text,
        width=WIDTH,
        initial_indent=indent + first,
        subsequent_indent=indent + "# ",
        break_long_words=False,
        break_on_hyphens=False,
    )
