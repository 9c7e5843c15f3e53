"""The cluster as a picture: nodes, pods, GPUs with their ranks, and what joins the nodes."""

from __future__ import annotations

from generator.plan.plan import Plan
from generator.plan.svg import Svg
from generator.plan.units import cores, count, gibibytes
from generator.resolve import Group

_COLUMNS = 4  # GPUs beside each other
_GPU_WIDTH, _GPU_HEIGHT, _GAP = 44, 34, 6
_NODE_WIDTH = _COLUMNS * _GPU_WIDTH + (_COLUMNS - 1) * _GAP + 44
_NODE_GAP = 16
_PER_ROW = 3
_SHOWN = 6  # nodes of a group; the others are like them
_SYSTEM_WIDTH = 190
_TOP = 34  # heading of a frame
_LEAST_WIDTH = 360


def drawing(plan: Plan) -> str:
    """One environment as SVG."""
    resolved = plan.resolved
    svg = Svg(f"Drawing of {plan.name}: {count(resolved.nodes, 'worker node')} with {count(resolved.gpus, 'GPU')}")
    _system(svg, plan)
    top, first = 0.0, 0
    for group in resolved.groups:
        top = _group(svg, group, top, first) + 16
        first += group.nodes * group.processes
    return svg.done()


def _system(svg: Svg, plan: Plan) -> None:
    """The node that the head runs on; the control plane above it is EKS's own."""
    head, cluster = plan.resolved.head, plan.resolved.cluster
    nodes = cluster.system_nodes.count if cluster else 0
    name = f"{nodes} × {head.type.name}" if head.type else "system node"
    svg.rect(0, 0, _SYSTEM_WIDTH, 150, "frame", 8)
    svg.text(14, 22, "system nodes", _SYSTEM_WIDTH - 28, size=13, style="strong")
    svg.rect(14, _TOP, _SYSTEM_WIDTH - 28, 102, "node", 6)
    svg.text(26, _TOP + 20, name, _SYSTEM_WIDTH - 52, size=12, style="soft")
    svg.rect(26, _TOP + 30, _SYSTEM_WIDTH - 52, 60, "pod head", 6)
    svg.text(36, _TOP + 49, "head pod", _SYSTEM_WIDTH - 72, size=12, style="strong")
    svg.text(36, _TOP + 65, "Ray head, driver", _SYSTEM_WIDTH - 72, size=11, style="soft")
    told = (
        f"{head.cpu} vCPU, {gibibytes(head.memory_mib)} GiB" if plan.resolved.environment.has_pods else "there already"
    )
    svg.text(36, _TOP + 81, told, _SYSTEM_WIDTH - 72, size=11, style="soft")


def _group(svg: Svg, group: Group, top: float, first_rank: int) -> float:
    """One worker group in its frame; returns where the frame ends."""
    left = _SYSTEM_WIDTH + 20
    shown = min(group.nodes, _SHOWN)
    rows = -(-shown // _PER_ROW)
    slots = max(group.gpus or group.processes, 1)
    high = _node_height(slots)
    bus = 34 if group.nodes > 1 else 6
    frame_height = _TOP + rows * (high + bus) + 8
    columns = min(_PER_ROW, shown)
    width = max(_LEAST_WIDTH, 32 + columns * (_NODE_WIDTH + _NODE_GAP) - _NODE_GAP)
    svg.rect(left, top, width, frame_height, "frame", 8)
    where = f" in {group.zone}" if group.zone else ""
    more = f", {shown} of them drawn" if shown < group.nodes else ""
    title = f"{group.name}: {group.nodes} × {group.type.name}{where}{more}"
    svg.text(left + 16, top + 22, title, width - 32, size=13, style="strong")
    for index in range(shown):
        row, column = divmod(index, _PER_ROW)
        x = left + 16 + column * (_NODE_WIDTH + _NODE_GAP)
        y = top + _TOP + row * (high + bus)
        _node(svg, group, x, y, index, first_rank + index * group.processes)
        if group.nodes > 1:
            svg.line(x + _NODE_WIDTH / 2, y + high, x + _NODE_WIDTH / 2, y + high + 12, _wire(group))
    if group.nodes > 1:
        for row in range(rows):
            y = top + _TOP + row * (high + bus) + high + 12
            used = min(_PER_ROW, shown - row * _PER_ROW)
            end = left + 16 + used * (_NODE_WIDTH + _NODE_GAP) - _NODE_GAP
            svg.line(left + 16, y, end, y, _wire(group))
            svg.text(left + 16, y + 15, _bus(group), end - left - 16, size=11, style="soft")
    return top + frame_height


def _node_height(slots: int) -> float:
    rows = -(-min(slots, 4 * _COLUMNS) // _COLUMNS)
    return 28 + 24 + rows * (_GPU_HEIGHT + _GAP) + 24 + 12 + 26


def _node(svg: Svg, group: Group, x: float, y: float, index: int, first_rank: int) -> None:
    slots = max(group.gpus or group.processes, 1)
    high = _node_height(slots)
    inner = _NODE_WIDTH - 24
    svg.rect(x, y, _NODE_WIDTH, high, "node", 6)
    svg.text(x + 12, y + 19, f"node {index + 1}", inner, size=12, style="soft")
    pod_height = high - 28 - 32
    svg.rect(x + 12, y + 28, inner, pod_height, "pod", 6)
    what = f"{group.gpus} × {group.type.gpu_model}" if group.gpus else count(group.processes, "rank")
    svg.text(x + 22, y + 45, what, inner - 20, size=12, style="strong")
    for slot in range(min(slots, 4 * _COLUMNS)):
        row, column = divmod(slot, _COLUMNS)
        left, top = x + 22 + column * (_GPU_WIDTH + _GAP), y + 52 + row * (_GPU_HEIGHT + _GAP)
        svg.rect(left, top, _GPU_WIDTH, _GPU_HEIGHT, "gpu" if group.gpus else "rank", 4)
        rank = str(first_rank + slot)
        svg.text(left + _GPU_WIDTH / 2, top + 21, rank, _GPU_WIDTH - 4, size=12, style="on", anchor="middle")
    told = f"pod: {cores(1000 * group.cpu)} vCPU, {gibibytes(group.memory_mib)} GiB"
    svg.text(x + 22, y + 28 + pod_height - 10, told, inner - 20, size=11, style="soft")
    chip = y + high - 26
    card = f"{count(group.interfaces, 'EFA interface')}" if group.interfaces else "no EFA"
    svg.rect(x + 12, chip, inner, 20, "efa" if group.interfaces else "tcp", 4)
    svg.text(x + _NODE_WIDTH / 2, chip + 14, card, inner - 8, size=11, style="on", anchor="middle")


def _wire(group: Group) -> str:
    return "wire efa" if group.interfaces else "wire tcp"


def _bus(group: Group) -> str:
    rate = f", {group.type.network_gbps:g} Gbit/s a node" if group.type.network_gbps else ""
    if group.interfaces:
        return f"EFA{rate}; numbers are ranks"
    return f"TCP{rate}; numbers are ranks" if group.type.network_gbps else "this machine; numbers are ranks"
