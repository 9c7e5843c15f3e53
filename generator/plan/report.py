"""The plan as JSON (`plan.schema.json`). Keys are additions-only: none is renamed or removed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from generator.plan.estimate import Estimate
from generator.plan.fit import Fit
from generator.plan.memory import Memory
from generator.plan.network import SCHEMES, TRANSPORTS, Network
from generator.plan.plan import Plan
from generator.plan.quota import declared
from generator.plan.why import Reason
from generator.resolve import memory_text

SCHEMA = Path(__file__).with_name("plan.schema.json")


def as_json(plan: Plan, reasons: Sequence[Reason] = ()) -> dict[str, Any]:
    """One plan as plain values. Amounts are in USD, times in seconds, sizes in bytes unless a key says otherwise."""
    resolved = plan.resolved
    cluster = resolved.cluster
    found: dict[str, Any] = {
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
        "fit": {
            "fits": all(one.fits is not False for one in plan.fit),
            "pods": {one.name: _fit(one) for one in plan.fit},
        },
        "notEstimated": plan.not_estimated or None,
        "memory": _memory(plan),
        "network": None if plan.network is None or plan.estimate is None else _network(plan.network, plan.estimate),
        "estimate": None if plan.estimate is None else _estimate(plan, plan.estimate),
        "cost": _cost(plan),
        "quota": {
            quota.key.removesuffix("Vcpu"): {
                "code": quota.code,
                "vcpu": sum(use.vcpu for use in uses),
                "declared": declared(resolved, quota),
            }
            for quota, uses in plan.quota.items()
        },
        "hints": list(plan.hints),
    }
    if reasons:
        found["why"] = [dataclasses.asdict(one) for one in reasons]
    return found


def _fit(one: Fit) -> dict[str, Any]:
    room = one.room
    return {
        "instanceType": one.instance_type or None,
        "pods": one.pods,
        "fits": one.fits,
        "cpu": {"asked": one.cpu_m / 1000, "room": room.cpu_m / 1000 if room else None},
        "memoryMiB": {"asked": one.memory_mib, "room": room.memory_mib if room else None},
        "gpus": {"asked": one.gpus, "room": room.gpus if room else None},
        "efaInterfaces": {"asked": one.interfaces, "room": room.interfaces if room else None},
        "neededBytes": None if one.needed is None else one.needed.total,
        "diskBytes": None if one.disk is None else {"needed": one.disk.total, "room": one.disk.available},
        "notes": list(room.notes) if room else [],
    }


def _memory(plan: Plan) -> dict[str, Any] | None:
    """The group whose GPUs are fullest decides."""
    if not plan.memory:
        return None
    name, fullest = max(plan.memory, key=lambda found: found[1].share)
    return {
        "perGpuBytes": fullest.total,
        "parts": dict(fullest.parts),
        "availableBytes": fullest.available,
        "group": name,
        "groups": {group: _gpu(memory) for group, memory in plan.memory},
    }


def _gpu(memory: Memory) -> dict[str, Any]:
    return {"perGpuBytes": memory.total, "availableBytes": memory.available, "share": round(memory.share, 4)}


def _network(net: Network, speed: Estimate) -> dict[str, Any]:
    def times(scheme: str) -> dict[str, dict[str, float | None]]:
        wire = {transport: net.seconds(scheme, transport) for transport in TRANSPORTS}
        if net.transport == "none":
            wire = dict.fromkeys(TRANSPORTS, 0.0)
        return {
            "secondsPerStep": {t: _rounded(speed.step(s), 4) for t, s in wire.items()},
            "networkSecondsPerStep": {t: _rounded(s, 4) for t, s in wire.items()},
        }

    return {
        "sharding": net.chosen,
        "transport": net.transport,
        "cards": net.cards.get(net.transport, 0),
        "assumedGbps": {transport: _rate(net, transport) for transport in TRANSPORTS},
        "schemes": {
            scheme: {
                "bytesPerNicPerStep": round(net.nic_bytes(scheme)),
                "bytesPerNodePerStep": round(net.node_bytes[scheme]),
                **times(scheme),
            }
            for scheme in SCHEMES
        },
    }


def _rate(net: Network, transport: str) -> float | None:
    rate = net.bits_per_second.get(transport)
    return None if rate is None else round(rate / 1e9, 3)


def _estimate(plan: Plan, one: Estimate) -> dict[str, Any]:
    return {
        "sharding": plan.network.chosen if plan.network else None,
        "transport": plan.network.transport if plan.network else None,
        "tokensPerStep": one.tokens,
        "steps": one.steps,
        "computeSecondsPerStep": round(one.compute_seconds, 4),
        "networkSecondsPerStep": round(one.network_seconds, 4),
        "secondsPerStep": round(one.step_seconds, 4),
        "secondsPerStepWithoutOverlap": round(one.step_seconds_in_turn, 4),
        "tokensPerSecond": round(one.tokens_per_second),
        "mfu": round(one.mfu, 4),
        "peakConfidence": one.gpu.confidence,
        "hours": round(one.steps * one.step_seconds / 3600, 3),
        "usdPerMillionTokens": _rounded(plan.usd_per_million_tokens, 4),
        "usdPerMillionTokensWithoutOverlap": _rounded(plan.usd_per_million_tokens_in_turn, 4),
        "assumptions": list(one.assumptions),
    }


def _cost(plan: Plan) -> dict[str, Any]:
    money = plan.cost
    return {
        "currency": "USD",
        "usdPerHour": round(money.usd_per_hour, 4),
        "usdPerDay": round(plan.usd_per_day, 2),
        "usdPerRun": _rounded(plan.usd_per_run, 2),
        "usdPerRunWithoutOverlap": _rounded(plan.usd_per_run_in_turn, 2),
        "complete": money.complete,
        "asOf": money.as_of,
        "ageDays": plan.prices_age_days,
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


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def dump(plans: list[dict[str, Any]]) -> str:
    """One plan as an object, several as a list."""
    return json.dumps(plans[0] if len(plans) == 1 else plans, indent=2, ensure_ascii=False) + "\n"
