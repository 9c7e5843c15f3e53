"""One plan as titled tables: the same content for text, Markdown and HTML."""

from __future__ import annotations

from generator.plan.network import SCHEMES
from generator.plan.plan import Plan
from generator.plan.quota import declared
from generator.plan.table import Row, Table
from generator.plan.units import cores, count, duration, gibibytes, gigabytes, seconds, span, usd

ASSUMED = "assumed: "
"""How a note begins that is an assumption of the estimate."""
PARTS = {
    "state": "weights, gradients, AdamW",
    "gathered": "units in flight, unsharded",
    "activations": "activations",
    "loss": "loss",
    "runtime": "CUDA, NCCL, allocator",
}
SHARDINGS = {
    "full": "all over all ranks",
    "zero2": "gathered weights stay until the step ends",
    "hsdp": "inside each node, replicated across",
    "hpz": "second copy inside each node",
}


def title(plan: Plan) -> str:
    """One line: what runs where."""
    resolved, cluster = plan.resolved, plan.resolved.cluster
    where = f"cluster {cluster.name}" + (f" in {cluster.region}" if cluster.region else "") if cluster else "no cluster"
    return (
        f"{plan.name}: {count(resolved.nodes, 'worker node')}, {count(resolved.gpus, 'GPU')}, "
        f"{count(resolved.world_size, 'rank')} ({where})"
    )


def training(plan: Plan) -> str:
    """What is trained, or why that is not known."""
    config = plan.config
    if config is None:
        return f"memory, network and speed are not estimated: {plan.not_estimated}"
    batch = config.batch
    return (
        f"preset {config.preset}: {count(config.schedule.steps, 'step')} of {batch.global_batch_size} sequences × "
        f"{batch.sequence_length} tokens, sharding {plan.network.chosen if plan.network else config.parallel.sharding}"
    )


def sections(plan: Plan) -> tuple[Table, ...]:
    """All tables of one plan; what is not estimated has none."""
    tables = (nodes(plan), fits(plan), memory(plan), traffic(plan), speed(plan), price(plan), quota(plan))
    return tuple(table for table in tables if table is not None)


def nodes(plan: Plan) -> Table:
    """What runs where."""
    rows = [
        Row(
            (
                g.name,
                f"{g.nodes} × {g.type.name}" + (f" in {g.zone}" if g.zone else ""),
                f"{g.gpus} × {g.type.gpu_model}" if g.gpus else "no GPU",
                count(g.interfaces, "EFA interface") if g.interfaces else "no EFA",
                count(g.processes, "rank"),
            )
        )
        for g in plan.resolved.groups
    ]
    head = plan.resolved.head
    if head.type is not None and plan.resolved.environment.has_pods:
        rows.append(Row(("head", f"1 pod on {head.type.name}", "", "", "the driver"), "minor"))
    return Table("Nodes", ("group", "nodes", "GPUs per node", "network", "per node"), tuple(rows))


def fits(plan: Plan) -> Table:
    """What each pod asks for of what its node leaves, and what the training needs of that."""
    rows = []
    for one in plan.fit:
        room, needed, disk = one.room, one.needed, one.disk
        rows.append(
            Row(
                (
                    one.name,
                    f"{cores(one.cpu_m)} of {cores(room.cpu_m) if room else '?'}",
                    f"{gibibytes(one.memory_mib)} of {gibibytes(room.memory_mib) if room else '?'}",
                    f"{needed.total / 2**30:.1f}" if needed else "–",
                    f"{disk.total / 2**30:.0f} of {disk.available / 2**30:.0f}" if disk else "–",
                    {True: "fits", False: "does not fit", None: "not known"}[one.fits],
                ),
                "bad" if one.fits is False else "",
            )
        )
    return Table(
        "Room: what each pod asks for, of what its node leaves for it; memory and disk in GiB",
        ("pod", "vCPU", "memory", "needed", "disk", ""),
        tuple(rows),
        frozenset({1, 2, 3, 4}),
    )


def memory(plan: Plan) -> Table | None:
    """GPU memory, part by part."""
    if not plan.memory:
        return None
    rows = []
    needed = plan.memory[0][1]  # the same on every group: all run equally many ranks per node
    for part, size in needed.parts.items():
        rows.append(Row((PARTS.get(part, part), gigabytes(size), f"{size / needed.total:.0%}")))
    for name, one in plan.memory:
        label = "in all" if len(plan.memory) == 1 else f"in all, on `{name}`"
        share = f"{one.share:.0%} of {gigabytes(one.available)}"
        rows.append(Row((label, gigabytes(one.total), share), "bad" if one.share > 1 else "main"))
    return Table(
        "Memory of each GPU, an upper bound",
        ("part", "needed", "share"),
        tuple(rows),
        frozenset({1, 2}),
    )


