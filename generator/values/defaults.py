"""templates/_defaults.tpl: the defaults for templates, which cannot see what a `null` in a values file has removed."""

from __future__ import annotations

import json

from generator.values.chart import Values
from generator.values.pods import WorkerGroup

_HEADING = """\
{{/*
Defaults of all values and of a worker group, as JSON, for "ray-train-dlc.settle".
Generated from generator/values/ by `make schema`; do not edit.
*/}}
"""


def defaults_text() -> str:
    """Text of the template: JSON, one line for each value at the top, without the keys that have no default."""
    values = Values().model_dump(by_alias=True, exclude_none=True)
    group = {
        str(field.alias): default
        for name, field in WorkerGroup.model_fields.items()
        if not field.is_required() and (default := _plain(name)) is not None
    }
    parts = [f'"{name}": {_lines(part)}' for name, part in (("values", values), ("group", group))]
    return _HEADING + '{{- define "ray-train-dlc.defaults" -}}\n{' + ",\n".join(parts) + "}\n{{- end -}}\n"


def _plain(name: str) -> object:
    default = WorkerGroup.model_fields[name].get_default()
    return default.model_dump(by_alias=True, exclude_none=True) if hasattr(default, "model_dump") else default


def _lines(part: dict[str, object]) -> str:
    return "{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in part.items()) + "}"
