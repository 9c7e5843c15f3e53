"""Bytes, time and price of a training step: an estimate, and what it assumes.

Bytes are those of `training/sizes.py`. Computing takes FLOPs ÷ (GPUs × peak × assumed MFU), the network bytes ÷ (rate
of the node × assumed share of it); the two overlap, so a step takes the longer of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from generator.catalog import peaks
from generator.plan.cost import Cost
from generator.plan.memory import training_config
from generator.resolve import Resolved
from training import sizes
from training.config import Config

SCHEMES = ("full", "zero2", "hsdp", "hpz")
MFU = 0.33
"""Share of the GPU's peak: 32 to 38 % were measured on one H200 (docs/results/one-gpu-2026-12-03.md)."""
EFA_SHARE = 0.8
"""Share of the rated bandwidth that EFA carries: above 30 of 40 Gbit/s are expected. Not measured here."""
TCP_SHARE, TCP_GBPS = 0.5, 20.0
"""Share of the rated bandwidth that NCCL's sockets carry, and the most: flows of EC2 have limits. Not measured here."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """One way to shard. Bytes go out of each network interface in each optimiser step; times are seconds per step."""

    bytes_per_nic: float
    compute_s: float
    network_s: Mapping[str, float]

    def seconds(self, transport: str) -> float:
        """Of a step over `efa` or `tcp`."""
        return max(self.compute_s, self.network_s[transport])


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a training would do. `scheme` and `transport` are those of the environment."""

    schemes: Mapping[str, Scheme]
    scheme: str
    transport: str
    steps: int
    tokens_per_step: int
    flops_per_token: float
    peak_tflops: float
    gbps: float
    usd_per_hour: float | None
    assumptions: tuple[str, ...]

    @property
    def seconds_per_step(self) -> float:
        return self.schemes[self.scheme].seconds(self.transport)

    @property
    def tokens_per_second(self) -> float:
        return self.tokens_per_step / self.seconds_per_step

    @property
    def mfu(self) -> float:
        """Tokens per second × FLOPs per token ÷ peak of all GPUs; waiting for the network counts against it."""
        return self.tokens_per_second * self.flops_per_token / (self.peak_tflops * 1e12)

    @property
    def hours(self) -> float:
        """Of all steps, without start, checkpoints and validation."""
        return self.steps * self.seconds_per_step / 3600

    @property
    def usd_per_million_tokens(self) -> float | None:
        return None if self.usd_per_hour is None else self.usd_per_hour / (self.tokens_per_second * 3600 / 1e6)

    @property
    def usd_per_run(self) -> float | None:
        return None if self.usd_per_hour is None else self.usd_per_hour * self.hours


def estimate(resolved: Resolved, money: Cost) -> Estimate | None:
    """The estimate of one environment; None where it does not train on GPUs whose peak is known, with our own loop."""
    config = training_config(resolved)
    known = [peaks().get(group.type.family) for group in resolved.groups]
    rates = [peak for peak in known if peak is not None]
    if config is None or config.parallel.device == "cpu" or not resolved.gpus or len(rates) != len(known):
        return None
    nodes, processes = resolved.nodes, resolved.groups[0].processes
    # Every step waits for the slowest rank.
    slowest = min(rates, key=lambda peak: peak.tflops)
    peak = slowest.tflops * resolved.world_size
    gbps = min(group.type.network_gbps for group in resolved.groups)
    nics = max(1, min(group.interfaces for group in resolved.groups))
    tokens = sizes.tokens_per_step(config.batch)
    flops = sizes.flops_per_token(config.model, config.batch.sequence_length)
    compute = tokens * flops / (peak * 1e12 * MFU)
    rate = {"efa": gbps * EFA_SHARE, "tcp": min(gbps * TCP_SHARE, TCP_GBPS)}
    schemes = {}
    for name in SCHEMES:
        sent = sizes.nic_bytes_per_step(_sharded(config, name), nodes=nodes, processes_per_node=processes)
        schemes[name] = Scheme(sent / nics, compute, {t: sent * 8 / (r * 1e9) if r else 0.0 for t, r in rate.items()})
    return Estimate(
        schemes=schemes,
        scheme=sizes.sharding_mode(config.parallel, nodes, processes),
        transport="efa" if all(group.interfaces for group in resolved.groups) or nodes == 1 else "tcp",
        steps=config.schedule.steps,
        tokens_per_step=tokens,
        flops_per_token=flops,
        peak_tflops=peak,
        gbps=gbps,
        usd_per_hour=money.usd_per_hour if money.complete else None,
        assumptions=(
            f"{MFU:.0%} of the GPUs' peak while computing, as on one H200 ({slowest.tflops:g} TFLOP/s each; "
            f"confidence: {slowest.confidence})",
            f"EFA carries {EFA_SHARE:.0%} of {gbps:g} Gbit/s, TCP {TCP_SHARE:.0%} and at most {TCP_GBPS:g} Gbit/s",
            "network and computing overlap: a step takes the longer of the two",
            "start, checkpoints and validation are not counted",
        ),
    )


def _sharded(config: Config, name: str) -> Config:
    return dataclasses.replace(config, parallel=dataclasses.replace(config.parallel, sharding=name))
