"""Plans as text, fitted to the width of the terminal, with colour where that is wanted."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence

from generator.plan.plan import Plan
from generator.plan.sections import ASSUMED, sections, title, training
from generator.plan.table import Row, Table
from generator.plan.why import Reason

NARROWEST = 40
_GAP = "  "
_STYLES = {"title": "1", "main": "1", "bad": "31", "minor": "2", "note": "2", "hint": "33"}


def wants_colour(choice: str) -> bool:
    """`auto`: on a terminal that can, unless NO_COLOR is set (no-color.org)."""
    if choice != "auto":
        return choice == "always"
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and sys.stdout.isatty()


class Paint:
    """Styles of the terminal, or none of them."""

    def __init__(self, colour: bool) -> None:
        self._colour = colour

    def __call__(self, style: str, text: str) -> str:
        code = _STYLES.get(style)
        return f"\033[{code}m{text}\033[0m" if self._colour and code and text else text


def as_text(plan: Plan, *, width: int = 100, colour: bool = False, reasons: Sequence[Reason] = ()) -> str:
    """One plan. `reasons`: formulae and sources, shown at the end."""
    paint, width = Paint(colour), max(width, NARROWEST)
    out = [*(paint("title", line) for line in _wrap(title(plan), width))]
    out += [*_wrap(training(plan), width), ""]
    for table in sections(plan):
        out += [*table_lines(table, width, paint), ""]
    out += _reasons(reasons, width, paint)
    out += [paint("hint", line) for hint in plan.hints for line in _item("hint", hint, width)]
    return "\n".join(out).rstrip("\n") + "\n"


def table_lines(table: Table, width: int, paint: Paint) -> list[str]:
    """Title, rows and notes. A row that does not fit has its longest cells broken; in the worst case one line each."""
    out = [paint("title", line) for line in _wrap(table.title, width)]
    columns = _widths(table, width - 2)
    if columns is None:
        for row in table.rows:
            out += [paint(row.mark, line) for line in _stacked(table, row, width)]
    else:
        if any(table.head):
            out.append(paint("minor", _line(table.head, columns, table.right)))
        for row in table.rows:
            broken = [_break(cell, room) for cell, room in zip(row.cells, columns, strict=True)]
            for index in range(max(map(len, broken))):
                cells = [lines[index] if index < len(lines) else "" for lines in broken]
                out.append(paint(row.mark, _line(cells, columns, table.right)))
    for note in table.notes:
        word, text = ("assumed", note.removeprefix(ASSUMED)) if note.startswith(ASSUMED) else ("note", note)
        out += [paint("note", line) for line in _item(word, text, width)]
    return out


def _line(cells: Sequence[str], columns: Sequence[int], right: frozenset[int]) -> str:
    parts = [
        cell.rjust(room) if index in right else cell.ljust(room)
        for index, (cell, room) in enumerate(zip(cells, columns, strict=True))
    ]
    return "  " + _GAP.join(parts).rstrip()


def _break(cell: str, room: int) -> list[str]:
    return _wrap(cell, max(room, 1)) or [""]


def _widths(table: Table, room: int) -> list[int] | None:
    """Width of each column: the widest give way until all fit, down to their longest word; None if that is too much."""
    grid = [table.head, *(row.cells for row in table.rows)]
    columns = [max(len(cells[i]) for cells in grid) for i in range(len(table.head))]
    least = [max((len(word) for cells in grid for word in cells[i].split()), default=0) for i in range(len(columns))]
    least = [wide if i in table.right else low for i, (wide, low) in enumerate(zip(columns, least, strict=True))]
    over = sum(columns) + len(_GAP) * (len(columns) - 1) - room
    while over > 0:
        free = [i for i, wide in enumerate(columns) if wide > least[i]]
        if not free:
            return None
        columns[max(free, key=lambda i: columns[i])] -= 1
        over -= 1
    return columns


def _stacked(table: Table, row: Row, width: int) -> list[str]:
    """The first cell, and each other one under it with its heading."""
    name, *cells = row.cells
    out = _wrap(name, width, "  ", "  ")
    for heading, cell in zip(table.head[1:], cells, strict=True):
        if cell.strip():
            text = f"{heading}: {cell.strip()}" if heading else cell.strip()
            out += _wrap(text, width, "    ", "      ")
    return out


def _item(word: str, text: str, width: int) -> list[str]:
    start = f"  {word}: "
    return _wrap(text, width, start, " " * len(start))


def _wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def _reasons(reasons: Sequence[Reason], width: int, paint: Paint) -> list[str]:
    if not reasons:
        return []
    out = [paint("title", "Why: formula and source of each number")]
    for one in reasons:
        out += _wrap(f"{one.name} = {one.value}", width, "  ", "    ")
        for text in (one.formula, f"source: {one.source}"):
            out += [paint("minor", line) for line in _wrap(text, width, "    ", "      ")]
    return [*out, ""]
