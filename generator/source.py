"""YAML files with the line and column of every node.

Values are plain Python (dict, list, str, int, float, bool, None) under the YAML 1.2 core schema: `yes` and `2026-12-01`
are text, `1.30` is a number. Every key and value can be found again by its path. Nothing is raised for bad content:
it becomes findings.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from generator.conflicts import conflict_line
from generator.diagnostics.codes import CODES
from generator.diagnostics.finding import START_OF_FILE, Finding, Pointer, Position, Range, lines_of

# ruamel.yaml's nodes are not typed: attributes that only some kinds have, and no stubs.
Node = Any

MAX_BYTES = 1 << 17  # a file of ours has 2 KiB; the pure Python parser takes 1 s for the worst file of this size
MAX_NODES = 5_000  # after aliases are followed: a "billion laughs" file ends here
MAX_DEPTH = 50
MAX_FINDINGS = 100  # per file; what comes after is more of the same
_TAG = "tag:yaml.org,2002:"
_MAX_INTEGER_DIGITS = 18  # beyond it no number of ours makes sense, and Python's own conversion has a limit


@dataclass(frozen=True, slots=True)
class Source:
    """One parsed file. `file` is its name as findings show it, `text` what it holds."""

    file: str
    text: str
    data: Any = None
    findings: tuple[Finding, ...] = ()
    keys: dict[Pointer, Range] = field(default_factory=dict)
    values: dict[Pointer, Range] = field(default_factory=dict)

    def value_range(self, path: Pointer) -> Range:
        """Where the value at `path` stands; for a path that is not in the file, its nearest ancestor's key."""
        if path in self.values:
            return self.values[path]
        return self.key_range(path)

    def key_range(self, path: Pointer) -> Range:
        """Where the key of `path` stands; for a path that is not in the file, the key of its nearest ancestor."""
        while path:
            if path in self.keys:
                return self.keys[path]
            if path in self.values:  # an item of a list has no key
                return self.values[path]
            path = path[:-1]
        return min(self.keys.values(), default=START_OF_FILE)

    def finding(self, code: str, path: Pointer, message: str, *, on_key: bool = False, **rest: Any) -> Finding:
        """A finding of `code`'s usual severity at `path`. `rest` goes to `Finding`."""
        where = self.key_range(path) if on_key else self.value_range(path)
        rest.setdefault("severity", CODES[code].severity)
        return Finding(code=code, message=message, file=self.file, path=path, range=where, **rest)


def read(path: Path, shown_as: str) -> Source:
    """Read and parse one file; what cannot be read becomes a finding RTD106."""
    try:
        if path.exists() and not path.is_file():  # a pipe would never end, a device might not
            return _broken(
                shown_as,
                "",
                "RTD106",
                f"cannot read {shown_as}: it is a {'folder' if path.is_dir() else 'device or pipe'}, not a file",
                help="put a YAML file in its place",
            )
        with path.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return _broken(
            shown_as,
            "",
            "RTD106",
            f"there is no file {shown_as}",
            help="create it; `python -m generator new` writes one of each kind",
        )
    except OSError as error:
        reason = error.strerror or str(error)
        return _broken(
            shown_as, "", "RTD106", f"cannot read {shown_as}: {reason}", help="make it a file that you may read"
        )
    return parse(raw, shown_as)


def parse(raw: bytes, shown_as: str) -> Source:
    """Parse the bytes of one file."""
    if len(raw) > MAX_BYTES:
        return _broken(
            shown_as,
            "",
            "RTD108",
            f"the file is larger than {MAX_BYTES:,} bytes",
            help="split it, or remove what is not ours",
        )
    try:
        text = raw.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode().removeprefix("\ufeff")
        return _broken(
            shown_as,
            raw.decode(errors="replace").removeprefix("\ufeff"),
            "RTD101",
            f"not UTF-8 text: byte 0x{raw[error.start]:02x}",
            _end_of(before),
            help="save the file as UTF-8",
        )
    if (directive := _foreign_version(text)) is not None:
        line, version = directive
        return _broken(
            shown_as,
            text,
            "RTD101",
            f"the file says that it is YAML {version}, but is read as YAML 1.2",
            Position(line, 1),
            help="remove the %YAML line; in YAML 1.2 `yes` and `on` are text",
        )
    if (conflict := conflict_line(text)) is not None:
        return _broken(
            shown_as,
            text,
            "RTD132",
            "Git's conflict markers stand here: a merge was not finished",
            Position(conflict, 1),
            help="keep one side or both, and remove the lines that begin with <<<<<<<, ======= and >>>>>>>",
        )
    return _compose(text, shown_as)


