"""One finding: what is wrong, where, why, and what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

Pointer = tuple[str | int, ...]


class Severity(StrEnum):
    """How bad it is. Only errors change the exit code."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, order=True, slots=True)
class Position:
    """A place in a file; line and column count from 1, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True, order=True, slots=True)
class Range:
    """From `start` up to, not including, `end`."""

    start: Position
    end: Position


START_OF_FILE = Range(Position(1, 1), Position(1, 1))


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about the node at `path` of `file`.

    `label` is printed beside the marked text, `notes` give facts and arithmetic, `help` says what to do.
    """

    code: str
    severity: Severity
    message: str
    file: str
    path: Pointer = ()
    range: Range = START_OF_FILE
    label: str = ""
    notes: tuple[str, ...] = ()
    help: str = ""

    @property
    def pointer(self) -> str:
        """`path` as a JSON pointer (RFC 6901)."""
        return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in self.path)

    @property
    def sort_key(self) -> tuple[str, Range, str, str]:
        return (self.file, self.range, self.code, self.message)


@dataclass(frozen=True, slots=True)
class Silenced:
    """A finding that a comment silences: with the comment's reason and line."""

    finding: Finding
    reason: str
    line: int


def lines_of(text: str) -> list[str]:
    """The lines of a YAML file: the breaks are those of the parser, so that its line numbers hold."""
    return re.split("\r\n|[\n\r\x85\u2028\u2029]", text)


def dotted(path: Pointer) -> str:
    """A path as people write it: `workers.gpu.nodes`, `availabilityZones[1]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text or "(the whole file)"


def clean(text: str) -> str:
    """Messages quote what users wrote: line breaks and control characters are shown as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)
