"""From parsed data to a model, and from pydantic's errors to findings with a place.

A file with a bad key still yields a model where it can: the bad parts are taken out and the rest is read again, so that
the rules can speak about everything else in the same run. `pruned` tells which parts are missing.
"""

from __future__ import annotations

import copy
import difflib
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from generator.diagnostics.finding import Finding, Pointer, dotted
from generator.model.base import FORMS, NAME
from generator.model.descriptions import descriptions
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


def shape(source: Source, model: type[ModelT], stand_ins: Mapping[str, Any] | None = None) -> Shaped[ModelT]:
    """Read `source` as `model`. Never raises for bad content.

    `stand_ins` are values for top-level keys that are missing or malformed: with them the rules can still speak about
    everything else. Such a key counts as pruned, so that nothing is said about the stand-in itself.
    """
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
    if (other := _other_format(source, model)) is not None:
        return Shaped(source, None, (*found, other))  # its keys may mean something else
    data = copy.deepcopy(source.data)
    # What a layer says wrongly and a file above it says rightly is not in `data`.
    pruned: list[Pointer] = [f.path for f in found if f.file == source.file_of(f.path)]
    said = set(pruned)
    if source.incomplete:
        pruned.append(())
    for _ in range(_ROUNDS):
        try:
            return Shaped(source, model.model_validate(data), tuple(found), tuple(pruned))
        except ValidationError as error:
            before = tuple(pruned)
            for detail in _deepest_first(error.errors(include_url=False, include_context=True)):
                path = _real_path(model, detail["loc"], detail["type"])
                # A map where plain values or a map may stand: what is wrong inside the map has been said.
                if _plain_tried(detail) and any(path == place[: len(path)] and path != place for place in said):
                    continue
                # What an earlier round took out may leave a map empty: that is our doing, not the user's.
                ours = any(gone[: len(path)] == path for gone in before)
                unknown = source.incomplete and detail["type"] in ("missing", "union_tag_not_found")
                if path not in said and not ours and not unknown:
                    found.append(_finding(source, model, path, detail))
                    said.add(path)
                # Without a required part the map around it is of no use: the rules go on without that map.
                gone = path[:-1] if detail["type"] == "missing" and len(path) > 1 else path
                pruned.append(gone)
                _remove(data, gone)
                if len(gone) == 1 and stand_ins and gone[0] in stand_ins:
                    data[gone[0]] = stand_ins[str(gone[0])]
    return Shaped(source, None, tuple(found), tuple(pruned))


_PLAIN = ("str", "int", "float", "bool")


def _plain_tried(detail: Any) -> bool:
    """Whether pydantic complains that a map is not the plain value that a union would take, too."""
    return isinstance(detail.get("input"), dict) and detail["loc"][-1] in _PLAIN


def _deepest_first(details: Any) -> list[Any]:
    """The errors of a union's map before those of its plain members, which are about the same place."""
    return sorted(details, key=_plain_tried)


def _other_format(source: Source, model: type[BaseModel]) -> Finding | None:
    """A `schemaVersion` that is a number, but not the one that this version reads."""
    field = model.model_fields.get("schema_version")
    written = source.data.get("schemaVersion")
    if field is None or type(written) is not int:
        return None
    (current,) = get_args(field.annotation)
    if written == current:
        return None
    if written < current:
        return source.finding(
            "RTD130",
            ("schemaVersion",),
            f"the file has format {written}; this version reads format {current}",
            help="run `python -m generator migrate`: it raises the file's format and keeps its comments",
        )
    return source.finding(
        "RTD131",
        ("schemaVersion",),
        f"the file has format {written}, but this version knows formats up to {current} only",
        help="use the version of this tool that the file was written for",
    )


def _real_path(model: type[BaseModel], loc: tuple[str | int, ...], kind: str) -> Pointer:
    """pydantic's location without what is not in the file: the chosen member of a union, the remark `[key]`."""
    if loc[-1:] == ("[key]",) and kind != "extra_forbidden":
        loc = loc[:-1]
    path: list[str | int] = []
    current: list[Any] = [model]
    for part in loc:
        if len(current) > 1:  # a union: this part says which of its members was tried
            current = [m for m in current if _is_member(m, part)]
            continue
        path.append(part)
        inside = current[0] if current else None
        if isinstance(inside, type) and issubclass(inside, BaseModel):
            field = next((f for f in inside.model_fields.values() if f.alias == part), None)
            current = [] if field is None else _members(field.annotation)
        else:
            current = _members(get_args(inside)[-1]) if get_args(inside) else []
    return tuple(path)


