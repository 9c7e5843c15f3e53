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

FILES: dict[str, type[Model]] = {
    "environment": Environment,
    "layer": Environment,
    "cluster": Cluster,
    "version": Version,
}
_DEFINITION = "#/$defs/"


def schema_text(name: str) -> str:
    """The schema of the file called `name` in FILES as JSON text (draft 2020-12)."""
    whole = _schema(FILES[name])
    if name == "layer":
        whole = _partial(whole)
    if name == "environment":
        whole = _over_layers(whole)
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **whole}, indent=2) + "\n"


def _schema(model: type[Model]) -> dict[str, Any]:
    """The schema of a model, without the titles that repeat every key."""
    schema = model.model_json_schema(by_alias=True)
    for part in models(model):
        _describe(part, schema if part is model else schema.get("$defs", {}).get(part.__name__, {}))
    _drop_titles(schema)
    _close(schema)
    return schema


def _over_layers(whole: dict[str, Any]) -> dict[str, Any]:
    """An environment that extends layers is a layer itself, with a name; without them it must be whole."""
    definitions = whole.pop("$defs", {})
    layer = _partial(whole)
    parts = {f"Layered{name}": _partial(part) for name, part in definitions.items()}
    return {
        "if": {"required": ["extends"]},
        "then": {"$ref": f"{_DEFINITION}LayeredEnvironment"},
        "else": {"$ref": f"{_DEFINITION}Environment"},
        "$defs": {
            "Environment": whole,
            "LayeredEnvironment": _renamed(layer),
            **definitions,
            **{name: _renamed(part) for name, part in parts.items()},
        },
    }


def _partial(node: Any) -> Any:
    """A schema for a part of the file: no key is required, any may be `null`, which removes it."""
    if isinstance(node, list):
        return [_partial(child) for child in node]
    if not isinstance(node, dict):
        return node
    # Without required keys, a map may be a part of several kinds of things.
    part = {
        ("anyOf" if key == "oneOf" else key): _partial(child)
        for key, child in node.items()
        if key not in ("required", "discriminator", "minProperties", "default")
    }
    for under in ("properties", "patternProperties"):
        if isinstance(part.get(under), dict):
            part[under] = {key: _or_null(entry) for key, entry in part[under].items()}
    if isinstance(part.get("additionalProperties"), dict):
        part["additionalProperties"] = _or_null(part["additionalProperties"])
    return part


def _or_null(entry: dict[str, Any]) -> dict[str, Any]:
    texts = {"description": entry["description"]} if "description" in entry else {}
    rest = {key: value for key, value in entry.items() if key != "description"}
    if {"type": "null"} in rest.get("anyOf", ()):
        return entry
    return {
        "anyOf": [*rest.pop("anyOf"), {"type": "null"}] if set(rest) == {"anyOf"} else [rest, {"type": "null"}],
        **texts,
    }


def _renamed(node: Any) -> Any:
    """References to definitions become those to their partial forms."""
    if isinstance(node, list):
        return [_renamed(child) for child in node]
    if isinstance(node, dict):
        return {
            key: f"{_DEFINITION}Layered{child.removeprefix(_DEFINITION)}" if key == "$ref" else _renamed(child)
            for key, child in node.items()
        }
    return node


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
