"""Addresses of the subnets that eksctl makes.

Sources: eksctl 0.215 pkg/vpc/vpc.go (SetSubnets); the VPC guide, "Subnet CIDR blocks".
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from generator.model.cluster import Cluster
from generator.resolve import Group

VPC_PREFIXES = range(16, 25)
"""Prefix lengths of a VPC that eksctl makes."""
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


def ipv4_range(text: str) -> ipaddress.IPv4Network | None:
    """A range in CIDR notation, such as 10.20.0.0/16; None for anything else, bits behind the prefix among it."""
    if not re.fullmatch(r"[0-9.]+/[0-9]{1,2}", text):
        return None
    try:
        return ipaddress.IPv4Network(text)
    except ValueError:
        return None


def made_subnets(cluster: Cluster) -> Subnets | None:
    """The subnets that eksctl makes: an eighth of the VPC each, a sixteenth where more than 4 zones need two each.

    None where the subnets exist already, or the range is malformed (RTD554).
    """
    if cluster.network.vpc_id is not None or cluster.network.private_subnets:
        return None
    vpc = ipv4_range(cluster.network.cidr or DEFAULT_CIDR)
    if vpc is None or vpc.prefixlen not in VPC_PREFIXES:
        return None
    return Subnets(vpc, vpc.prefixlen + (3 if len(cluster.availability_zones) * 2 <= 8 else 4))


def addresses_per_node(group: Group) -> int:
    """At least: one for each interface, EFA's among them, and one for the worker pod."""
    return max(1, group.interfaces) + 1
