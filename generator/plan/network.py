"""Bytes that each sharding sends between nodes per step, and how long they take over EFA and over TCP.

The bytes are those of `training/sizes.py`, exact for a ring; the times divide them by an assumed share of the nominal
rate (generator/catalog/assumptions.csv).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from generator.catalog.gpus import assumption
from generator.resolve import Group, Resolved
from training.config import Config
from training.sizes import nic_bytes_per_step, sharding_mode

SCHEMES = ("full", "zero2", "hsdp", "hpz")
TRANSPORTS = ("efa", "tcp")


@dataclass(frozen=True, slots=True)
class Network:
    """What crosses between the nodes in one optimiser step."""

    node_bytes: Mapping[str, float]
    """Scheme → bytes that each node sends, in one direction."""
    chosen: str
    """The scheme of this environment."""
    transport: str
    """`efa`, `tcp`, or `none` on a single node."""
    group: Group
    """The group whose network is the slowest."""
    cards: Mapping[str, int]
    """Transport → network cards of a node that share the bytes; without EFA there is no `efa`."""
    bits_per_second: Mapping[str, float]
    """Transport → assumed rate of a node, in one direction."""

    def nic_bytes(self, scheme: str) -> float:
        """Bytes on each network card of the transport in use."""
        return self.node_bytes[scheme] / self.cards.get(self.transport, 1)

    def seconds(self, scheme: str, transport: str) -> float | None:
        """Time on the wire per step; None for a transport that the nodes do not have."""
        if transport == "none" or not self.node_bytes[scheme]:
            return 0.0
        rate = self.bits_per_second.get(transport)
        return None if rate is None else self.node_bytes[scheme] * 8 / rate


def network(config: Config, resolved: Resolved) -> Network:
    """The traffic of one training on the environment's nodes; all its groups run equally many ranks per node."""
    processes = resolved.groups[0].processes
    sent = {
        scheme: nic_bytes_per_step(
            replace(config, parallel=replace(config.parallel, sharding=scheme)),
            nodes=resolved.nodes,
            processes_per_node=processes,
        )
        for scheme in SCHEMES
    }
    slowest = min(resolved.groups, key=lambda g: g.type.network_gbps / g.type.network_cards)
    efa = all(g.type.efa_interfaces for g in resolved.groups)
    cards = {"efa": slowest.type.efa_interfaces} if efa else {}
    rates = (
        {"efa": min(g.type.network_gbps for g in resolved.groups) * 1e9 * assumption("efa_share").value} if efa else {}
    )
    rates["tcp"] = slowest.type.network_gbps / slowest.type.network_cards * 1e9 * assumption("tcp_share").value
    used = "efa" if all(g.interfaces for g in resolved.groups) else "tcp"
    return Network(
        node_bytes=sent,
        chosen=sharding_mode(config.parallel, resolved.nodes, processes),
        transport=used if resolved.nodes > 1 else "none",
        group=slowest,
        cards={**cards, "tcp": 1},
        bits_per_second=rates,
    )
