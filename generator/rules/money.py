"""Quotas and reservations (8xx)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from generator.diagnostics.finding import Finding
from generator.resolve import Group
from generator.rules.context import Context

# "cr-" and 17 hex digits; ids from before 2016's longer form had 8. Capacity Blocks have the same form.
_RESERVATION = re.compile(r"cr-([0-9a-f]{17}|[0-9a-f]{8})")


def g_and_vt_quota(ctx: Context) -> Iterator[Finding]:
    """Quota L-DB2E81BA counts vCPU of running on-demand G and VT instances. Spot has a quota of its own."""
    limit = ctx.environment.policy.quota.g_and_vt_vcpu
    if limit is None:
        return
    counted = [g for g, _ in ctx.groups() if _counts(g)]
    # eksctl starts the node groups of all environments of the cluster, so they share the account's quota.
    beside = [(r, g) for r in ctx.neighbours() for g in r.groups if _counts(g)]
    needed = sum(g.nodes * g.type.vcpu for g in [*counted, *(g for _, g in beside)])
    if not counted or needed <= limit:
        return
    largest = max(counted, key=lambda g: g.nodes * g.type.vcpu)
    others = needed - largest.nodes * largest.type.vcpu
    fits = max(0, (limit - others) // largest.type.vcpu)
    nodes = sum(g.nodes for g in [*counted, *(g for _, g in beside)])
    names = sorted({r.environment.name for r, _ in beside})
    advice = (
        f"set workers.{largest.name}.nodes to {fits} or less, or raise" if fits else "raise the quota at AWS, and then"
    )
    yield ctx.in_environment(
        "RTD801",
        "workers",
        largest.name,
        "nodes",
        message=f"{nodes} node{'s' if nodes > 1 else ''} need {needed} vCPU of the G and VT quota, above the {limit} that this environment declares",
        label=f"{largest.nodes} × {largest.type.name} ({largest.type.vcpu} vCPU)",
        notes=(
            "quota L-DB2E81BA counts vCPU of running on-demand G and VT instances",
            *([f"nodes of {', '.join(names)}, on the same cluster, are counted"] if names else []),
        ),
        help=f"{advice} policy.quota.gAndVtVcpu",
    )


def _counts(group: Group) -> bool:
    return group.type.quota_family == "gAndVt" and group.capacity.kind != "spot"


def reservation_id(ctx: Context) -> Iterator[Finding]:
    for name, group in ctx.environment.workers.items():
        capacity = group.capacity
        reserved = capacity.kind in ("reservation", "capacityBlock")
        if reserved and not _RESERVATION.fullmatch(capacity.id):
            yield ctx.in_environment(
                "RTD802",
                "workers",
                name,
                "capacity",
                "id",
                on_key=not capacity.id,
                message=f"`{capacity.id}` is not the id of a capacity reservation"
                if capacity.id
                else f"capacity.kind {capacity.kind} needs an id",
                help="write cr- and 17 hex digits, as the EC2 console shows it",
                notes=("eksctl accepts any text here, and the nodes would then be bought on demand",),
            )
        elif capacity.id and not reserved:
            yield ctx.in_environment(
                "RTD803",
                "workers",
                name,
                "capacity",
                "id",
                message=f"an id is given, but capacity.kind is {capacity.kind}",
                help="set kind to reservation or capacityBlock, or remove the id",
            )


RULES = (g_and_vt_quota, reservation_id)
