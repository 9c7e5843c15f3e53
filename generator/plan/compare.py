"""Several plans side by side."""

from __future__ import annotations

from collections.abc import Sequence

from generator.plan.plan import Plan
from generator.plan.quota import declared
from generator.plan.table import Mark, Row, Table
from generator.plan.units import duration, gigabytes, seconds, usd


def comparison(plans: Sequence[Plan]) -> Table:
    """One column for each plan; with two of them a last one with how the second stands to the first."""
    pair = len(plans) == 2
    rows = []
    for label, cells, numbers, mark in _lines(plans):
        if all(cell in ("–", "") for cell in cells):
            continue
        ratio = (_ratio(*numbers) if numbers else "",) if pair else ()
        rows.append(Row((label, *cells, *ratio), mark))
    names = tuple(plan.name for plan in plans)
    head = ("", *names, f"{names[1]} ÷ {names[0]}") if pair else ("", *names)
    notes = ("memory, network, speed and price of a run are estimates; `plan ENV` states what each assumes",)
    hints = tuple(f"{plan.name}: {hint}" for plan in plans for hint in plan.hints)
    return Table(
        f"Comparison of {', '.join(names)}",
        head,
        tuple(rows),
        frozenset({len(names) + 1}) if pair else frozenset(),
        (*notes, *hints),
    )


def _ratio(first: float | None, second: float | None) -> str:
    if not first or not second:
        return ""
    return "=" if abs(second / first - 1) < 0.005 else f"× {second / first:.2f}"


def _lines(plans: Sequence[Plan]) -> list[tuple[str, list[str], list[float | None], Mark]]:
    """(label, cells, the numbers behind them, weight)."""

    def line(
        label: str, cells: list[str], numbers: Sequence[float | None] = (), mark: Mark = ""
    ) -> tuple[str, list[str], list[float | None], Mark]:
        return label, cells, list(numbers), mark

    speeds = [plan.estimate for plan in plans]
    nets = [plan.network for plan in plans]
    fullest = [max((m for _, m in plan.memory), key=lambda m: m.share, default=None) for plan in plans]
    sent = [net.nic_bytes(net.chosen) if net else None for net in nets]
    steps = [one.step_seconds if one else None for one in speeds]
    tokens = [one.tokens_per_second if one else None for one in speeds]
    times = [one.steps * one.step_seconds if one else None for one in speeds]
    hours = [plan.cost.usd_per_hour for plan in plans]
    found = [
        line("cluster", [_where(plan) for plan in plans]),
        line("worker nodes", [_nodes(plan) for plan in plans], [plan.resolved.nodes for plan in plans]),
        line("GPUs", [_gpus(plan) for plan in plans], [plan.resolved.gpus for plan in plans]),
        line("ranks", [str(p.resolved.world_size) for p in plans], [p.resolved.world_size for p in plans]),
        line("EFA interfaces per node", [_interfaces(plan) for plan in plans]),
        line("capacity", [", ".join(sorted({g.capacity.kind for g in p.resolved.groups})) for p in plans]),
        line("preset", [plan.resolved.environment.training.preset for plan in plans]),
        line("pods fit their nodes", ["no" if any(f.fits is False for f in p.fit) else "yes" for p in plans]),
        line(
            "memory of each GPU",
            [gigabytes(m.total) if m else "–" for m in fullest],
            [m.total if m else None for m in fullest],
        ),
        line("share of its memory", [f"{m.share:.0%}" if m else "–" for m in fullest]),
        line("sharding and transport", [f"{n.chosen}, {_transport(n.transport)}" if n else "–" for n in nets]),
        line("sent per card and step", [gigabytes(s) if s is not None else "–" for s in sent], sent),
        line(
            "tokens per step",
            [f"{one.tokens:,}" if one else "–" for one in speeds],
            [one.tokens if one else None for one in speeds],
        ),
        line("step, estimated", [seconds(s) for s in steps], steps),
        line("tokens per second, estimated", [f"{t:,.0f}" if t else "–" for t in tokens], tokens, "main"),
        line("MFU, estimated", [f"{one.mfu:.0%}" if one else "–" for one in speeds]),
        line("USD per hour", [_money(plan, plan.cost.usd_per_hour) for plan in plans], hours, "main"),
        line("USD per day", [_money(plan, plan.usd_per_day) for plan in plans], [plan.usd_per_day for plan in plans]),
        line("steps of the run", [f"{one.steps:,}" if one else "–" for one in speeds]),
        line("time of the run, estimated", [duration(t) if t is not None else "–" for t in times], times),
        line("USD per run, estimated", [_money(p, p.usd_per_run) for p in plans], [p.usd_per_run for p in plans]),
        line(
            "USD per million tokens, estimated",
            [_money(plan, plan.usd_per_million_tokens) for plan in plans],
            [plan.usd_per_million_tokens for plan in plans],
            "main",
        ),
        line("prices as of", [str(plan.prices_as_of) for plan in plans]),
    ]
    quotas = sorted({quota for plan in plans for quota in plan.quota}, key=lambda quota: quota.key)
    for quota in quotas:
        uses = [sum(use.vcpu for use in plan.quota.get(quota, [])) for plan in plans]
        limits = [declared(plan.resolved, quota) for plan in plans]
        cells = [f"{n}" + (f" of {limit}" if limit is not None else "") for n, limit in zip(uses, limits, strict=True)]
        found.append(line(f"vCPU, {quota.code}", cells, uses))
    found.append(line("not estimated", [plan.not_estimated or "–" for plan in plans]))
    return found


def _where(plan: Plan) -> str:
    cluster = plan.resolved.cluster
    return f"{cluster.name}, {cluster.region}" if cluster and cluster.region else cluster.name if cluster else "–"


def _nodes(plan: Plan) -> str:
    return " + ".join(f"{g.nodes} × {g.type.name}" for g in plan.resolved.groups)


def _gpus(plan: Plan) -> str:
    return " + ".join(f"{g.nodes * g.gpus} × {g.type.gpu_model}" for g in plan.resolved.groups if g.gpus) or "none"


def _interfaces(plan: Plan) -> str:
    return ", ".join(dict.fromkeys(str(g.interfaces) for g in plan.resolved.groups))


def _transport(name: str) -> str:
    return "one node" if name == "none" else name.upper()


def _money(plan: Plan, value: float | None) -> str:
    return usd(value) + ("" if plan.cost.complete or value is None else " and what is unknown")
