"""The VPC of a cluster that eksctl makes: addresses, subnets and the way to the Kubernetes API (3xx)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from generator.diagnostics.finding import Finding, Severity
from generator.model.cluster import Cluster
from generator.plan.addresses import RESERVED, addresses_per_node, made_subnets
from generator.resolve import Group
from generator.rules.context import Context


def addresses(ctx: Context) -> Iterator[Finding]:
    """Every interface of a node has an address of its subnet, and so has the worker pod."""
    cluster = ctx.cluster
    subnets = made_subnets(cluster) if cluster is not None and cluster.managed == "eksctl" else None
    if subnets is None or not ctx.environment.has_pods:
        return
    mine: dict[str, list[Group]] = defaultdict(list)
    for group, _ in ctx.groups():
        if group.zone is not None:
            mine[group.zone].append(group)
    beside = [group for other in ctx.neighbours() for group in other.groups]
    for zone, groups in mine.items():
        everyone = [*groups, *(group for group in beside if group.zone == zone)]
        needed = sum(group.nodes * addresses_per_node(group) for group in everyone)
        if needed <= subnets.free:
            continue
        largest = max(groups, key=lambda group: group.nodes * addresses_per_node(group))
        yield ctx.in_environment(
            "RTD350",
            "workers",
            largest.name,
            "nodes",
            message=f"the nodes in {zone} need {needed} addresses at least, and their subnet has {subnets.free}",
            notes=(
                " + ".join(f"{group.nodes} × {addresses_per_node(group)} for {group.node_group}" for group in everyone),
                "a node has an address for each interface, and one for its worker pod",
                f"eksctl cuts {subnets.vpc} into subnets of /{subnets.prefix}: {subnets.size} addresses, of which AWS keeps {RESERVED}",
                "the VPC CNI holds more addresses in advance, and the other pods of the node need theirs",
            ),
            help="set network.cidr in the cluster's file to a larger range (/16 at most), or take fewer nodes",
        )


def api_endpoint(ctx: Context) -> Iterator[Finding]:
    cluster = ctx.cluster
    if cluster is None or not cluster.network.public_access_cidrs:
        return
    if cluster.network.api_endpoint == "private":
        yield ctx.in_cluster(
            "RTD351",
            "network",
            "publicAccessCidrs",
            message="ranges for the public endpoint are given, but apiEndpoint is private: there is none",
            help="remove publicAccessCidrs, or set apiEndpoint to both",
        )
    elif cluster.network.api_endpoint == "public":
        # In a VPC of one's own the NAT gateway's address is known, and may be among the ranges.
        yield ctx.in_cluster(
            "RTD351",
            "network",
            "publicAccessCidrs",
            severity=Severity.WARNING if cluster.network.vpc_id else Severity.ERROR,
            message="the nodes reach the Kubernetes API through the public endpoint, which these ranges close for them",
            notes=("nodes in private subnets come from the NAT gateway's address; without the API they never join",),
            help="set apiEndpoint to both: the nodes then stay inside the VPC",
        )


def own_subnets(ctx: Context) -> Iterator[Finding]:
    cluster = ctx.cluster
    if cluster is None:
        return
    network = cluster.network
    if network.vpc_id is not None and not network.private_subnets:
        yield ctx.in_cluster(
            "RTD351",
            "network",
            "vpcId",
            message="a VPC is given, but none of its private subnets",
            notes=("eksctl then does not know where the nodes go",),
            help="add privateSubnets, with one subnet for each of availabilityZones",
        )
    if network.vpc_id is None:
        for key, subnets in (("privateSubnets", network.private_subnets), ("publicSubnets", network.public_subnets)):
            if subnets:
                yield ctx.in_cluster(
                    "RTD351",
                    "network",
                    key,
                    on_key=True,
                    message="subnets are given, but not the VPC that they are in",
                    help="add vpcId",
                )
        return
    if network.cidr is not None:
        yield ctx.in_cluster(
            "RTD351",
            "network",
            "cidr",
            message="the range of a VPC that exists cannot be chosen",
            help="remove cidr, or vpcId and the subnets",
        )
    yield from _zones(ctx, cluster)


def _zones(ctx: Context, cluster: Cluster) -> Iterator[Finding]:
    """One private subnet in each zone of the cluster, so that a group's zone names its one subnet."""
    zones, seen = cluster.availability_zones, dict[str, str]()
    for key, subnets in (
        ("privateSubnets", cluster.network.private_subnets),
        ("publicSubnets", cluster.network.public_subnets),
    ):
        for zone, subnet in subnets.items():
            problem = ""
            if zone not in zones:
                problem = f"`{zone}` is not among the cluster's availabilityZones"
            elif subnet in seen:
                problem = f"{subnet} is also that of {seen[subnet]}"
            seen.setdefault(subnet, f"{key}.{zone}")
            if problem:
                yield ctx.in_cluster(
                    "RTD351",
                    "network",
                    key,
                    zone,
                    message=problem,
                    help=f"give one subnet for each of {', '.join(zones)}",
                )
    for zone in dict.fromkeys(zones):
        if cluster.network.private_subnets and zone not in cluster.network.private_subnets:
            yield ctx.in_cluster(
                "RTD351",
                "network",
                "privateSubnets",
                on_key=True,
                message=f"there is no private subnet for {zone}",
                help=f"add {zone}: subnet-…, or remove {zone} from availabilityZones",
            )


RULES = (addresses, api_endpoint, own_subnets)
