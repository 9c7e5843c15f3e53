"""From a composed YAML tree to plain data, and the place of every key and value."""

from __future__ import annotations

import math
from typing import Any

from generator.diagnostics.codes import CODES
from generator.diagnostics.finding import Finding, Pointer, Position, Range

# ruamel.yaml's nodes are not typed: attributes that only some kinds have, and no stubs.
Node = Any

MAX_NODES = 5_000  # after aliases are followed: a "billion laughs" file ends here
MAX_DEPTH = 50
MAX_FINDINGS = 100  # per file; what comes after is more of the same
_TAG = "tag:yaml.org,2002:"
_MAX_INTEGER_DIGITS = 18  # beyond it no number of ours makes sense, and Python's own conversion has a limit


class LimitError(ValueError):
    """The file is too deep or, with its aliases followed, too large."""


class Tree:
    """Walks a composed tree once: builds the data and notes where everything stands."""

    def __init__(self, constructor: Any, file: str) -> None:
        self.constructor = constructor
        self.file = file
        self.keys: dict[Pointer, Range] = {}
        self.values: dict[Pointer, Range] = {}
        self.findings: list[Finding] = []
        self.count = 0
        self.merges = False

    def build(self, node: Node) -> Any:
        """The data.

        Raises:
            LimitError: the file is too deep or too large.
        """
        data = self.visit(node, ())
        if self.merges:  # what an explicit key replaced stands nowhere any more
            self.keys = {path: where for path, where in self.keys.items() if present(data, path)}
            self.values = {path: where for path, where in self.values.items() if present(data, path)}
        return data

    def visit(self, node: Node, path: Pointer) -> Any:
        self.count += 1
        if self.count > MAX_NODES:
            raise LimitError(f"more than {MAX_NODES:,} values once aliases are followed")
        if len(path) > MAX_DEPTH:
            raise LimitError(f"nested deeper than {MAX_DEPTH} levels")
        kind = str(node.tag).removeprefix(_TAG)
        if node.id == "scalar":
            self.values[path] = _value_range(node) if node.value or node.style else self._empty(path, node)
            return self._scalar(node, kind, path)
        if kind == "seq" and node.id == "sequence":
            self.values[path] = _value_range(node)
            return [self.visit(child, (*path, index)) for index, child in enumerate(node.value)]
        if kind == "map" and node.id == "mapping":
            self.values[path] = _value_range(node)
            return self._map(node, path)
        return self._refuse(node, path, f"the tag {node.tag!s} is not used here", "remove the tag")

    def _map(self, node: Node, path: Pointer) -> dict[str, Any]:
        data: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        # Merges first: where a key is also written out, that place is the one to point at.
        for key_node, value_node in node.value:
            if str(key_node.tag) == _TAG + "merge":
                merged |= self._merged(value_node, path)
        for key_node, value_node in node.value:
            if str(key_node.tag) == _TAG + "merge":
                continue
            if not _plain_key(key_node):
                self._refuse(key_node, path, "a key must be plain text", "write the key as text")
                continue
            key = key_node.value
            here = (*path, key)
            if key in data:
                first = self.keys[here].start
                self._say(
                    "RTD102",
                    here,
                    _value_range(key_node),
                    f"`{key}` stands twice in this map",
                    notes=(f"the first is at line {first.line}, column {first.column}",),
                    help="keep one of the two",
                )
                continue
            self.keys[here] = _value_range(key_node)
            data[key] = self.visit(value_node, here)
        return merged | data

    def _merged(self, node: Node, path: Pointer) -> dict[str, Any]:
        """The maps of a merge key `<<`; keys written out win over them."""
        self.merges = True
        nodes = node.value if node.id == "sequence" else [node]
        result: dict[str, Any] = {}
        for child in reversed(nodes):
            if child.id != "mapping":
                self._refuse(child, path, "`<<` merges maps only", "give it an alias of a map")
                continue
            self.count += 1  # a chain of merges multiplies as aliases do
            if self.count > MAX_NODES:
                raise LimitError(f"more than {MAX_NODES:,} values once aliases are followed")
            result |= self._map(child, path)
        return result

    def _scalar(self, node: Node, kind: str, path: Pointer) -> Any:
        if kind in ("str", "timestamp"):
            if _half_character(node.value):
                return self._refuse(
                    node, path, "the text holds half a character (a lone surrogate)", "remove the escape"
                )
            return str(node.value)
        if kind == "null" and node.value.lower() in ("", "~", "null"):
            return None
        if kind == "bool" and node.value.lower() in ("true", "false"):
            return bool(node.value.lower() == "true")
        if kind == "int":
            if len(node.value) > _MAX_INTEGER_DIGITS:
                return self._refuse(
                    node, path, "the number is too large", "correct the number, or quote it if it is text"
                )
            return self._number(node, path, self.constructor.construct_yaml_int)
        if kind == "float":
            return self._number(node, path, self.constructor.construct_yaml_float)
        return self._refuse(node, path, f"the tag {node.tag!s} is not used for this value", "remove the tag")

    def _number(self, node: Node, path: Pointer, construct: Any) -> Any:
        try:
            number = construct(node)
        except (ValueError, IndexError):  # `0x_`, or a tag that says so of any text
            return self._refuse(
                node, path, f"`{node.value}` is not a number", "correct the number, or quote it if it is text"
            )
        if math.isfinite(number):
            return number
        return self._refuse(
            node,
            path,
            f"`{node.value}` is not a finite number",
            "correct the number, or quote it if it is text",
        )

    def _empty(self, path: Pointer, node: Node) -> Range:
        """`key:` with nothing after it: YAML puts the empty value at the next token; point at the key instead."""
        return self.keys.get(path, _value_range(node))

    def _refuse(self, node: Node, path: Pointer, message: str, help: str) -> None:
        self._say("RTD104", path, _value_range(node), message, help=help)

    def _say(self, code: str, path: Pointer, where: Range, message: str, **rest: Any) -> None:
        if len(self.findings) >= MAX_FINDINGS:
            return
        self.findings.append(Finding(code, CODES[code].severity, message, self.file, path, where, **rest))


def _plain_key(node: Node) -> bool:
    """Whether a key is a scalar that is text or reads as such (`1`, `null`), without a tag of its own."""
    kinds = ("str", "int", "float", "bool", "null", "timestamp")
    return node.id == "scalar" and str(node.tag).removeprefix(_TAG) in kinds and not _half_character(node.value)


def _half_character(text: str) -> bool:
    return any(0xD800 <= ord(c) <= 0xDFFF for c in text)


def present(data: Any, path: Pointer) -> bool:
    """Whether `data` has a value at `path`."""
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _value_range(node: Node) -> Range:
    """The text of a scalar or flow collection; of a block collection only its first character, for it has no end."""
    start = Position(node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node.value, str):
        multiline = node.end_mark.line != node.start_mark.line
        end = Position(start.line, start.column + 1) if multiline else Position(start.line, node.end_mark.column + 1)
        return Range(start, end)
    if node.flow_style:
        return Range(start, Position(node.end_mark.line + 1, node.end_mark.column + 1))
    return Range(start, Position(start.line, start.column + 1))
