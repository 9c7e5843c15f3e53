"""EFA and availability zones (3xx). Sources: AWS EFA guide; eksctl 0.215 pkg/apis/eksctl.io/v1alpha5/validation.go."""

from __future__ import annotations

from collections.abc import Iterator

from generator import catalog
from generator.catalog import LOCAL, instance_types
from generator.diagnostics.finding import Finding, Severity
from generator.resolve import Group
from generator.rules.context import Context

_P4 = ("p4d", "p4de")


def efa_available(ctx: Context) -> Iterator[Finding]:
    for group, written in ctx.groups():
        if written.efa == "required" and group.type.efa_interfaces == 0:
            model = group.type.gpu_model
            larger = [
                t.name
                for t in instance_types().values()
                if model and t.gpu_model == model and t.efa_interfaces and not t.refused
            ]
            yield ctx.in_environment(
                "RTD301",
                "workers",
                group.name,
                "efa",
                message=f"{group.type.name} has no EFA",
                help=f"choose a type with EFA ({', '.join(larger)}), or set efa to disabled"
                if larger
                else "set efa to disabled",
            )


def efa_zone(ctx: Context) -> Iterator[Finding]:
    for group, written in ctx.groups():
        if group.interfaces and written.availability_zone is None:
            zones = ctx.cluster.availability_zones if ctx.cluster is not None else []
            yield ctx.in_environment(
                "RTD302",
                "workers",
                group.name,
                "availabilityZone",
                on_key=True,
                message=f"the group `{group.name}` uses EFA but names no availability zone",
                notes=(
                    "EFA traffic does not leave its zone; without one zone eksctl spreads the group over all subnets",
                ),
                help=f"add availabilityZone: {zones[0] if zones else 'the zone with capacity'}",
            )


def one_efa_zone(ctx: Context) -> Iterator[Finding]:
    """All nodes of a training that use EFA stand in one zone, also those of different groups."""
    zoned = [(group, written.availability_zone) for group, written in ctx.groups() if group.interfaces]
    zones = {zone for _, zone in zoned if zone is not None}
    first = zoned[0][1] if zoned else None
    for group, zone in zoned[1:]:
        if len(zones) > 1 and zone is not None and zone != first:
            yield ctx.in_environment(
                "RTD302",
                "workers",
                group.name,
                "availabilityZone",
                message=f"the group `{group.name}` is in {zone}, but `{zoned[0][0].name}` in {first}: EFA does not cross zones",
                help=f"put all groups that use EFA into one zone, for example {first}",
            )


def same_network(ctx: Context) -> Iterator[Finding]:
    """NCCL runs over one kind of network: a group on EFA cannot talk to one without."""
    groups = [group for group, _ in ctx.groups()]
    for group in groups[1:]:
        if group.interfaces != groups[0].interfaces or not _same_protocol(group, groups[0]):
            yield ctx.in_environment(
                "RTD307",
                "workers",
                group.name,
                on_key=True,
                message="the groups have different networks: "
                + ", ".join(f"{g.name} has {_network(g)}" for g in groups),
                notes=(
                    "all ranks of a training talk over one network, and each checks the same interfaces and protocol",
                ),
                help="give every group the same instance type, or set efa to disabled in all of them",
            )
            return


def _same_protocol(one: Group, other: Group) -> bool:
    return not one.interfaces or one.type.transport_protocol == other.type.transport_protocol


def _network(group: Group) -> str:
    if not group.interfaces:
        return "no EFA"
    return f"{group.interfaces} EFA interface{'s' if group.interfaces > 1 else ''} per node, {group.type.transport_protocol}"


def first_generation(ctx: Context) -> Iterator[Finding]:
    """EFA of P4d and P4de reaches only nodes of these two families. AWS EFA guide, "EFA limitations"."""
    groups = [group for group, _ in ctx.groups() if group.interfaces]
    old = [group for group in groups if group.type.family in _P4]
    for group in groups:
        if old and group.type.family not in _P4:
            yield ctx.in_environment(
                "RTD309",
                "workers",
                group.name,
                "instanceType",
                message=f"EFA of {group.type.name} cannot reach that of {old[0].type.name} in `{old[0].name}`",
                help="give every group a type of the same family, or set efa to disabled in all of them",
            )


