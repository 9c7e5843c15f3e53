"""The nodes of a YAML text with the offsets at which they begin and end; an alias stays an alias."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from generator.edit.errors import EditError

MERGE = "<<"


@dataclass(slots=True)
class Node:
    """One value or key. `kind` is scalar, map, list or alias; `end` is where its text ends, comments not counted."""

    kind: str
    start: int
    end: int
    value: str = ""
    """Of a scalar."""
    style: str = ""
    """Of a scalar: empty, or the quote, `|` or `>`. Of a collection: `flow` or `block`."""
    anchor: str = ""
    column: int = 0
    """Of a block's keys or dashes, from 0."""
    entries: list[Entry] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether nothing is written: `key:`."""
        return self.kind == "scalar" and self.start == self.end

    @property
    def flow(self) -> bool:
        return self.style == "flow"

    def find(self, part: str | int) -> Entry | None:
        """The entry of a key or index that is written out here."""
        for index, entry in enumerate(self.entries):
            name = index if entry.key is None else entry.key.value
            if name == part and not entry.merge:
                return entry
        return None


@dataclass(slots=True)
class Entry:
    """A key and its value, or an item of a list. `end` is the end of the value, or of `key:` where there is none."""

    key: Node | None
    value: Node
    end: int = 0

    @property
    def start(self) -> int:
        return self.value.start if self.key is None else self.key.start

    @property
    def merge(self) -> bool:
        """Whether this is `<<: *map`, which is no key of its own."""
        return self.key is not None and self.key.value == MERGE and not self.key.style


def nodes(text: str) -> Node:
    """The root of a text that is known to be one valid YAML document."""
    from ruamel.yaml import YAML

    events = iter(YAML(typ="safe", pure=True).parse(text))
    for event in events:
        if type(event).__name__ == "DocumentStartEvent":
            return _node(text, next(events), events)
    raise EditError("the file is empty")


def walk(node: Node) -> Iterator[Node]:
    """The node, its keys and all below it."""
    yield node
    for entry in node.entries:
        if entry.key is not None:
            yield from walk(entry.key)
        yield from walk(entry.value)


def _node(text: str, event: Any, events: Iterator[Any]) -> Node:
    kind = type(event).__name__.removesuffix("Event")
    start, end = event.start_mark.index, event.end_mark.index
    anchor = getattr(event, "anchor", None) or ""
    if kind == "Alias":
        return Node("alias", start, end, anchor=anchor)
    if kind == "Scalar":
        style = event.style or ""
        if style in ("|", ">"):  # its mark stands after the blank lines that follow it
            end = start + len(text[start:end].rstrip())
        return Node("scalar", start, end, event.value, style, anchor)
    style = "flow" if event.flow_style else "block"
    mapping = kind == "MappingStart"
    node = Node("map" if mapping else "list", start, end, "", style, anchor)
    while True:
        following = next(events)
        if type(following).__name__ in ("MappingEndEvent", "SequenceEndEvent"):
            break
        key = _node(text, following, events) if mapping else None
        value = _node(text, next(events) if mapping else following, events)
        node.entries.append(Entry(key, value, _entry_end(text, key, value)))
    if node.flow:
        node.end = following.end_mark.index
    else:
        node.end = max((entry.end for entry in node.entries), default=start)
        if node.entries:
            node.column = _column(text, node.entries[0])
    return node


def _entry_end(text: str, key: Node | None, value: Node) -> int:
    """Where an entry ends. An empty value has its mark at the next token, so the colon is looked for."""
    if not value.empty:
        return value.end
    if key is None:  # `-` with nothing behind it: the dash is before the mark
        return len(text[: value.start].rstrip())
    colon = re.compile(r"[ \t]*:").match(text, key.end)
    return colon.end() if colon else key.end


def _column(text: str, first: Entry) -> int:
    """The column, from 0, of a block map's keys or of a block list's dashes."""
    at = first.start if first.key is not None else text.rindex("-", 0, first.start)
    return at - line_start(text, at)


def line_start(text: str, offset: int) -> int:
    """Where the line of `offset` begins."""
    return max(text.rfind(mark, 0, offset) for mark in "\n\r") + 1


def line_end(text: str, offset: int) -> int:
    """Where the line of `offset` ends, before its line break."""
    found = re.compile("[\n\r]").search(text, offset)
    return found.start() if found else len(text)
