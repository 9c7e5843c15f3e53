"""From parsed data to a model, and from pydantic's errors to findings with a place.

A file with a bad key still yields a model where it can: the bad parts are taken out and the rest is read again, so that
the rules can speak about everything else in the same run. `pruned` tells which parts are missing.
"""

from __future__ import annotations

import copy
import difflib
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from generator.diagnostics.finding import Finding, Pointer, dotted
from generator.model.base import FORMS
from generator.source import Source

ModelT = TypeVar("ModelT", bound=BaseModel)
_ROUNDS = 3  # each round takes out what the last one complained of; a default may complain in turn


@dataclass(frozen=True, slots=True)
class Shaped(Generic[ModelT]):
    """A file as a model. `model` is None when a required part is missing or broken."""

    source: Source
    model: ModelT | None
    findings: tuple[Finding, ...]
    pruned: tuple[Pointer, ...] = ()

    def touches_pruned(self, path: Pointer) -> bool:
        """Whether the value at `path` (or a part of it) was taken out, so that nothing can be said about it."""
        return any(path[: len(p)] == p or p[: len(path)] == path for p in self.pruned)


def shape(source: Source, model: type[ModelT]) -> Shaped[ModelT]:
    """Read `source` as `model`. Never raises for bad content."""
    found = list(source.findings)
    if not isinstance(source.data, dict):
        if not found:
            found.append(
                source.finding(
                    "RTD104",
                    (),
                    "the file must be a map of keys and values",
                    help="see `python -m generator new --help` for a filled one",
                )
            )
        return Shaped(source, None, tuple(found))
    data = copy.deepcopy(source.data)
    said = {f.path for f in found}
    pruned: list[Pointer] = [f.path for f in found]
    for _ in range(_ROUNDS):
        try:
            return Shaped(source, model.model_validate(data), tuple(found), tuple(pruned))
        except ValidationError as error:
            before = tuple(pruned)
            for detail in error.errors(include_url=False, include_context=True):
                path = _real_path(source.data, detail["loc"])
                # What an earlier round took out may leave a map empty: that is our doing, not the user's.
                ours = any(gone[: len(path)] == path for gone in before)
                if path not in said and not ours:
                    found.append(_finding(source, model, path, detail))
                    said.add(path)
                # Without a required part the map around it is of no use: the rules go on without that map.
                gone = path[:-1] if detail["type"] == "missing" and len(path) > 1 else path
                pruned.append(gone)
                _remove(data, gone)
    return Shaped(source, None, tuple(found), tuple(pruned))


def _real_path(data: Any, loc: tuple[str | int, ...]) -> Pointer:
    """pydantic's location without what is not in the file: the tag of a union, the type of a union's member."""
    path: list[str | int] = []
    node = data
    for index, part in enumerate(loc):
        if (isinstance(node, dict) and part in node) or (
            isinstance(node, list) and isinstance(part, int) and part < len(node)
        ):
            node = cast("Any", node)[part]
        elif index < len(loc) - 1 or not isinstance(node, dict) or part == "[key]":
            continue  # the tag of a union, or a remark of pydantic's own
        else:
            node = None  # a missing key: the last part, in a map
        path.append(part)
    return tuple(path)


def _remove(data: Any, path: Pointer) -> None:
    node = data
    for part in path[:-1]:
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(node, dict) and path:
        node.pop(path[-1], None)
    elif isinstance(node, list) and path and isinstance(path[-1], int) and path[-1] < len(node):
        node.pop(path[-1])


def _finding(source: Source, model: type[BaseModel], path: Pointer, detail: Any) -> Finding:
    kind, context, value = detail["type"], detail.get("ctx", {}), detail.get("input")
    name = dotted(path)
    if kind == "extra_forbidden":
        known = [alias for alias, _ in _fields_at(model, path[:-1], source.data)]
        close = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.6)
        return source.finding(
            "RTD103",
            path,
            f"unknown key `{path[-1]}`",
            on_key=True,
            label=f"did you mean `{close[0]}`?" if close else "",
            help=f"rename it to `{close[0]}`" if close else f"remove it; known here: {', '.join(known)}",
        )
    if kind in ("missing", "union_tag_not_found"):
        missing = path if kind == "missing" else (*path, "kind")
        return source.finding(
            "RTD105",
            missing,
            f"`{dotted(missing)}` is missing",
            on_key=True,
            help=f"add `{missing[-1]}:` to {_place(missing[:-1])}{_description(model, missing, source.data)}",
        )
    if detail["loc"][-1:] == ("[key]",):
        return source.finding(
            "RTD501",
            path,
            f"`{path[-1]}` is not a valid name",
            on_key=True,
            help="use lower-case letters, digits and hyphens; start with a letter, end with a letter or digit",
        )
    if kind == "union_tag_invalid":
        path, value = (*path, "kind"), value["kind"]
        name = dotted(path)
    shown = "nothing" if value is None else f"`{_short(value)}`"
    if detail["loc"][-1] in (
        "int",
        "float",
        "bool",
        "str",
    ):  # one member of a union of plain values: they all failed
        expected, help = "a number, text, true or false", "write one plain value"
    else:
        expected, help = _expectation(kind, context, value)
    return source.finding(
        "RTD104",
        path,
        f"`{name}` is {shown}, but must be {expected}",
        label=f"must be {expected}",
        help=help + _description(model, path, source.data),
    )


