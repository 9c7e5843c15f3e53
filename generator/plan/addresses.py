"""Addresses of the subnets that eksctl makes.

Sources: eksctl 0.215 pkg/vpc/vpc.go (SetSubnets); the VPC guide, "Subnet CIDR blocks".
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from generator.model.cluster import Cluster
from generator.resolve import Group

DEFAULT_CIDR = "192.168.0.0/16"
RESERVED = 5
"""Addresses of each subnet that AWS keeps."""


@dataclass(frozen=True, slots=True)
class Subnets:
    """The equal parts of a VPC."""

    vpc: ipaddress.IPv4Network
    prefix: int

    @property
    def size(self) -> int:
        return int(2 ** (32 - self.prefix))

    @property
    def free(self) -> int:
        """Addresses that nodes and pods of one subnet can have."""
        return max(0, self.size - RESERVED)


def made_subnets(cluster: Cluster) -> Subnets | None:
    """The subnets that eksctl makes: an eighth of the VPC each, a sixteenth where more than 4 zones need two each.

    None where the subnets exist already, or the range is malformed (RTD554).
    """
    if cluster.network.vpc_id is not None or cluster.network.private_subnets:
        return None
    try:
        vpc = ipaddress.IPv4Network(cluster.network.cidr or DEFAULT_CIDR)
    except ValueError:
        return None
    return Subnets(vpc, vpc.prefixlen + (3 if len(cluster.availability_zones) * 2 <= 8 else 4))


def addresses_per_node(group: Group) -> int:
    """At least: one for each interface, EFA's among them, and one for the worker pod."""
    return max(1, group.interfaces) + 1
