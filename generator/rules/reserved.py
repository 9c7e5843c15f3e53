"""Capacity reservations and Capacity Blocks (8xx). Blocks: Amazon EC2 user guide, "Capacity Blocks for ML"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from generator.diagnostics.finding import Finding, Severity
from generator.model.environment import Capacity
from generator.rules.context import Context

# "cr-" and 17 hex digits; ids from before 2016's longer form had 8. Capacity Blocks have the same form.
_RESERVATION = re.compile(r"cr-([0-9a-f]{17}|[0-9a-f]{8})")
_BLOCK_MAX = 64  # instances of one block
_BLOCK_DAYS = (*range(1, 15), *range(21, 183, 7))  # days up to two weeks, then weeks up to 26


def _groups(ctx: Context) -> Iterator[tuple[str, Capacity, bool]]:
    """(group, what its owner wrote, whether its capacity is reserved)."""
    for name, group in ctx.environment.workers.items():
        yield name, group.capacity, group.capacity.kind in ("reservation", "capacityBlock")


def reservation_id(ctx: Context) -> Iterator[Finding]:
    for name, capacity, reserved in _groups(ctx):
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
        if reserved:
            continue
        given = (
            ("id", capacity.id),
            ("instances", capacity.instances),
            ("start", capacity.start),
            ("end", capacity.end),
        )
        for key, value in given:
            if value:
                yield ctx.in_environment(
                    "RTD803",
                    "workers",
                    name,
                    "capacity",
                    key,
                    message=f"`{key}` is given, but capacity.kind is {capacity.kind}",
                    help=f"set kind to reservation or capacityBlock, or remove {key}",
                )


def enough_instances(ctx: Context) -> Iterator[Finding]:
    """Groups and environments that name the same reservation share its instances."""
    users: dict[str, int] = {}
    for resolved in (ctx.resolved, *ctx.neighbours):
        for group in resolved.groups:
            if group.capacity.id:
                users[group.capacity.id] = users.get(group.capacity.id, 0) + group.nodes
    for name, capacity, reserved in _groups(ctx):
        has, wanted = capacity.instances, users.get(capacity.id, 0)
        if reserved and has is not None and wanted > has:
            yield ctx.in_environment(
                "RTD810",
                "workers",
                name,
                "capacity",
                "instances",
                message=f"{wanted} nodes are to come out of {capacity.id}, which has {has} instance{'s' if has > 1 else ''}",
                notes=("all groups on the cluster that name this reservation are counted",),
                help="lower the number of nodes, or name another reservation",
            )


def block_type(ctx: Context) -> Iterator[Finding]:
    for group, written in ctx.groups():
        if written.capacity.kind != "capacityBlock":
            continue
        if group.type.capacity_block_usd_per_hour is None:
            yield ctx.in_environment(
                "RTD809",
                "workers",
                group.name,
                "capacity",
                "kind",
                message=f"AWS sells no Capacity Blocks of {group.type.name}, as far as the catalogue knows",
                help="choose another kind of capacity, or a P type",
            )
        if written.nodes > _BLOCK_MAX:
            yield ctx.in_environment(
                "RTD809",
                "workers",
                group.name,
                "nodes",
                message=f"{written.nodes} nodes cannot come out of one Capacity Block, which has at most {_BLOCK_MAX} instances",
                help="split the group in two, each with a block of its own",
            )


def days(ctx: Context) -> Iterator[Finding]:
    for name, capacity, reserved in _groups(ctx):
        if not reserved:
            continue
        start, end = _day(capacity.start), _day(capacity.end)
        for key, text, day in (("start", capacity.start, start), ("end", capacity.end, end)):
            if text and day is None:
                yield _at(ctx, name, key, f"{text} is not a day of the calendar", "correct the date")
        if end is not None and end < ctx.today:
            yield _at(ctx, name, "end", f"{capacity.id} ended on {end}", "name a reservation that is still there")
        elif start is not None and end is not None and end <= start:
            yield _at(ctx, name, "end", f"{capacity.id} ends on {end}, and starts on {start}", "correct the dates")
        elif start and end and capacity.kind == "capacityBlock" and (end - start).days not in _BLOCK_DAYS:
            text = f"no Capacity Block lasts {(end - start).days} days"
            yield _at(ctx, name, "end", text, "blocks last 1 to 14 days, or 3 to 26 weeks; correct the dates")
        if start is not None and start > ctx.today and (end is None or end > start):
            yield _at(
                ctx,
                name,
                "start",
                f"{capacity.id} starts on {start}, in {(start - ctx.today).days} days: until then no node comes up",
                "make the node group on that day",
                Severity.WARNING,
            )


def _at(ctx: Context, name: str, key: str, message: str, help: str, severity: Severity = Severity.ERROR) -> Finding:
    path = ("workers", name, "capacity", key)
    return ctx.in_environment("RTD807", *path, message=message, help=help, severity=severity)


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        return None


RULES = (reservation_id, enough_instances, block_type, days)
