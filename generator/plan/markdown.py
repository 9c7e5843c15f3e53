"""Plans as Markdown, for the text of a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from generator.plan.plan import Plan
from generator.plan.sections import sections, title, training
from generator.plan.table import Row, Table
from generator.plan.why import Reason


def as_markdown(plan: Plan, reasons: Sequence[Reason] = ()) -> str:
    """One plan."""
    out = [f"## {_safe(title(plan))}", "", _safe(training(plan)), ""]
    out += [line for hint in plan.hints for line in (f"> **Hint:** {_safe(hint)}", "")]
    for table in sections(plan):
        out += [*table_markdown(table), ""]
    if reasons:
        head = ("number", "value", "formula", "source")
        rows = tuple(Row((one.name, one.value, one.formula, one.source)) for one in reasons)
        out += ["<details><summary>Why: formula and source of each number</summary>", ""]
        out += [*_grid(Table("", head, rows)), "", "</details>", ""]
    return "\n".join(out).rstrip("\n") + "\n"


def table_markdown(table: Table) -> list[str]:
    """Heading, table and notes."""
    out = [f"### {_safe(table.title)}", "", *_grid(table)]
    if table.notes:
        out += ["", *(f"- {_safe(note)}" for note in table.notes)]
    return out


def _grid(table: Table) -> list[str]:
    head = [f" {_cell(text)} " if text else " " for text in table.head]
    rule = ["---:" if index in table.right else "---" for index in range(len(table.head))]
    out = [f"|{'|'.join(head)}|", f"|{'|'.join(rule)}|"]
    for row in table.rows:
        cells = [_cell(cell) for cell in row.cells]
        if row.mark in ("main", "bad"):
            cells = [f"**{cell}**" if cell else "" for cell in cells]
        out.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
    return out


def _cell(text: str) -> str:
    return _safe(" ".join(text.split())).replace("|", "\\|")


def _safe(text: str) -> str:
    """Nothing in a text is markup but its code spans."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