def _expectation(kind: str, ctx: dict[str, Any], value: Any) -> tuple[str, str]:
    """What is wanted instead, and how to get there."""
    if kind in ("string_type", "string_sub_type"):
        if isinstance(value, bool | int | float):
            return (
                "text",
                "put it in quotes: YAML reads it as a number or a truth value (1.30 would become 1.3)",
            )
        return "text", "write it as text"
    if kind in ("int_type", "int_from_float", "int_parsing"):
        return "a whole number", "write a whole number without quotes"
    if kind in ("float_type", "bool_type"):
        return (
            ("a number", "write a number without quotes")
            if kind == "float_type"
            else ("true or false", "write true or false without quotes")
        )
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return "a map of keys and values", "write its keys indented below it"
    if kind == "list_type":
        return "a list", "write it as [a, b]"
    if kind in ("literal_error", "union_tag_invalid"):
        allowed = str(ctx.get("expected") or ctx.get("expected_tags"))
        words = [w.strip("' ") for part in allowed.split(",") for w in part.split(" or ")]
        close = difflib.get_close_matches(str(value), words, n=1, cutoff=0.5)
        return f"one of {', '.join(words)}" if len(words) > 1 else words[
            0
        ], f"did you mean {close[0]}?" if close else "choose one of them"
    bounds = {
        "greater_than_equal": ("ge", "at least"),
        "less_than_equal": ("le", "at most"),
        "greater_than": ("gt", "more than"),
    }
    if kind in bounds:
        key, word = bounds[kind]
        return f"{word} {ctx[key]}", f"write a number that is {word} {ctx[key]}"
    if kind == "string_pattern_mismatch":
        form = FORMS.get(ctx["pattern"])
        return (f"of the form {ctx['pattern']}", "correct its form") if form is None else form
    if kind in ("string_too_long", "string_too_short"):
        limit = ctx.get("max_length") or ctx.get("min_length")
        return (
            f"{'at most' if kind.endswith('long') else 'at least'} {limit} characters long",
            "change its length",
        )
    if kind in ("too_short", "dict_too_short"):
        return "not empty", "add an entry"
    return kind.replace("_", " "), "correct it"


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _place(path: Pointer) -> str:
    return f"`{dotted(path)}`" if path else "the file"


def _fields_at(model: type[BaseModel], path: Pointer, data: Any) -> Iterator[tuple[str, FieldInfo]]:
    """The fields that the map at `path` may have, as (key in the file, field)."""
    current: list[Any] = [model]
    node = data
    for part in path:
        following: list[Any] = []
        node = node.get(part) if isinstance(node, dict) else None
        for candidate in current:
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                following += [f.annotation for f in candidate.model_fields.values() if f.alias == part]
            elif get_origin(candidate) is dict:
                following.append(get_args(candidate)[1])
        current = [flat for annotation in following for flat in _members(annotation)]
    seen: set[str] = set()
    for candidate in current:
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            kind = candidate.model_fields.get("kind")
            chosen = node.get("kind") if isinstance(node, dict) else None
            if kind is not None and len(current) > 1 and chosen not in get_args(kind.annotation):
                continue
            for field in candidate.model_fields.values():
                alias = str(field.alias)
                if alias not in seen:
                    seen.add(alias)
                    yield alias, field


def _members(annotation: Any) -> list[Any]:
    """The parts of a union, without None and without Annotated's wrapping."""
    if hasattr(annotation, "__metadata__"):
        return _members(annotation.__origin__)
    if get_origin(annotation) is types.UnionType or str(get_origin(annotation)) == "typing.Union":
        return [m for part in get_args(annotation) if part is not type(None) for m in _members(part)]
    return [annotation]


def _description(model: type[BaseModel], path: Pointer, data: Any) -> str:
    """` (what the key means)`, from the model's own documentation."""
    for alias, field in _fields_at(model, path[:-1], data):
        if path and alias == path[-1] and field.description:
            return f" ({field.description.rstrip('.')})"
    return ""