def placement(ctx: Context) -> Iterator[Finding]:
    """eksctl makes a placement group for nodes with EFA, but none where a reservation says where they stand."""
    if ctx.cluster is None or ctx.cluster.managed != "eksctl":
        return
    for group, written in ctx.groups():
        capacity = written.capacity
        if capacity.kind == "capacityBlock" and group.placement_group:
            yield ctx.in_environment(
                "RTD308",
                "workers",
                group.name,
                "capacity",
                "placementGroup",
                severity=Severity.ERROR,
                message="a Capacity Block takes no placement group",
                notes=("AWS puts the instances of a block side by side, and refuses a group of ours",),
                help="remove placementGroup",
            )
        if capacity.kind in ("onDemand", "spot") and group.interfaces and capacity.placement_group == "none":
            yield ctx.in_environment(
                "RTD308",
                "workers",
                group.name,
                "capacity",
                "placementGroup",
                severity=Severity.ERROR,
                message="`none` has no effect: eksctl makes a placement group for nodes with EFA that are not reserved",
                help="remove placementGroup, or name a group of yours",
            )
        if capacity.kind == "reservation" and group.interfaces and group.nodes > 1 and not capacity.placement_group:
            yield ctx.in_environment(
                "RTD308",
                "workers",
                group.name,
                "capacity",
                "placementGroup",
                on_key=True,
                message=f"whether {capacity.id or 'the reservation'} was made in a placement group is not said",
                notes=(
                    "a reservation made in a group gives its instances to that group only: others get InsufficientInstanceCapacity",
                    "in none, its nodes may stand far apart: eksctl makes no group for reserved nodes",
                ),
                help="set placementGroup to the group's name, as the EC2 console shows it with the reservation, or to none",
            )


def tcp_between_nodes(ctx: Context) -> Iterator[Finding]:
    if ctx.resolved.nodes < 2:
        return
    for group, written in ctx.groups():
        if group.interfaces == 0 and group.type.name != LOCAL and written.efa != "required":
            why = (
                "EFA is disabled"
                if written.efa == "disabled" and group.type.efa_interfaces
                else f"{group.type.name} has no EFA"
            )
            yield ctx.in_environment(
                "RTD306",
                "workers",
                group.name,
                "efa",
                on_key=written.efa is None,
                message=f"{ctx.resolved.nodes} nodes will talk over TCP: {why}",
                help="set efa to required"
                if group.type.efa_interfaces
                else "choose a type with EFA, or train on one node",
            )


def zones_of_region(ctx: Context) -> Iterator[Finding]:
    if ctx.cluster is None or ctx.cluster.region is None:
        return
    region = ctx.cluster.region
    known = catalog.zones().get(region)
    if known is None:
        return  # RTD208 has said that nothing is known there; the region itself may be misspelt

    def wrong(zone: str) -> bool:
        return zone not in known

    choices = ", ".join(sorted(known))
    for index, zone in enumerate(ctx.cluster.availability_zones):
        if wrong(zone):
            yield ctx.in_cluster(
                "RTD303",
                "availabilityZones",
                index,
                message=f"{zone} is not a zone of {region}",
                help=f"choose from {choices}",
            )
    for name, group in ctx.environment.workers.items():
        if group.availability_zone is not None and wrong(group.availability_zone):
            yield ctx.in_environment(
                "RTD303",
                "workers",
                name,
                "availabilityZone",
                message=f"{group.availability_zone} is not a zone of {region}",
                help=f"choose from {choices}",
            )


def zone_of_cluster(ctx: Context) -> Iterator[Finding]:
    if ctx.cluster is None or not ctx.cluster.availability_zones:
        return
    zones = ctx.cluster.availability_zones
    for name, group in ctx.environment.workers.items():
        zone = group.availability_zone
        if zone is not None and zone not in zones and zone[:-1] == (ctx.cluster.region or zone[:-1]):
            yield ctx.in_environment(
                "RTD304",
                "workers",
                name,
                "availabilityZone",
                message=f"{zone} is not among the zones of cluster `{ctx.cluster.name}`",
                notes=(f"the cluster has subnets in {', '.join(zones)}",),
                help=f"use one of these, or add {zone} to availabilityZones in {ctx.loaded.cluster.source.file if ctx.loaded.cluster else ''}",
            )


def two_zones(ctx: Context) -> Iterator[Finding]:
    cluster = ctx.cluster
    if cluster is None or cluster.managed != "eksctl":
        return
    distinct = len(set(cluster.availability_zones))
    if distinct < 2:
        yield ctx.in_cluster(
            "RTD305",
            "availabilityZones",
            message=f"the cluster has {distinct or 'no'} availability zone{'s' if not distinct else ''}, but EKS needs two",
            help="name two zones; the GPU nodes still use only theirs",
            on_key=not cluster.availability_zones,
        )


RULES = (
    efa_available,
    efa_zone,
    one_efa_zone,
    same_network,
    first_generation,
    placement,
    tcp_between_nodes,
    zones_of_region,
    zone_of_cluster,
    two_zones,
)
