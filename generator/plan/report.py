"""The plan as text and JSON. JSON keys are additions-only: no key is renamed or removed."""

from __future__ import annotations

import json
from typing import Any

from generator.plan.cost import Cost, cost
from generator.resolve import Resolved, memory_text


def as_json(resolved: Resolved) -> dict[str, Any]:
    """The plan of one environment as plain values; amounts in USD per hour."""
    money = cost(resolved)
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
        "cost": _cost_json(money),
    }


def _cost_json(money: Cost) -> dict[str, Any]:
    return {
        "currency": "USD",
        "usdPerHour": round(money.usd_per_hour, 4),
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
    width = max(len(c.name) for c in money.components)
    for c in money.components:
        amount = "unknown" if c.usd_per_hour is None else f"{c.usd_per_hour:9.4f}"
        each = "" if c.usd_per_hour_each is None else f"{c.quantity} × {c.usd_per_hour_each:.4f}"
        out.append(f"  {c.name:<{width}}  {amount:>9} USD/h  {each}{f'  ({c.note})' if c.note else ''}")
    total = f"{money.usd_per_hour:9.4f}" if money.complete else f"{money.usd_per_hour:9.4f} and what is unknown"
    out += [f"  {'in all':<{width}}  {total} USD/h  prices as of {money.as_of}", ""]
    out += [f"  note: {note}" for note in money.notes]
    return "\n".join(out) + "\n"


def dump(plans: list[dict[str, Any]]) -> str:
    """One plan as an object, several as a list."""
    return json.dumps(plans[0] if len(plans) == 1 else plans, indent=2, ensure_ascii=False) + "\n"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
