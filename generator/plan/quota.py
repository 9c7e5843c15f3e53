"""vCPU that the nodes of a cluster's environments take from the account's EC2 quotas.

A reservation's instances count against the on-demand quota, used or not; a Capacity Block's do not (Amazon EC2 user
guide, "Capacity Reservations" and "Capacity Blocks for ML": from memory).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from generator.catalog import Quota, quotas
from generator.resolve import Group, Resolved


@dataclass(frozen=True, slots=True)
class Use:
    """Nodes that count against one quota. `group` is None for the cluster's system nodes."""

    environment: str
    group: Group | None
    instance_type: str
    nodes: int
    vcpu_each: int

    @property
    def vcpu(self) -> int:
        return self.nodes * self.vcpu_each


def usage(mine: Resolved, beside: Iterable[Resolved] = ()) -> dict[Quota, list[Use]]:
    """The uses of every quota, this environment's first; `beside` are the others that eksctl makes nodes for."""
    found: dict[Quota, list[Use]] = {}
    for quota in quotas():
        uses = [
            Use(one.environment.name, group, group.type.name, group.nodes, group.type.vcpu)
            for one in (mine, *beside)
            for group in one.groups
            if counts(group, quota)
        ]
        if not quota.spot and (system := _system_nodes(mine, quota.family)):
            uses.append(system)
        if uses:
            found[quota] = uses
    return found


def _system_nodes(resolved: Resolved, family: str) -> Use | None:
    """The cluster's system nodes, where eksctl makes them of a type of this family; those with GPUs are refused."""
    cluster, system = resolved.cluster, resolved.head.type
    if cluster is None or cluster.managed != "eksctl" or system is None:
        return None
    if system.gpus or system.quota_family != family:
        return None
    return Use("", None, system.name, cluster.system_nodes.count, system.vcpu)


def counts(group: Group, quota: Quota) -> bool:
    """Whether the group's nodes count against this quota."""
    kind = group.capacity.kind
    return kind != "capacityBlock" and group.type.quota_family == quota.family and (kind == "spot") == quota.spot


def declared(resolved: Resolved, quota: Quota) -> int | None:
    """What `policy.quota` says of this quota, in vCPU."""
    found: int | None = resolved.environment.policy.quota.model_dump(by_alias=True)[quota.key]
    return found
