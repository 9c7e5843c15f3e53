"""The bench's nodes: those that eksctl would make from a rendered ClusterConfig, with the sizes of the catalogue."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import yaml

from generator import catalog
from tests.cluster.bench.layout import ROOT, BenchError


@dataclass(frozen=True)
class Node:
    """One node, as its kubelet reports it.

    Attributes:
        name: of the node: node group and number.
        index: from 0; decides its addresses.
        group: name of the eksctl node group.
        labels, taints: those of the node group; taints as in Kubernetes.
        vcpu, memory_mib: of the instance type.
        allocatable_cpu_m, allocatable_memory_mib: what the kubelet leaves for pods, by the catalogue.
        gpus, efa: devices. EFA interfaces only where the group has `efaEnabled`.
    """

    name: str
    index: int
    group: str
    instance_type: str
    region: str
    zone: str
    vcpu: int
    memory_mib: int
    allocatable_cpu_m: int
    allocatable_memory_mib: int
    max_pods: int
    gpus: int
    efa: int
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] = field(default_factory=list)

    @property
    def system(self) -> bool:
        """A node for the operator, DNS and the Ray heads: it has no accelerators."""
        return self.gpus == 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def nodes_of(environment: str) -> list[Node]:
    """Nodes of the cluster that `environments/<environment>` is rendered for.

    Raises:
        BenchError: there is no rendered ClusterConfig, or it names an instance type that the catalogue lacks.
    """
    file = ROOT / "environments" / environment / "environment.yaml"
    if not file.is_file():
        raise BenchError(f"there is no environment {environment}: {file.relative_to(ROOT)} is missing")
    declared = yaml.safe_load(file.read_text(encoding="utf-8"))
    path = ROOT / "eksctl" / f"{declared['cluster']}.yaml"
    if not path.is_file():
        raise BenchError(f"there is no {path.relative_to(ROOT)}: only the nodes of a rendered ClusterConfig are made")
    return nodes_from(yaml.safe_load(path.read_text(encoding="utf-8")))


def nodes_from(cluster_config: Mapping[str, Any]) -> list[Node]:
    """Nodes of an eksctl ClusterConfig: `desiredCapacity` of every node group.

    Raises:
        BenchError: an instance type is not in the catalogue, or there is no node.
    """
    nodes: list[Node] = []
    for group in [*cluster_config.get("managedNodeGroups", []), *cluster_config.get("nodeGroups", [])]:
        zones = itertools.cycle(group.get("availabilityZones") or cluster_config["availabilityZones"])
        for number in range(1, group["desiredCapacity"] + 1):
            nodes.append(_node(group, number, len(nodes), cluster_config["metadata"]["region"], next(zones)))
    if not nodes:
        raise BenchError("the ClusterConfig asks for no node")
    return nodes


def _node(group: Mapping[str, Any], number: int, index: int, region: str, zone: str) -> Node:
    known = catalog.instance_types().get(group["instanceType"])
    if known is None:
        raise BenchError(f"the catalogue does not know {group['instanceType']} of node group {group['name']}")
    return Node(
        name=f"{group['name']}-{number}",
        index=index,
        group=group["name"],
        instance_type=known.name,
        region=region,
        zone=zone,
        vcpu=known.vcpu,
        memory_mib=known.memory_mib,
        allocatable_cpu_m=known.allocatable_cpu_m,
        allocatable_memory_mib=known.allocatable_memory_mib,
        max_pods=known.max_pods,
        gpus=known.gpus,
        efa=known.efa_interfaces if group.get("efaEnabled") else 0,
        labels=dict(group.get("labels", {})),
        taints=[dict(taint) for taint in group.get("taints", [])],
    )
