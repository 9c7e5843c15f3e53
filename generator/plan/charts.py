"""Charts of one plan as SVG: GPU memory by part, and each sharding's bytes and step time."""

from __future__ import annotations

from generator.plan.network import SCHEMES, TRANSPORTS
from generator.plan.plan import Plan
from generator.plan.sections import PARTS
from generator.plan.svg import Svg
from generator.plan.units import gigabytes, seconds

WIDTH = 320
_LABEL = 54
_VALUE = 66
_BAR = WIDTH - _LABEL - _VALUE


def charts(plan: Plan) -> list[tuple[str, str]]:
    """(title, SVG) of every chart there is something for."""
    found = []
    if plan.memory:
        found.append(("Memory of each GPU by part", _memory(plan)))
    if plan.network is not None and plan.estimate is not None and plan.network.transport != "none":
        found.append(("Sent per network card and step", _bytes(plan)))
        found.append(("Step time, estimated", _times(plan)))
    return found


def _memory(plan: Plan) -> str:
    svg = Svg("Memory of each GPU by part")
    needed = plan.memory[0][1]
    least = min(memory.available for _, memory in plan.memory)
    scale = (WIDTH - 2) / max(needed.total, least)
    x = 0.0
    svg.rect(0, 4, least * scale, 34, "room", 4)
    for index, size in enumerate(needed.parts.values()):
        svg.rect(x, 4, size * scale, 34, f"part{index}", 0)
        x += size * scale
    svg.line(least * scale, 0, least * scale, 42, "limit")
    svg.text(
        WIDTH - 2,
        58,
        f"{gigabytes(needed.total)} of {gigabytes(least)}",
        WIDTH - 4,
        size=12,
        style="strong",
        anchor="end",
    )
    y = 82
    for index, (part, size) in enumerate(needed.parts.items()):
        svg.rect(0, y - 10, 12, 12, f"part{index}", 2)
        svg.text(20, y, PARTS.get(part, part), WIDTH - 20 - _VALUE, size=12)
        svg.text(WIDTH - 2, y, gigabytes(size), _VALUE - 4, size=12, style="soft", anchor="end")
        y += 21
    return svg.done()


def _bytes(plan: Plan) -> str:
    net = plan.network
    assert net is not None  # noqa: S101  (charts() looked)
    svg = Svg("Bytes sent per network card and step by sharding")
    most = max(net.nic_bytes(scheme) for scheme in SCHEMES)
    for index, scheme in enumerate(SCHEMES):
        y = 4 + index * 38
        size = net.nic_bytes(scheme)
        chosen = scheme == net.chosen
        svg.text(0, y + 19, scheme, _LABEL - 6, size=13, style="strong" if chosen else "")
        svg.rect(_LABEL, y, _BAR * size / most, 28, "bar chosen" if chosen else "bar", 3)
        svg.text(_LABEL + _BAR * size / most + 8, y + 19, gigabytes(size), _VALUE - 8, size=12, style="soft")
    return svg.done()


def _times(plan: Plan) -> str:
    net, speed = plan.network, plan.estimate
    assert net is not None and speed is not None  # noqa: S101  (charts() looked)
    svg = Svg("Estimated step time by sharding, over EFA and over TCP")
    steps = {(s, t): speed.step(net.seconds(s, t)) for s in SCHEMES for t in TRANSPORTS}
    most = max(value for value in steps.values() if value is not None)
    high = 8 + len(SCHEMES) * 48
    for index, scheme in enumerate(SCHEMES):
        y = 8 + index * 48
        svg.text(0, y + 22, scheme, _LABEL - 6, size=13, style="strong" if scheme == net.chosen else "")
        for row, transport in enumerate(TRANSPORTS):
            value = steps[scheme, transport]
            if value is None:
                svg.text(
                    _LABEL, y + 14 + row * 18, f"no {transport.upper()} on these nodes", _BAR, size=11, style="soft"
                )
                continue
            svg.rect(_LABEL, y + row * 18, _BAR * value / most, 16, f"bar {transport}", 3)
            told = seconds(value)
            svg.text(_LABEL + _BAR * value / most + 8, y + 12 + row * 18, told, _VALUE - 8, size=11, style="soft")
    mark = _LABEL + _BAR * speed.compute_seconds / most
    svg.line(mark, 0, mark, high, "limit")
    y = high + 14
    for index, transport in enumerate(TRANSPORTS):
        svg.rect(_LABEL + index * 66, y - 10, 12, 12, f"bar {transport}", 2)
        svg.text(_LABEL + index * 66 + 18, y, transport.upper(), 40, size=12, style="soft")
    svg.line(_LABEL + 134, y - 11, _LABEL + 134, y + 3, "limit")
    svg.text(_LABEL + 141, y, "computation", WIDTH - _LABEL - 142, size=12, style="soft")
    return svg.done()