def traffic(plan: Plan) -> Table | None:
    """Each sharding: bytes and the step's time over EFA and TCP."""
    net, speed = plan.network, plan.estimate
    if net is None or speed is None:
        return None
    if net.transport == "none":
        return Table("Network", ("sharding", "per step"), (Row(("any", "one node: nothing crosses its network")),))
    rows = []
    for scheme in SCHEMES:
        steps = [seconds(speed.step(net.seconds(scheme, transport))) for transport in ("efa", "tcp")]
        chosen = scheme == net.chosen
        rows.append(
            Row(
                (scheme, SHARDINGS[scheme], gigabytes(net.nic_bytes(scheme)), *steps),
                "main" if chosen else "",
            )
        )
    rates = " and ".join(f"{rate / 1e9:g} Gbit/s over {name.upper()}" for name, rate in net.bits_per_second.items())
    return Table(
        "Sharding: bytes per network card and step, and the step's estimated time",
        ("sharding", "keeps its parts", "sent", "step, EFA", "step, TCP"),
        tuple(rows),
        frozenset({2, 3, 4}),
        (f"`{net.chosen}` over {net.transport.upper()} is this environment's; assumed are {rates}",),
    )


def speed(plan: Plan) -> Table | None:
    """Step time, tokens per second, price of tokens."""
    one = plan.estimate
    if one is None:
        return None
    slow = one.tokens / one.step_seconds_in_turn
    mfu = one.mfu * one.step_seconds / one.step_seconds_in_turn
    whole = one.steps * one.step_seconds, one.steps * one.step_seconds_in_turn
    rows = (
        Row(("computation per step", seconds(one.compute_seconds))),
        Row(("network per step", seconds(one.network_seconds))),
        Row(("step", span(seconds(one.step_seconds), seconds(one.step_seconds_in_turn)))),
        Row(("tokens per second", span(f"{slow:,.0f}", f"{one.tokens_per_second:,.0f}")), "main"),
        Row(("MFU", span(f"{mfu:.0%}", f"{one.mfu:.0%}"))),
        Row(
            (
                "USD per million tokens",
                span(usd(plan.usd_per_million_tokens), usd(plan.usd_per_million_tokens_in_turn)),
            )
        ),
        Row((count(one.steps, "step"), span(duration(whole[0]), duration(whole[1])))),
    )
    return Table(
        "Speed, estimated: nothing here was measured on these nodes",
        ("", "estimate"),
        rows,
        frozenset({1}),
        tuple(ASSUMED + text for text in one.assumptions),
    )


def price(plan: Plan) -> Table:
    """The components of the price per hour, and what they come to."""
    money = plan.cost
    rows = [
        Row(
            (
                c.name + (f" ({c.note})" if c.note else ""),
                "" if c.usd_per_hour_each is None else f"{c.quantity} × {c.usd_per_hour_each:.4f}",
                "unknown" if c.usd_per_hour is None else f"{c.usd_per_hour:9.4f}",
            ),
            "bad" if c.usd_per_hour is None else "",
        )
        for c in money.components
    ]
    more = "" if money.complete else " and what is unknown"
    rows.append(Row(("in all, per hour", "", f"{money.usd_per_hour:9.4f}{more}"), "main"))
    rows.append(Row(("per day", "24 hours", f"{plan.usd_per_day:,.2f}{more}")))
    if plan.usd_per_run is not None and plan.estimate is not None:
        run = span(usd(plan.usd_per_run), usd(plan.usd_per_run_in_turn))
        rows.append(Row(("per run, estimated", count(plan.estimate.steps, "step"), f"{run}{more}")))
    return Table(
        f"Price in USD, as of {plan.prices_as_of}", ("", "", "USD"), tuple(rows), frozenset({1, 2}), money.notes
    )


def quota(plan: Plan) -> Table | None:
    """vCPU of the account's quotas; nothing without nodes of EC2."""
    rows = []
    for one, uses in plan.quota.items():
        needed, limit = sum(use.vcpu for use in uses), declared(plan.resolved, one)
        sums = " + ".join(f"{use.nodes} × {use.vcpu_each}" for use in uses)
        told = "not declared" if limit is None else f"{limit:,}"
        rows.append(
            Row((one.name, one.code, sums, f"{needed:,}", told), "bad" if limit is not None and needed > limit else "")
        )
    if not rows:
        return None
    return Table(
        "Quota in vCPU, of this environment alone",
        ("quota", "code", "nodes × vCPU", "needed", "declared"),
        tuple(rows),
        frozenset({2, 3, 4}),
    )
