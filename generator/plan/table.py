"""A table before it is text, Markdown or HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mark = Literal["", "main", "bad", "minor"]


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `mark`: the row to look at first, one that says something is wrong, or one of less weight."""

    cells: tuple[str, ...]
    mark: Mark = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table. `right`: indices of the columns with numbers."""

    title: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    right: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()
