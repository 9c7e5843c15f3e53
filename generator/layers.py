"""Layers: `extends:` in an environment names files in `environments/_base/` that several environments share.

A layer is a partial environment and may extend others. From the lowest up, maps merge key by key, lists and single
values replace, and `null` removes what stands below. A map that says what it is (`kind`) replaces one of another kind:
the keys of a bucket mean nothing to a file system. Each layer is applied once, below all that extend it; of a list, the
later ones win; the environment wins over all. Every path of the result knows the file that set it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from generator.diagnostics.finding import Finding, Pointer, Range, dotted
from generator.model.base import FORMS, NAME
from generator.model.environment import Environment
from generator.model.shape import fields_at, shape
from generator.source import Source
from generator.tree import present

FOLDER = "environments/_base"
MAX_DEPTH = 10  # layers on layers; no project of ours has more than 3, and nobody can follow more
_EXTENDS = "extends"


@dataclass(frozen=True, slots=True)
class Layered(Source):
    """An environment over its layers. `file`, `text` are the environment's own; `data` is merged."""

    own: Source = field(kw_only=True)
    below: tuple[Source, ...] = field(kw_only=True)
    """The layers, lowest first."""
    origins: dict[Pointer, Source] = field(kw_only=True)

    def origin(self, path: Pointer) -> Source | None:
        """The file that set `path`; None when no file does. Of a map that several files give: the topmost."""
        return self.origins.get(path) if present(self.data, path) else None

    def file_of(self, path: Pointer) -> str:
        return (self.origin(path) or self.own).file

    def value_range(self, path: Pointer) -> Range:
        origin = self.origin(path)
        return self._nearest(path) if origin is None else origin.value_range(path)

    def key_range(self, path: Pointer) -> Range:
        origin = self.origin(path)
        return self._nearest(path) if origin is None else origin.key_range(path)

    def _nearest(self, path: Pointer) -> Range:
        """What no file gives is missing in the environment: at its nearest map there, or else where it names layers."""
        while path and path not in self.own.keys:
            path = path[:-1]
        return self.own.key_range(path or (_EXTENDS,))

    def finding(self, code: str, path: Pointer, message: str, *, on_key: bool = False, **rest: Any) -> Finding:
        parent = path
        while parent and self.origin(parent) is None:
            parent = parent[:-1]
        origin = self.origin(parent)
        if parent and parent != path and origin is not None and origin is not self.own:
            at = origin.key_range(parent).start
            note = f"`{dotted(parent)}` stands in {origin.file}:{at.line}:{at.column}"
            rest["notes"] = (*rest.get("notes", ()), note)
        # Two arguments: in a dataclass with slots, the one-word `super()` looks for the class that slots replaced.
        return super(Layered, self).finding(code, path, message, on_key=on_key, **rest)

    def texts(self) -> Iterator[tuple[str, str]]:
        for source in (self.own, *self.below):
            yield source.file, source.text


class _Entry(NamedTuple):
    """One name under `extends`, and where it stands."""

    name: str
    path: Pointer


