"""The plan as text and JSON. JSON keys are additions-only: no key is renamed or removed."""

from __future__ import annotations

import json
from typing import Any

from generator.plan.cost import Cost, cost
from generator.plan.estimate import Estimate, estimate
from generator.plan.memory import gpu_memory
from generator.plan.quota import declared, usage
from generator.resolve import Resolved, memory_text


def as_json(resolved: Resolved) -> dict[str, Any]:
    """The plan of one environment as plain values; amounts in USD per hour."""
    money = cost(resolved)
    expected = estimate(resolved, money)
    cluster = resolved.cluster
    return {
        "version": 1,
        "environment": resolved.environment.name,
        "cluster": cluster.name if cluster else None,
        "region": cluster.region if cluster else None,
        "nodes": {
            "workers": resolved.nodes,
            "system": cluster.system_nodes.count if cluster else None,
            "groups": {
                g.name: {
                    "instanceType": g.type.name,
                    "nodes": g.nodes,
                    "gpusPerNode": g.gpus,
                    "gpu": g.type.gpu_model,
                    "ranksPerNode": g.processes,
                    "efaInterfacesPerNode": g.interfaces,
                    "availabilityZone": g.zone,
                    "cpuPerPod": g.cpu,
                    "memoryPerPod": memory_text(g.memory_mib),
                }
                for g in resolved.groups
            },
        },
        "gpus": resolved.gpus,
        "ranks": resolved.world_size,
        "preset": resolved.environment.training.preset,
        "cost": _cost_json(money, expected),
        "quota": {
            quota.key.removesuffix("Vcpu"): {
                "code": quota.code,
                "vcpu": sum(use.vcpu for use in uses),
                "declared": declared(resolved, quota),
            }
            for quota, uses in usage(resolved).items()
        },
        "memory": _memory_json(resolved),
        "network": None if expected is None else {"schemes": _schemes_json(expected)},
        "estimate": None if expected is None else _estimate_json(expected),
    }


def _memory_json(resolved: Resolved) -> dict[str, Any] | None:
    """The group whose GPUs are fullest decides."""
    found = [memory for _, memory in gpu_memory(resolved)]
    if not found:
        return None
    fullest = max(found, key=lambda memory: memory.share)
    return {"perGpuBytes": fullest.total, "parts": dict(fullest.parts), "availableBytes": fullest.available}


def _schemes_json(expected: Estimate) -> dict[str, Any]:
    return {
        name: {
            "bytesPerNicPerStep": round(scheme.bytes_per_nic),
            "secondsPerStep": {transport: round(scheme.seconds(transport), 4) for transport in ("efa", "tcp")},
        }
        for name, scheme in expected.schemes.items()
    }


def _estimate_json(expected: Estimate) -> dict[str, Any]:
    million = expected.usd_per_million_tokens
    return {
        "sharding": expected.scheme,
        "transport": expected.transport,
        "tokensPerStep": expected.tokens_per_step,
        "secondsPerStep": round(expected.seconds_per_step, 4),
        "tokensPerSecond": round(expected.tokens_per_second),
        "mfu": round(expected.mfu, 4),
        "hours": round(expected.hours, 3),
        "usdPerMillionTokens": None if million is None else round(million, 4),
        "assumptions": list(expected.assumptions),
    }


def _cost_json(money: Cost, expected: Estimate | None) -> dict[str, Any]:
    run = None if expected is None else expected.usd_per_run
    return {
        "currency": "USD",
        "usdPerHour": round(money.usd_per_hour, 4),
        "usdPerDay": round(24 * money.usd_per_hour, 2),
        "usdPerRun": None if run is None else round(run, 2),
        "complete": money.complete,
        "asOf": money.as_of,
        "components": [
            {
                "name": c.name,
                "quantity": c.quantity,
                "usdPerHourEach": c.usd_per_hour_each,
                "usdPerHour": None if c.usd_per_hour is None else round(c.usd_per_hour, 4),
                "note": c.note,
            }
            for c in money.components
        ],
        "notes": list(money.notes),
    }


