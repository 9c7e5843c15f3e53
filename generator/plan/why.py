"""For each number of a plan: its formula with the values put in, and where they come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from generator.catalog import prices
from generator.catalog.gpus import assumption
from generator.plan.network import SCHEMES
from generator.plan.plan import Plan
from generator.plan.quota import declared
from generator.plan.units import count, gibibytes, gigabytes, seconds, span, usd
from training.sizes import STATE_BYTES_PER_PARAMETER, parameter_count

_SIZES = "training/sizes.py"
_CATALOG = "generator/catalog"


@dataclass(frozen=True, slots=True)
class Reason:
    """One number."""

    name: str
    value: str
    formula: str
    source: str


def why(plan: Plan) -> tuple[Reason, ...]:
    """The reasons of all numbers, in the order in which the plan shows them."""
    return (*_nodes(plan), *_fit(plan), *_memory(plan), *_network(plan), *_estimate(plan), *_cost(plan), *_quota(plan))


def _nodes(plan: Plan) -> Iterator[Reason]:
    groups, file = plan.resolved.groups, f"environments/{plan.name}/environment.yaml"
    yield Reason("nodes", str(plan.resolved.nodes), " + ".join(str(g.nodes) for g in groups), f"{file}, workers")
    gpus = " + ".join(f"{g.nodes} × {g.gpus}" for g in groups)
    yield Reason("GPUs", str(plan.resolved.gpus), gpus, f"gpusPerNode, else {_CATALOG}/instances.csv, accel_count")
    ranks = " + ".join(f"{g.nodes} × {g.processes}" for g in groups)
    yield Reason("ranks", str(plan.resolved.world_size), ranks, "one for each GPU, else processesPerNode")


def _fit(plan: Plan) -> Iterator[Reason]:
    for one in plan.fit:
        if one.room is None:
            continue
        left = f"{one.room.cpu_m}m CPU, {gibibytes(one.room.memory_mib)} GiB"
        source = f"{_CATALOG}/instances.csv and pods.csv"
        yield Reason(f"room for the pod of `{one.name}`", left, "; ".join(one.room.notes), source)
        for what, memory, module in (
            ("memory that the training needs", one.needed, "host"),
            ("written to the disk", one.disk, "disk"),
        ):
            if memory is not None:
                parts = " + ".join(f"{size / 2**30:.1f} ({name})" for name, size in memory.parts.items())
                total = f"{memory.total / 2**30:.1f} GiB"
                yield Reason(f"{what}, `{one.name}`", total, parts, f"generator/plan/{module}.py")


def _memory(plan: Plan) -> Iterator[Reason]:
    config = plan.config
    if config is None or not plan.memory:
        return
    needed = plan.memory[0][1]
    parameters = parameter_count(config.model)
    each = STATE_BYTES_PER_PARAMETER[config.parallel.precision]
    shards = round(parameters * each / needed.parts["state"])
    yield Reason("parameters", f"{parameters:,}", f"preset {config.preset}", f"{_SIZES}, parameter_count")
    formulae = {
        "state": f"{parameters:,} × {each} B ÷ {count(shards, 'shard')}",
        "gathered": "three layers with the gradient of one, the tail with its gradient, and copies that last",
        "activations": "tokens of one pass × (8 × intermediate + 20.7 × hidden) B of each layer that keeps them",
        "loss": "12 B × vocabulary × rows of one chunk + gradient of the output layer",
        "runtime": "a constant",
    }
    for name, size in needed.parts.items():
        yield Reason(f"GPU memory, {name}", gigabytes(size), formulae.get(name, ""), f"{_SIZES}, gpu_memory")
    for name, one in plan.memory:
        share = f"{gigabytes(one.total)} ÷ {gigabytes(one.available)}"
        source = f"{_CATALOG}/instances.csv, accel_mem_mib_each"
        yield Reason(f"share of a GPU's memory, `{name}`", f"{one.share:.0%}", share, source)


def _network(plan: Plan) -> Iterator[Reason]:
    net, config, speed = plan.network, plan.config, plan.estimate
    if net is None or config is None or speed is None or net.transport == "none":
        return
    nodes, ranks = plan.resolved.nodes, plan.resolved.world_size
    ring = f"({ranks} − 1)/{ranks}"
    passes = f"{speed.passes} × " if speed.passes > 1 else ""
    formulae = {
        "full": f"{ring} × {passes}(2 weights − root unit + gradients)",
        "zero2": f"{ring} × (weights + {passes}gradients)",
        "hsdp": f"2 ({nodes} − 1)/{nodes} × gradients",
        "hpz": f"{ring} × {passes}(weights + gradients)",
    }
    cards = net.cards[net.transport]
    for scheme in SCHEMES:
        formula = formulae[scheme] + (f" ÷ {cards} cards" if cards > 1 else "")
        yield Reason(
            f"sent per network card, {scheme}",
            gigabytes(net.nic_bytes(scheme)),
            formula,
            f"{_SIZES}, nic_bytes_per_step",
        )
    for transport, rate in net.bits_per_second.items():
        share = assumption(f"{transport}_share")
        wide = f"{rate / share.value / 1e9:g} Gbit/s"
        yield Reason(
            f"assumed rate over {transport.upper()}", f"{rate / 1e9:g} Gbit/s", f"{wide} × {share.value:g}",
            f"{_CATALOG}/instances.csv, network_gbps; assumptions.csv ({share.as_of}): {share.source}",
        )  # fmt: skip


def _estimate(plan: Plan) -> Iterator[Reason]:
    one, net = plan.estimate, plan.network
    if one is None or net is None:
        return
    again = f" × {one.recomputed:.3f} for recomputed layers" if one.recomputed > 1 else ""
    yield Reason(
        "FLOPs per token", f"{one.flops_per_token / 1e9:.2f} GFLOP", "6 N + 6 × layers × hidden × sequence length",
        f"{_SIZES}, flops_per_token",
    )  # fmt: skip
    yield Reason(
        "computation per step", seconds(one.compute_seconds),
        f"{one.tokens:,} tokens ÷ {one.ranks} ranks × {one.flops_per_token / 1e9:.2f} GFLOP{again} ÷ "
        f"({one.gpu.flops / 1e12:g} TFLOP/s × {one.share.value:g})"
        + (f", at least {seconds(one.launch_seconds)} to start kernels" if one.launch_seconds else ""),
        f"{_CATALOG}/gpus.csv, {one.gpu.model}, confidence {one.gpu.confidence} ({one.gpu.source}); "
        f"assumptions.csv ({one.share.as_of}): {one.share.source}",
    )  # fmt: skip
    if net.transport != "none":
        rate = net.bits_per_second[net.transport]
        yield Reason(
            "network per step", seconds(one.network_seconds),
            f"{gigabytes(net.node_bytes[net.chosen])} × 8 ÷ {rate / 1e9:g} Gbit/s", "generator/plan/network.py",
        )  # fmt: skip
    yield Reason(
        "step", span(seconds(one.step_seconds), seconds(one.step_seconds_in_turn)),
        f"the longer of {seconds(one.compute_seconds)} and {seconds(one.network_seconds)}, to their sum",
        "generator/plan/estimate.py",
    )  # fmt: skip
    yield Reason(
        "tokens per second, at most", f"{one.tokens_per_second:,.0f}",
        f"{one.tokens:,} ÷ {seconds(one.step_seconds)}", "generator/plan/estimate.py",
    )  # fmt: skip
    yield Reason(
        "MFU, at most", f"{one.mfu:.1%}",
        f"{one.tokens_per_second:,.0f} tokens/s × {one.flops_per_token / 1e9:.2f} GFLOP ÷ "
        f"({one.ranks} × {one.gpu.flops / 1e12:g} TFLOP/s)", "generator/plan/estimate.py",
    )  # fmt: skip
    if plan.usd_per_million_tokens is None:
        return
    yield Reason(
        "USD per million tokens, at least", usd(plan.usd_per_million_tokens),
        f"{plan.cost.usd_per_hour:.4f} USD/h × 1,000,000 ÷ ({one.tokens_per_second:,.0f} tokens/s × 3600 s)",
        "generator/plan/plan.py",
    )  # fmt: skip


def _cost(plan: Plan) -> Iterator[Reason]:
    money, one = plan.cost, plan.estimate
    for c in money.components:
        each = "no price in the catalogue" if c.usd_per_hour_each is None else f"{c.quantity} × {c.usd_per_hour_each:g}"
        hour = "unknown" if c.usd_per_hour is None else f"{c.usd_per_hour:.4f} USD/h"
        yield Reason(c.name, hour, each, _priced(c.name, c.note))
    known = " + ".join(f"{c.usd_per_hour:g}" for c in money.components if c.usd_per_hour is not None)
    yield Reason("USD per hour", f"{money.usd_per_hour:.4f}", known or "; ".join(money.notes), "generator/plan/cost.py")
    yield Reason("USD per day", usd(plan.usd_per_day), f"24 × {money.usd_per_hour:.4f}", "generator/plan/plan.py")
    if one is not None and plan.usd_per_run is not None:
        yield Reason(
            "USD per run, at least", usd(plan.usd_per_run),
            f"{money.usd_per_hour:.4f} × {one.steps} steps × {seconds(one.step_seconds)} ÷ 3600 s",
            "generator/plan/plan.py",
        )  # fmt: skip


def _priced(name: str, note: str) -> str:
    """The catalogue's row of a component, and its date."""
    if name.startswith("workers") or name.startswith("system nodes"):
        if note.startswith("this machine"):
            return "this machine costs nothing"
        item = "capacity_blocks" if note.startswith("Capacity Block") else "instances"
        return f"{_CATALOG}/instances.csv, {name.rsplit(', ', 1)[-1]}, as of {prices()[item].as_of}"
    item = "nat_gateway" if name == "NAT gateway" else "eks_control_plane"
    item += "_extended" if note.startswith("extended support") else ""
    return f"{_CATALOG}/prices.csv, {item}, as of {prices()[item].as_of}"


def _quota(plan: Plan) -> Iterator[Reason]:
    for one, uses in plan.quota.items():
        sums = " + ".join(f"{use.nodes} × {use.vcpu_each} ({use.instance_type})" for use in uses)
        limit = declared(plan.resolved, one)
        told = f"policy.quota.{one.key} is {limit}" if limit is not None else f"policy.quota.{one.key} is not set"
        yield Reason(
            f"vCPU of quota {one.code}", str(sum(use.vcpu for use in uses)), sums,
            f"{_CATALOG}/instances.csv, vcpu; quotas.csv; {told}",
        )  # fmt: skip
