"""Price per hour, as a sum of components.

Instances at the on-demand price of the cluster's region (`generator/catalog/instances.csv`), Capacity Blocks at their
own price, and, for a cluster that eksctl makes, its control plane and, where the VPC is eksctl's too, one NAT gateway.
Storage and traffic are out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime

from generator.catalog import LOCAL, InstanceType, prices, standard_support
from generator.model.cluster import Cluster
from generator.resolve import Group, Resolved


@dataclass(frozen=True, slots=True)
class Component:
    """`quantity` pieces at `usd_per_hour_each`; None where the catalogue has no price."""

    name: str
    quantity: int
    usd_per_hour_each: float | None
    note: str = ""

    @property
    def usd_per_hour(self) -> float | None:
        return None if self.usd_per_hour_each is None else self.quantity * self.usd_per_hour_each


@dataclass(frozen=True, slots=True)
class Cost:
    """All components. `usd_per_hour` is the sum of those with a known price."""

    components: tuple[Component, ...]
    as_of: str
    notes: tuple[str, ...]

    @property
    def usd_per_hour(self) -> float:
        return sum(c.usd_per_hour or 0.0 for c in self.components)

    @property
    def complete(self) -> bool:
        return all(c.usd_per_hour_each is not None for c in self.components)


def cost(resolved: Resolved, today: date | None = None) -> Cost:
    """The price of one environment while all its nodes run, in USD per hour, as it is on `today` (default: now)."""
    cluster = resolved.cluster
    region = cluster.region if cluster is not None else None
    as_of = prices()["instances"].as_of
    if not resolved.environment.has_pods:
        host = resolved.environment.job.cluster_name
        return Cost((), as_of, (f"it runs on the nodes of environment {host}, and costs nothing beside them",))
    components = [_group(group, region) for group in resolved.groups]
    notes = []
    if cluster is not None and cluster.managed == "eksctl":
        system = resolved.head.type
        if system is not None:
            each = _on_demand(system, region)
            components.append(Component(f"system nodes, {system.name}", cluster.system_nodes.count, each))
        components.append(_control_plane(cluster, today or datetime.now(UTC).date()))
        if cluster.network.vpc_id is None:
            components.append(Component("NAT gateway", 1, prices()["nat_gateway"].usd_per_hour, "and 0.045 USD per GB"))
    elif cluster is not None:
        notes.append("the cluster exists already: its control plane, NAT gateway and system nodes are not counted")
    if any(g.capacity.kind == "spot" for g in resolved.groups):
        notes.append("spot nodes are counted at the on-demand price, which they do not exceed")
    notes.append("storage, traffic between zones and data through the NAT gateway are not counted")
    return Cost(tuple(components), as_of, tuple(notes))


def _control_plane(cluster: Cluster, today: date) -> Component:
    """Six times as much once the standard support of the Kubernetes version has ended."""
    end = standard_support().get(cluster.kubernetes_version or "")
    if end is None or today <= end:
        return Component("EKS control plane", 1, prices()["eks_control_plane"].usd_per_hour)
    price = prices()["eks_control_plane_extended"].usd_per_hour
    return Component(
        "EKS control plane", 1, price, f"extended support: {cluster.kubernetes_version} left standard support on {end}"
    )


def _group(group: Group, region: str | None) -> Component:
    name = f"workers `{group.name}`, {group.type.name}"
    if group.type.name == LOCAL:
        return Component(name, group.nodes, 0.0, "this machine")
    if group.capacity.kind == "capacityBlock":
        return Component(name, group.nodes, group.type.capacity_block_usd_per_hour, "Capacity Block, paid up front")
    note = {"spot": "spot: at most", "reservation": "reserved: paid whether used or not"}.get(group.capacity.kind, "")
    return Component(name, group.nodes, _on_demand(group.type, region), note)


def _on_demand(found: InstanceType, region: str | None) -> float | None:
    if found.name == LOCAL:
        return 0.0
    return found.usd_per_hour.get(region or "")