def as_text(resolved: Resolved) -> str:
    """The plan for people: what runs where, and the price with its parts."""
    money = cost(resolved)
    cluster = resolved.cluster
    where = f"cluster {cluster.name}" + (f" in {cluster.region}" if cluster.region else "") if cluster else "no cluster"
    out = [
        f"{resolved.environment.name}: {_count(resolved.nodes, 'worker node')}, {_count(resolved.gpus, 'GPU')}, "
        f"{_count(resolved.world_size, 'rank')} ({where})",
        "",
    ]
    for g in resolved.groups:
        gpus = f"{g.gpus} × {g.type.gpu_model}" if g.gpus else "no GPU"
        network = f"{g.interfaces} EFA interface{'s' if g.interfaces > 1 else ''}" if g.interfaces else "no EFA"
        zone = f" in {g.zone}" if g.zone else ""
        out.append(
            f"  {g.name}: {g.nodes} × {g.type.name}{zone}: {gpus}, {network}, {_count(g.processes, 'rank')} per node"
        )
        out.append(f"  {' ' * len(g.name)}  each pod: cpu {g.cpu}, memory {memory_text(g.memory_mib)}")
    head = resolved.head
    on = f" on {head.type.name}" if head.type else ""
    out += [f"  head{on}: cpu {head.cpu}, memory {memory_text(head.memory_mib)}", ""]
    width = max((len(c.name) for c in money.components), default=0)
    for c in money.components:
        amount = "unknown" if c.usd_per_hour is None else f"{c.usd_per_hour:9.4f}"
        each = "" if c.usd_per_hour_each is None else f"{c.quantity} × {c.usd_per_hour_each:.4f}"
        out.append(f"  {c.name:<{width}}  {amount:>9} USD/h  {each}{f'  ({c.note})' if c.note else ''}")
    total = f"{money.usd_per_hour:9.4f}" if money.complete else f"{money.usd_per_hour:9.4f} and what is unknown"
    out += [f"  {'in all':<{width}}  {total} USD/h  prices as of {money.as_of}", ""]
    out += _expected_text(resolved, money)
    out += [f"  note: {note}" for note in money.notes]
    return "\n".join(out) + "\n"


def _expected_text(resolved: Resolved, money: Cost) -> list[str]:
    """Memory of a GPU, the ways to shard, and what the run would take: an estimate, with its assumptions."""
    out = []
    for name, memory in gpu_memory(resolved):
        parts = ", ".join(f"{part} {size / 1e9:.1f}" for part, size in memory.parts.items())
        out.append(f"  each GPU of {name}: {memory.total / 1e9:.1f} of {memory.available / 1e9:.1f} GB ({parts})")
    expected = estimate(resolved, money)
    if expected is None:
        return [*out, ""] if out else []
    if resolved.nodes > 1:
        out += ["", "  sharding  GB per interface and step  s per step: EFA    TCP"]
        for name, scheme in expected.schemes.items():
            mark = "*" if name == expected.scheme else " "
            seconds = f"{scheme.seconds('efa'):9.2f}{scheme.seconds('tcp'):9.2f}"
            out.append(f"  {name:<6}{mark}   {scheme.bytes_per_nic / 1e9:22.2f}  {seconds}")
    million, run = expected.usd_per_million_tokens, expected.usd_per_run
    price = "" if million is None or run is None else f", {million:.3f} USD per million tokens, {run:.2f} USD"
    out += [
        "",
        f"  estimate: {expected.tokens_per_second:,.0f} tokens/s (MFU {expected.mfu:.0%})"
        f"{f' over {expected.transport.upper()}' if resolved.nodes > 1 else ''}; "
        f"{expected.steps:,} steps in {expected.hours:.2f} h{price}",
        *(f"    assuming: {text}" for text in expected.assumptions),
        "",
    ]
    return out


def dump(plans: list[dict[str, Any]]) -> str:
    """One plan as an object, several as a list."""
    return json.dumps(plans[0] if len(plans) == 1 else plans, indent=2, ensure_ascii=False) + "\n"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