def compose(text: str) -> tuple[Any, Node]:
    """ruamel.yaml's constructor and root node for a text; its own errors are raised."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import ReusedAnchorWarning

    yaml = YAML(typ="safe", pure=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReusedAnchorWarning)  # YAML allows it: the last one counts
        return yaml.constructor, yaml.compose(text)


def _compose(text: str, shown_as: str) -> Source:
    """Parse decoded text."""
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        constructor, node = compose(text)
        if node is None:
            return _broken(
                shown_as,
                text,
                "RTD101",
                "the file is empty",
                help="see `python -m generator new --help` for a filled one",
            )
        return _Builder(constructor, shown_as, text).build(node)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)
        problem = " ".join(str(part) for part in (error.context, error.problem) if part)
        return _broken(
            shown_as,
            text,
            "RTD101",
            f"not valid YAML: {problem}",
            where,
            help="write spaces instead of the tab"
            if r"'\t'" in problem
            else "correct the syntax here, or on the line before",
        )
    except RecursionError:
        return _broken(
            shown_as,
            text,
            "RTD108",
            "the file is nested too deeply",
            help="no key of ours lies deeper than 6 levels",
        )
    except YAMLError as error:  # a reader error (control characters) carries no mark
        position = getattr(error, "position", None)
        where = _end_of(text[:position]) if isinstance(position, int) else Position(1, 1)
        reason = getattr(error, "reason", None) or str(error)
        return _broken(
            shown_as,
            text,
            "RTD101",
            f"not valid YAML: {reason}",
            where,
            help="remove the character, or quote and escape it",
        )
    except Exception as error:  # the parser's own slips on hostile input: assertions, unpacking
        return _broken(
            shown_as,
            text,
            "RTD101",
            f"not valid YAML: the parser gave up ({type(error).__name__}: {error})",
            help="compare it with a file that `python -m generator new` writes",
        )


def _end_of(text: str) -> Position:
    """The place right after `text`, when it is the beginning of a file."""
    lines = lines_of(text)
    return Position(len(lines), len(lines[-1]) + 1)


def _foreign_version(text: str) -> tuple[int, str] | None:
    """(line, version) of a %YAML directive for another version than 1.2: it would change what `yes` and `010` mean."""
    for number, line in enumerate(lines_of(text[:4096]), start=1):
        words = line.split()
        if line.startswith("%YAML") and len(words) > 1 and words[1] != "1.2":
            return number, words[1]
        if words and line[0] not in "%#":
            break
    return None


def _broken(file: str, text: str, code: str, message: str, at: Position | None = None, help: str = "") -> Source:
    where = Range(at, Position(at.line, at.column + 1)) if at else START_OF_FILE
    finding = Finding(code, CODES[code].severity, message, file, range=where, help=help)
    return Source(file, text, None, (finding,))


class _LimitError(ValueError):
    """The file is too deep or, with its aliases followed, too large."""


class _Builder:
    """Walks a composed tree once: builds the data and notes where everything stands."""

    def __init__(self, constructor: Any, file: str, text: str) -> None:
        self.constructor = constructor
        self.file = file
        self.text = text
        self.keys: dict[Pointer, Range] = {}
        self.values: dict[Pointer, Range] = {}
        self.findings: list[Finding] = []
        self.count = 0
        self.merges = False

    def build(self, node: Node) -> Source:
        try:
            data = self.visit(node, ())
        except _LimitError as error:
            return _broken(
                self.file,
                self.text,
                "RTD108",
                str(error),
                help="no file of ours needs this; write the values out",
            )
        if self.merges:  # what an explicit key replaced stands nowhere any more
            self.keys = {path: where for path, where in self.keys.items() if _present(data, path)}
            self.values = {path: where for path, where in self.values.items() if _present(data, path)}
        return Source(self.file, self.text, data, tuple(self.findings), self.keys, self.values)

    def visit(self, node: Node, path: Pointer) -> Any:
        self.count += 1
        if self.count > MAX_NODES:
            raise _LimitError(f"more than {MAX_NODES:,} values once aliases are followed")
        if len(path) > MAX_DEPTH:
            raise _LimitError(f"nested deeper than {MAX_DEPTH} levels")
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
                raise _LimitError(f"more than {MAX_NODES:,} values once aliases are followed")
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


def _present(data: Any, path: Pointer) -> bool:
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