@dataclass(slots=True)
class Layers:
    """The layer files of a project. `read` reads a file by its path from the root, `names` are the layers there are."""

    read: Callable[[str], Source]
    names: Callable[[], list[str]]
    _files: dict[str, Source] = field(default_factory=dict)

    def layer(self, name: str) -> Source:
        """One layer by itself: what it holds must be right, but nothing is required."""
        if name not in self._files:
            source = self.read(f"{FOLDER}/{name}.yaml")
            if isinstance(source.data, dict):
                refused = {f.path for f in source.findings}
                data = _without_null({k: v for k, v in source.data.items() if k != _EXTENDS}, refused, ())
                shaped = shape(replace(source, data=data), Environment)
                kept = tuple(f for f in shaped.findings if f.code != "RTD105")
            else:
                kept = shape(source, Environment).findings
            self._files[name] = replace(source, findings=kept)
        return self._files[name]

    def over(self, own: Source) -> Source:
        """`own` over the layers that it extends; itself when it extends none."""
        if not isinstance(own.data, dict) or _EXTENDS not in own.data:
            return own
        findings: list[Finding] = list(own.findings)
        order = self._order(own, findings)
        layers = tuple(self.layer(name) for name in order)
        merged = _Merged()
        for layer in layers:
            findings += layer.findings
            if isinstance(layer.data, dict):
                merged.put(layer, {key: value for key, value in layer.data.items() if key != _EXTENDS})
        merged.put(own, own.data)
        named = [entry.name for entry in _entries(own, [])]
        merged.data[_EXTENDS] = named
        incomplete = any(f.code in ("RTD120", "RTD121") or f.path == (_EXTENDS,) for f in findings) or any(
            not isinstance(layer.data, dict) for layer in layers
        )
        places: dict[str, dict[Pointer, Range]] = {"keys": {}, "values": {}}
        for path, source in merged.origins.items():
            if path in source.keys:
                places["keys"][path] = source.keys[path]
            if path in source.values:
                places["values"][path] = source.values[path]
        return Layered(
            own.file,
            own.text,
            merged.data,
            tuple(dict.fromkeys(findings)),
            **places,
            incomplete=incomplete,
            own=own,
            below=layers,
            origins=merged.origins,
        )

    def value(self, names: Iterable[str], key: str) -> Any:
        """What the layers `names` say together about a key at the top; None when nothing, or one is broken."""
        entries = {_EXTENDS: list(names)}
        found = self.over(Source("", "", entries))
        return None if found.incomplete else found.data.get(key)

    def unused(self, environments: Iterable[Source]) -> tuple[list[Finding], dict[str, str]]:
        """Findings about the layers that none of these environments extends, and the texts of these layers.

        An environment that cannot be read may extend any of them: then nothing is said.
        """
        used: set[str] = set()
        for source in environments:
            if not isinstance(source.data, dict) or source.incomplete:
                return [], {}
            used |= {file for file, _ in source.texts()}
        findings: list[Finding] = []
        texts: dict[str, str] = {}
        for name in self.names():
            layer = self.layer(name)
            if layer.file in used:
                continue
            texts[layer.file] = layer.text
            findings += layer.findings
            self._order(layer, findings)
            findings.append(
                layer.finding(
                    "RTD122",
                    (),
                    f"no environment extends the layer `{name}`",
                    help="name it under `extends` of an environment, or remove the file",
                )
            )
        return findings, texts

    def _order(self, own: Source, findings: list[Finding]) -> list[str]:
        """Names of all layers below `own`, lowest first, each once."""
        order: list[str] = []
        known = set(self.names())

        def visit(source: Source, trail: tuple[str, ...]) -> None:
            for entry in _entries(source, findings):
                if entry.name in trail:
                    findings.append(self._circle(trail[trail.index(entry.name) :]))
                elif entry.name not in known:
                    findings.append(_missing(source, entry, sorted(known)))
                elif len(trail) >= MAX_DEPTH:
                    findings.append(
                        source.finding(
                            "RTD121",
                            entry.path,
                            f"layers extend each other deeper than {MAX_DEPTH} levels",
                            notes=(" → ".join((*trail, entry.name)),),
                            help="put layers together, or name several in one list",
                        )
                    )
                elif entry.name not in order:
                    visit(self.layer(entry.name), (*trail, entry.name))
                    order.append(entry.name)

        visit(own, ())
        return order

    def _circle(self, names: tuple[str, ...]) -> Finding:
        """Said at the same place wherever the circle was entered."""
        first = names.index(min(names))
        names = (*names[first:], *names[:first])
        source = self.layer(names[0])
        following = names[1 % len(names)]
        path = next(entry.path for entry in _entries(source, []) if entry.name == following)
        return source.finding(
            "RTD121",
            path,
            f"the layer `{names[0]}` extends itself" + (f" by way of `{'`, `'.join(names[1:])}`" if names[1:] else ""),
            help="remove one `extends` of the circle",
        )


