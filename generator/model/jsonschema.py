"""JSON Schema of the files, for editors: completion, hover text, red underlines. The tool itself does not read it."""

from __future__ import annotations

import json
from typing import Any

from generator.model.base import Model
from generator.model.cluster import Cluster
from generator.model.environment import Environment
from generator.model.version import Version

FILES: dict[str, type[Model]] = {"environment": Environment, "cluster": Cluster, "version": Version}


def schema_text(model: type[Model]) -> str:
    """The schema of one file as JSON text (draft 2020-12), without the titles that repeat every key."""
    schema = model.model_json_schema(by_alias=True)
    _drop_titles(schema)
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2) + "\n"


def _drop_titles(node: Any) -> None:
    if isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        for child in node.values():
            _drop_titles(child)
    elif isinstance(node, list):
        for child in node:
            _drop_titles(child)