def _is_member(member: Any, part: str | int) -> bool:
    """Whether pydantic calls this member of a union `part`: a value of its `kind`, or its type's name."""
    if isinstance(member, type) and issubclass(member, BaseModel) and "kind" in member.model_fields:
        return part in get_args(member.model_fields["kind"].annotation)
    return getattr(member, "__name__", "") == part


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
        known = list(fields_at(model, path[:-1], source.data))
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
        what, help = FORMS.get(context.get("pattern", NAME), FORMS[NAME])
        mine = context.get("pattern", NAME) == NAME
        return source.finding(
            "RTD501" if mine else "RTD104",
            path,
            f"`{path[-1]}` is not {'a valid name' if mine else what}",
            on_key=True,
            help=help,
        )
    if kind == "union_tag_invalid":
        path, value = (*path, "kind"), value["kind"]
        name = dotted(path)
    shown = _shown(value, quoted=not kind.startswith("string"))
    if len(path) < len(detail["loc"]) and detail["loc"][-1] in ("int", "float", "bool", "str"):
        # One member of a union of plain values: they all failed.
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
        if str(value) in words:
            return str(value), "write it without quotes"
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


def _shown(value: Any, *, quoted: bool) -> str:
    """A value as a message shows it. `quoted`: text that reads as something else keeps its quotes, for they are the error."""
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "a map" if isinstance(value, dict) else "a list"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text = text if len(text) <= 60 else text[:57] + "…"
    keeps = quoted and isinstance(value, str) and re.fullmatch(r"([-+.]?[0-9].*|true|false|null|~|)", text.lower())
    return f'`"{text}"`' if keeps else f"`{text}`"


def _place(path: Pointer) -> str:
    return f"`{dotted(path)}`" if path else "the file"


def fields_at(model: type[BaseModel], path: Pointer, data: Any) -> dict[str, tuple[type[BaseModel], str]]:
    """The keys that the map at `path` may have, each with its model and the name of its field there."""
    current: list[Any] = [model]
    node = data
    for part in path:
        following: list[Any] = []
        node = _child(node, part)
        for candidate in current:
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                following += [f.annotation for f in candidate.model_fields.values() if f.alias == part]
            elif get_origin(candidate) in (dict, list):
                following.append(get_args(candidate)[-1])
        current = [flat for annotation in following for flat in _members(annotation)]
    known: dict[str, tuple[type[BaseModel], str]] = {}
    for candidate in current:
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            kind = candidate.model_fields.get("kind")
            chosen = node.get("kind") if isinstance(node, dict) else None
            if kind is not None and len(current) > 1 and chosen not in get_args(kind.annotation):
                continue
            for name, field in candidate.model_fields.items():
                known.setdefault(str(field.alias), (candidate, name))
    return known


def _child(node: Any, part: str | int) -> Any:
    if isinstance(node, list) and isinstance(part, int) and part < len(node):
        return node[part]
    return node.get(part) if isinstance(node, dict) else None


def _members(annotation: Any) -> list[Any]:
    """The parts of a union, without None and without Annotated's wrapping."""
    if hasattr(annotation, "__metadata__"):
        return _members(annotation.__origin__)
    if get_origin(annotation) is types.UnionType or str(get_origin(annotation)) == "typing.Union":
        return [m for part in get_args(annotation) if part is not type(None) for m in _members(part)]
    return [annotation]


def _description(model: type[BaseModel], path: Pointer, data: Any) -> str:
    """` (what the key means)`, from the model's own documentation."""
    for alias, (owner, name) in fields_at(model, path[:-1], data).items():
        if path and alias == path[-1] and (text := descriptions(owner).get(name)):
            return f" ({text.rstrip('.')})"
    return ""
