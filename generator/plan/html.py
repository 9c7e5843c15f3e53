"""Plans as one HTML page that needs nothing else: no script, no font, no address; browsers are told to load nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from generator.plan.charts import charts
from generator.plan.drawing import drawing
from generator.plan.plan import Plan
from generator.plan.sections import ASSUMED, sections, title, training
from generator.plan.table import Row, Table
from generator.plan.units import count, gigabytes, usd
from generator.plan.why import Reason

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def as_html(plans: Sequence[Plan], reasons: Sequence[Sequence[Reason]], compared: Table | None = None) -> str:
    """One page for one or more plans, with the table that compares them first."""
    names = ", ".join(plan.name for plan in plans)
    css = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    body = []
    if compared is not None:
        body.append(f"<section><h1>{escape(compared.title)}</h1>{_table(compared, heading=False)}</section>")
    body += [_plan(*both) for both in zip(plans, reasons, strict=True)]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="{_POLICY}"/>
<title>Plan of {escape(names)}</title>
<style>
{css}</style>
</head>
<body>
<main>
{chr(10).join(body)}
<footer>Made by ray-train-dlc plan. Estimates name their assumptions; nothing here was measured on these nodes.</footer>
</main>
</body>
</html>
"""


def _plan(plan: Plan, reasons: Sequence[Reason]) -> str:
    out = [f"<section><h1>{escape(title(plan))}</h1>", f'<p class="sub">{_code(training(plan))}</p>']
    out += [f'<p class="hint">{_code(hint)}</p>' for hint in plan.hints]
    out.append(_figures(plan))
    out += ["<h2>Cluster</h2>", f'<div class="drawing wide">{drawing(plan)}</div>']
    drawn = [f'<div class="chart"><h3>{escape(name)}</h3>{svg}</div>' for name, svg in charts(plan)]
    if drawn:
        out += ["<h2>Memory and network</h2>", f'<div class="charts">{"".join(drawn)}</div>']
    out += [_table(table) for table in sections(plan)]
    if reasons:
        head = ("number", "value", "formula", "source")
        rows = tuple(Row((one.name, one.value, one.formula, one.source)) for one in reasons)
        out.append('<details open="open"><summary>Why: formula and source of each number</summary>')
        out += [_grid(Table("", head, rows)), "</details>"]
    return "\n".join([*out, "</section>"])


def _figures(plan: Plan) -> str:
    """The numbers to see first."""
    more = "" if plan.cost.complete else " and what is unknown"
    found = [(f"{usd(plan.cost.usd_per_hour)} USD", f"per hour{more}")]
    one = plan.estimate
    if one is not None:
        if plan.usd_per_run is not None:
            run = _range(usd(plan.usd_per_run), usd(plan.usd_per_run_in_turn))
            found.append((f"{run} USD", f"{count(one.steps, 'step')}, estimated"))
        slow = one.tokens / one.step_seconds_in_turn
        speed = _range(f"{slow / 1000:,.1f}", f"{one.tokens_per_second / 1000:,.1f}")
        found.append((f"{speed} k", "tokens per second, estimated"))
    if plan.memory:
        fullest = max((memory for _, memory in plan.memory), key=lambda memory: memory.share)
        found.append((f"{fullest.share:.0%}", f"of a GPU's {gigabytes(fullest.available)}"))
    resolved = plan.resolved
    found.append((str(resolved.gpus or resolved.world_size), "GPUs" if resolved.gpus else "ranks on CPUs"))
    cards = "".join(
        f'<div class="figure"><b>{escape(value)}</b><span>{escape(what)}</span></div>' for value, what in found
    )
    return f'<div class="figures">{cards}</div>'


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low}–{high}"


def _table(table: Table, *, heading: bool = True) -> str:
    out = [f"<h2>{_code(table.title)}</h2>"] if heading else []
    out.append(_grid(table))
    if table.notes:
        notes = "".join(f"<li>{_note(note)}</li>" for note in table.notes)
        out.append(f'<ul class="notes">{notes}</ul>')
    return "\n".join(out)


def _note(note: str) -> str:
    if note.startswith(ASSUMED):
        return f"<b>assumed:</b> {_code(note.removeprefix(ASSUMED))}"
    return _code(note)


def _grid(table: Table) -> str:
    def cells(tag: str, texts: Sequence[str]) -> str:
        sides = [' class="right"' if index in table.right else "" for index in range(len(texts))]
        return "".join(f"<{tag}{side}>{_code(text)}</{tag}>" for side, text in zip(sides, texts, strict=True))

    head = f"<thead><tr>{cells('th', table.head)}</tr></thead>" if any(table.head) else ""
    rows = "".join(f"<tr{_class(row.mark)}>{cells('td', row.cells)}</tr>" for row in table.rows)
    return f'<div class="wide"><table>{head}<tbody>{rows}</tbody></table></div>'


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _code(text: str) -> str:
    """Escaped, with `…` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text.strip()))
