"""JSON Schema of the files, for editors: completion, hover text, red underlines. The tool itself does not read it."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from generator.model.base import Model
from generator.model.cluster import Cluster
from generator.model.descriptions import descriptions
from generator.model.environment import Environment
from generator.model.version import Version

FILES: dict[str, type[Model]] = {"environment": Environment, "cluster": Cluster, "version": Version}


def schema_text(model: type[Model]) -> str:
    """The schema of one file as JSON text (draft 2020-12), without the titles that repeat every key."""
    schema = model.model_json_schema(by_alias=True)
    for part in models(model):
        _describe(part, schema if part is model else schema.get("$defs", {}).get(part.__name__, {}))
    _drop_titles(schema)
    _close(schema)
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2) + "\n"


def _close(node: Any) -> None:
    """A map with a pattern for its keys admits no others; pydantic leaves that open."""
    if isinstance(node, dict):
        if "patternProperties" in node:
            node["additionalProperties"] = False
        for child in node.values():
            _close(child)
    elif isinstance(node, list):
        for child in node:
            _close(child)


def models(root: type[BaseModel]) -> list[type[BaseModel]]:
    """The model and all that its fields hold."""
    found: list[type[BaseModel]] = []

    def visit(annotation: Any) -> None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in found:
            found.append(annotation)
            for field in annotation.model_fields.values():
                visit(field.annotation)
        for part in getattr(annotation, "__args__", ()):
            visit(part)

    visit(root)
    return found


def _describe(model: type[BaseModel], schema: dict[str, Any]) -> None:
    """Put the texts under the model's fields into its schema."""
    texts = descriptions(model)
    for name, field in model.model_fields.items():
        entry = schema.get("properties", {}).get(field.alias)
        if entry is not None and name in texts:
            described = entry | {"description": texts[name]}
            entry.clear()
            entry.update(sorted(described.items()))


def _drop_titles(node: Any) -> None:
    if isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        for child in node.values():
            _drop_titles(child)
    elif isinstance(node, list):
        for child in node:
            _drop_titles(child)
