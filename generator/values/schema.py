"""values.schema.json from the models: closed, without remote references, and short in Helm's errors.

Written when the chart changes, never at run time: the definitions of the Kubernetes API come from the package
`kubernetes-validate`, which only developers install.
"""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from generator.model.descriptions import descriptions
from generator.model.jsonschema import models
from generator.values.chart import Values
from generator.values.pods import INT32, K8S
from generator.values.schema_kubernetes import EMPTY, FIELDS, RULES, WITHOUT

# The oldest Kubernetes that the chart supports: what it does not know, a cluster may drop.
KUBERNETES = "1.34.0"
_REF = "#/definitions/"
_K8S_GROUPS = ("io.k8s.api.core.v1", "io.k8s.api.networking.v1")
_OR_NULL = ".orNull"

Schema = dict[str, Any]


def schema_text() -> str:
    """The schema as JSON text (draft 7, which Helm 3.18 and 4 read alike)."""
    raw = Values.model_json_schema(by_alias=True, ref_template=_REF + "{model}")
    definitions: dict[str, Schema] = raw.pop("$defs")
    for model in models(Values):
        own = raw if model is Values else definitions[model.__name__]
        _describe(model, own)
    for name in sorted(set(_kubernetes_types([raw, definitions]))):
        _add_kubernetes(name, definitions)
    _add_rules(definitions)
    root = _simple(raw, definitions)
    simple = {name: _simple(node, definitions) for name, node in definitions.items()}
    simple |= {f"{name}{_OR_NULL}": _nullable({**node}) for name, node in simple.items()}
    root["properties"]["global"] = {
        "description": "Helm passes it to every subchart; nothing here reads it.",
        "type": "object",
    }
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of ray-train-dlc"}
    used = _reachable(root, simple)
    body = {**head, **root, "definitions": {name: simple[name] for name in sorted(used)}}
    return json.dumps(body, indent=1) + "\n"