class _Merged:
    """The layers put together so far."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.origins: dict[Pointer, Source] = {}

    def put(self, source: Source, data: dict[str, Any]) -> None:
        """Lay `data` of `source` over what is there."""
        refused = {f.path for f in source.findings}
        self.data = self._map(source, self.data, data, (), refused)

    def _map(
        self, source: Source, below: dict[str, Any], above: dict[str, Any], path: Pointer, refused: set[Pointer]
    ) -> dict[str, Any]:
        result = dict(below)
        for key, value in above.items():
            here = (*path, key)
            beneath = below.get(key)
            # A value that could not be read is None too. And a `null` that removes nothing stays, to be found.
            if value is None and key in below and here not in refused:
                del result[key]
            elif isinstance(value, dict) and isinstance(beneath, dict) and not _other_kind(beneath, value, here):
                self.origins[here] = source
                result[key] = self._map(source, beneath, value, here, refused)
            else:
                self._note(source, value, here)
                result[key] = value
        return result

    def _note(self, source: Source, value: Any, path: Pointer) -> None:
        self.origins[path] = source
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, child in items:
            self._note(source, child, (*path, key))


def _other_kind(below: dict[str, Any], above: dict[str, Any], path: Pointer) -> bool:
    """Whether two maps say by `kind` that they are different things. A key of the user's own may be called so, too."""
    kinds = below.get("kind"), above.get("kind")
    return (
        isinstance(kinds[0], str)
        and isinstance(kinds[1], str)
        and kinds[0] != kinds[1]
        and "kind" in fields_at(Environment, path, _at(path, above))
    )


def _at(path: Pointer, value: Any) -> Any:
    """Maps around `value`, so that it stands at `path`."""
    for part in reversed(path):
        value = {part: value}
    return value


def _without_null(value: Any, refused: set[Pointer], path: Pointer) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        key: _without_null(child, refused, (*path, key))
        for key, child in value.items()
        if child is not None or (*path, key) in refused
    }


def _entries(source: Source, findings: list[Finding]) -> list[_Entry]:
    """The layers that a file names; what is no name becomes a finding."""
    if not isinstance(source.data, dict) or _EXTENDS not in source.data:
        return []
    written = source.data[_EXTENDS]
    if isinstance(written, str):
        places: list[Pointer] = [(_EXTENDS,)]
        written = [written]
    elif isinstance(written, list):
        places = [(_EXTENDS, index) for index in range(len(written))]
    else:
        if all(f.path != (_EXTENDS,) for f in source.findings):
            shown = "nothing" if written is None else "a map" if isinstance(written, dict) else f"`{written}`".lower()
            findings.append(
                source.finding(
                    "RTD104",
                    (_EXTENDS,),
                    f"`{_EXTENDS}` is {shown}, but must be the name of a layer or a list of names",
                    help=f"write the name of a file in {FOLDER}/ without .yaml, or [a, b]",
                )
            )
        return []
    found: list[_Entry] = []
    for name, place in zip(written, places, strict=True):
        if isinstance(name, str) and re.fullmatch(NAME, name) and len(name) <= 63:
            found.append(_Entry(name, place))
        elif place not in {f.path for f in source.findings}:
            findings.append(_bad_name(source, name, place))
    return found


def _bad_name(source: Source, name: Any, place: Pointer) -> Finding:
    what, _ = FORMS[NAME]
    shown = f"`{name}`" if isinstance(name, str) else "this"
    stem = name.rpartition("/")[2].removesuffix(".yaml") if isinstance(name, str) else ""
    return source.finding(
        "RTD120",
        place,
        f"{shown} cannot be a layer: the name must be {what}",
        help=f"write {stem}: layers are the files {FOLDER}/<name>.yaml"
        if re.fullmatch(NAME, stem)
        else f"write the name of a file in {FOLDER}/, without folder and ending",
    )


def _missing(source: Source, entry: _Entry, known: list[str]) -> Finding:
    close = difflib.get_close_matches(entry.name, known, n=1)
    return source.finding(
        "RTD120",
        entry.path,
        f"there is no layer {FOLDER}/{entry.name}.yaml",
        label=f"did you mean `{close[0]}`?" if close else "",
        help=f"name one of: {', '.join(known)}" if known else f"create {FOLDER}/{entry.name}.yaml",
    )
