"""The curves of a run record as small pictures (SVG), readable on light and dark pages."""

from __future__ import annotations

import html
import math
from typing import Any

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 380, 64, 20, 44, 52
STYLE = (
    "<style>text{font:13px system-ui,sans-serif;fill:#333}.t{font-weight:600;font-size:15px}.g{stroke:#ccc}"
    ".a{stroke:#666}.l{fill:none;stroke:#0b63c5;stroke-width:2}.p{fill:#0b63c5}.v{fill:none;stroke:#2e7d32;stroke-width:2}"
    ".w{fill:#2e7d32}.f{stroke:#b3540a;stroke-dasharray:6 4}.b{fill:#fff}"
    "@media (prefers-color-scheme:dark){text{fill:#ddd}.g{stroke:#444}.a{stroke:#999}"
    ".l{stroke:#6db3ff}.p{fill:#6db3ff}.v{stroke:#81c784}.w{fill:#81c784}.f{stroke:#ffb066}.b{fill:#161b22}}</style>"
)
Point = tuple[int, float]


def loss_svg(record: dict[str, Any]) -> str:
    """The loss over the steps, of training and on held-out data.

    Args:
        record: content of a run record; `data.entropy`, when there, is drawn as the lowest reachable loss.
    """
    held_out = [(int(v["step"]), float(v["loss"])) for v in record.get("validation", [])]
    notes = ["green: loss on held-out data"] if held_out else []
    floor = record.get("data", {}).get("entropy")
    if floor:
        # The curve falls towards the line: the upper right corner is the one place that it never reaches.
        notes.insert(0, f"dashed: entropy of the data, {floor:.3f}, the lowest reachable loss")
    points = [(int(s["step"]), float(s["loss"])) for s in record["steps"]]
    return _picture(record, "Loss", "cross entropy per token (nats)", points, second=held_out, floor=floor, notes=notes)


def throughput_svg(record: dict[str, Any]) -> str:
    """Tokens per second of all ranks over the steps; the first step of each process includes its warm-up."""
    points = [(int(s["step"]), float(s["tokensPerSecond"])) for s in record["steps"] if "tokensPerSecond" in s]
    return _picture(record, "Throughput", "tokens per second", points, zero=True)


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers between `low` and `high`, at most `most` + 1 of them."""
    rough = max(high - low, 1e-9) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step: float = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _picture(
    record: dict[str, Any],
    title: str,
    unit: str,
    points: list[Point],
    *,
    second: list[Point] = [],  # noqa: B006 - never changed
    floor: float | None = None,
    notes: list[str] = [],  # noqa: B006
    zero: bool = False,
) -> str:
    """One or two lines over the optimiser steps, a dashed line at `floor`, and notes in the upper right corner."""
    last = max([step for step, _ in [*points, *second]] + [2])
    values = [value for _, value in [*points, *second]] + ([floor] if floor else []) + ([0.0] if zero else [])
    values = values or [0.0, 1.0]
    pad = 0.05 * (max(values) - min(values) or 1.0)
    low, high = min(values) - (0.0 if zero else pad), max(values) + pad

    def x(step: float) -> float:
        return LEFT + (step - 1) / (last - 1) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)

    name = html.escape(f"{record['run']['name']} · {record['configuration']['preset']}")
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{title} over optimiser steps of {name}">',
        STYLE,
        f'<rect class="b" width="{WIDTH}" height="{HEIGHT}"/><text class="t" x="{LEFT}" y="26">{title}, {name}</text>',
    ]
    for value in _ticks(low, high, 6):
        out.append(f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{_short(value)}</text>')
    for value in [t for t in _ticks(1, last, 8) if t == int(t)]:
        out.append(f'<path class="a" d="M{x(value):.1f} {HEIGHT - BOTTOM}v5"/>')
        out.append(f'<text x="{x(value):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{value:.0f}</text>')
    out.append(f'<path class="a" fill="none" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    if floor:
        out.append(f'<line class="f" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(floor):.1f}" y2="{y(floor):.1f}"/>')
    for i, note in enumerate(notes):
        out.append(f'<text x="{WIDTH - RIGHT}" y="{TOP + 14 + 18 * i}" text-anchor="end">{note}</text>')
    for line, dot, of in (("l", "p", points), ("v", "w", second)):
        if of:
            path = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in of)
            out.append(f'<polyline class="{line}" points="{path}"/>')
        for step, value in of[:: max(1, len(of) // 100)]:
            tip = (
                f"<title>step {step}: {value:.4f}</title>"
                if value < 1000
                else f"<title>step {step}: {value:.0f}</title>"
            )
            out.append(f'<circle class="{dot}" cx="{x(step):.1f}" cy="{y(value):.1f}" r="2.5">{tip}</circle>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    out.append(f'<text x="{middle:.0f}" y="{HEIGHT - 12}" text-anchor="middle">optimiser step</text>')
    side = f"translate(18 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)"
    out.append(f'<text transform="{side}" text-anchor="middle">{unit}</text></svg>\n')
    return "\n".join(out)


def _short(value: float) -> str:
    """A number beside an axis: 2.5, 1200, 45k."""
    return f"{value / 1000:g}k" if abs(value) >= 10_000 else f"{value:.4g}"