def texts(model: type[BaseModel]) -> dict[str, str]:
    """Field name → its text, those of the classes that the model builds on included."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if isinstance(base, type) and issubclass(base, BaseModel) and base.__module__.startswith("generator."):
            found |= descriptions(base)
    return found


def _describe(model: type[BaseModel], schema: Schema) -> None:
    """Texts and required keys: those without a default, as the chart takes a null for its default."""
    about = texts(model)
    required = []
    for name, field in model.model_fields.items():
        entry = schema["properties"][field.alias]
        entry["description"] = about[name]
        if field.is_required():
            required.append(field.alias)
    schema.pop("required", None)
    if required:
        schema["required"] = required


# -- the Kubernetes API


def _kubernetes_types(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node[K8S]] if isinstance(node.get(K8S), str) else []
        return own + [name for child in node.values() for name in _kubernetes_types(child)]
    return [name for child in node for name in _kubernetes_types(child)] if isinstance(node, list) else []


def _add_kubernetes(name: str, definitions: dict[str, Schema]) -> None:
    """Put a definition, and all that it refers to, among ours under `k8s.<name>`."""
    if name.endswith("?"):
        _add_kubernetes(name[:-1], definitions)
        some = copy.deepcopy(definitions[f"k8s.{name[:-1]}"])
        some.pop("required", None)
        definitions[f"k8s.{name}"] = some
        return
    full = next(f"{group}.{name}" for group in _K8S_GROUPS if f"{group}.{name}" in _kubernetes())
    pending = [full]
    while pending:
        path = pending.pop()
        key = _own_name(path)
        if key in definitions:
            continue
        definitions[key] = _renamed(_kubernetes()[path], pending)


def _add_rules(definitions: dict[str, Schema]) -> None:
    """What the API server and the operator ask of fields beside their types."""
    for kind, fields in FIELDS.items():
        whole = definitions[f"k8s.{kind}"]
        whole["properties"] = {field: whole["properties"][field] for field in fields}
    for kind, field in WITHOUT.items():
        del definitions[f"k8s.{kind}"]["properties"][field]
    for name, whole in definitions.items():
        kind = name.removeprefix("k8s.").removesuffix("?")
        for field, schema in whole.get("properties", {}).items() if name.startswith("k8s.") else ():
            if schema.get("type") == "string" and f"{kind}.{field}" not in EMPTY:
                schema["minLength"] = 1
    for name, rule in RULES.items():
        kind, _, field = name.partition(".")
        for whole in _forms(kind, definitions) if field else [definitions[f"k8s.{kind}"]]:
            schema = whole["properties"][field] if field else whole
            if "type" in rule:
                schema.clear()
            schema.update(rule)


def _forms(kind: str, definitions: dict[str, Schema]) -> list[Schema]:
    """A type, and where values give some of its fields, that form of it."""
    return [definitions[name] for name in (f"k8s.{kind}", f"k8s.{kind}?") if name in definitions]


def _own_name(path: str) -> str:
    return f"k8s.{path.rpartition('.')[2]}"


def _renamed(node: Any, pending: list[str]) -> Any:
    """A definition with references to ours, without texts and formats; what it refers to goes to `pending`."""
    if isinstance(node, list):
        return [_renamed(child, pending) for child in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("$ref"), str):
        path = node["$ref"].rpartition("/")[2]
        pending.append(path)
        return {"$ref": _REF + _own_name(path)}
    kept = {
        key: value
        for key, value in node.items()
        if not (key in {"description", "format"} and isinstance(value, str)) and not key.startswith("x-kubernetes")
    }
    # Null is added where it means "not given" (`_nullable`); there everything may be null, items of lists too.
    if isinstance(kept.get("type"), list):
        (kept["type"],) = [kind for kind in kept["type"] if kind != "null"]
    if node.get("format") == "int32":
        kept = {"minimum": -INT32 - 1, "maximum": INT32, **kept}
    elif kept.get("type") == "integer":
        kept = {"minimum": 1 - 2**53, "maximum": 2**53 - 1, **kept}  # Helm reads numbers as 64 bit floats
    return {key: _renamed(value, pending) for key, value in kept.items()}


@cache
def _kubernetes() -> dict[str, Schema]:
    import kubernetes_validate

    folder = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"v{KUBERNETES}-local-strict"
    loaded: dict[str, Schema] = json.loads((folder / "_definitions.json").read_text(encoding="utf-8"))["$defs"]
    return loaded


# -- shape


def _simple(node: Any, definitions: dict[str, Schema]) -> Any:
    """Without titles, defaults and unions: Helm prints a line for each member of a union, and none that helps."""
    if isinstance(node, list):
        return [_simple(child, definitions) for child in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get(K8S), str):
        return {**_described(node), "$ref": f"{_REF}k8s.{node[K8S]}"}
    union = node.get("anyOf") or node.get("oneOf")
    if isinstance(union, list):
        if [member.get("type") for member in union] == [None, "null"] and "$ref" in union[0]:
            return _nullable({**_described(node), **union[0]})
        return {**_described(node), **_merged([_simple(member, definitions) for member in union], definitions)}
    result: Schema = {}
    for key, value in node.items():
        if key in {"title", "default", "examples"} and not isinstance(value, dict):
            continue
        if key == "default":
            continue
        if key == "properties":
            needed = node.get("required", ())
            simple = {name: _simple(inner, definitions) for name, inner in value.items()}
            result[key] = {n: s if n in needed else _nullable(s) for n, s in simple.items()}
        elif key == "patternProperties":
            result[key] = {name: _simple(inner, definitions) for name, inner in value.items()}
        else:
            result[key] = _simple(value, definitions)
    if "patternProperties" in result:
        result["additionalProperties"] = False  # pydantic leaves the other keys open
    if "$ref" in result:
        return {key: result[key] for key in ("description", "$ref") if key in result}
    return result


def _nullable(schema: Schema) -> Schema:
    """Null allowed: a key of a values file whose lines are all comments counts as not given. An item of a list is not
    such a key, so a definition has two forms."""
    if "$ref" in schema:
        return schema if schema["$ref"].endswith(_OR_NULL) else {**schema, "$ref": schema["$ref"] + _OR_NULL}
    for key in ("type", "enum"):
        if key in schema:
            none = "null" if key == "type" else None
            schema[key] = [*dict.fromkeys([*_listed(schema[key]), none])]
    return schema


def _described(node: Schema) -> Schema:
    return {"description": node["description"]} if isinstance(node.get("description"), str) else {}


def _merged(members: list[Schema], definitions: dict[str, Schema]) -> Schema:
    """One schema for several of different types: their keywords do not meet, as each is about its own type."""
    merged: Schema = {"type": []}
    for member in members:
        whole = _simple(definitions[member["$ref"].removeprefix(_REF)], definitions) if "$ref" in member else member
        for key, value in whole.items():
            if key == "type":
                merged["type"] += [kind for kind in _listed(value) if kind not in merged["type"]]
            elif key != "description":
                if key in merged and merged[key] != value:
                    raise ValueError(f"two members of a union both say something about {key}")
                merged[key] = value
    if len(merged["type"]) == 1:
        merged["type"] = merged["type"][0]
    return merged


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def _reachable(root: Schema, definitions: dict[str, Schema]) -> set[str]:
    found: set[str] = set()
    pending: list[Any] = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending += node
        elif isinstance(node, dict):
            pending += node.values()
            reference = node.get("$ref")
            if isinstance(reference, str):
                name = reference.removeprefix(_REF)
                if name not in found:
                    found.add(name)
                    pending.append(definitions[name])
    return found
