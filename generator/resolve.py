"""Every derived number, once. Nothing downstream computes one of these again.

A group whose instance type is unknown or refused has no numbers: it is left out here, and the rules say why.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from generator.catalog import EVICTION_MIB, LOCAL, InstanceType, instance_types, shared_pods
from generator.model.cluster import Cluster
from generator.model.environment import Capacity, Environment, WorkerGroup

_GIB = 1024  # MiB
_SMALL_CPU = 8
_GRAIN_GIB = 4  # defaults of large pods are multiples of it; small pods keep single GiB


_DISK_EVICTION = 0.10
"""Share of the volume below which the kubelet evicts pods, on EKS as everywhere (source: `kubelet_memory_mib`)."""
_DISK_RESERVED_MIB = 1024


@dataclass(frozen=True, slots=True)
class Room:
    """What a node offers to our pod: CPU in thousandths, memory and disk in MiB, and how that was found."""

    cpu_m: int
    memory_mib: int
    gpus: int
    interfaces: int
    """EFA interfaces that the type has."""
    hugepages_mib: int
    """2 MiB pages for EFA; they are not part of `memory_mib`, whether used or not."""
    pods: int
    """Pods beside those that run on the node anyway."""
    disk_mib: int | None
    """Ephemeral storage; None where the volume is not ours to choose."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """One worker group with every number worked out. Memory in MiB, CPU in whole vCPU."""

    name: str
    type: InstanceType
    nodes: int
    gpus: int
    processes: int
    """Ranks per node: one per GPU, or `processesPerNode` without GPUs."""
    interfaces: int
    """EFA interfaces per node; 0 without EFA."""
    zone: str | None
    capacity: Capacity
    node_group: str
    """Name of the EKS node group."""
    placement_group: str | None
    """Placement group that is there already."""
    cpu: int
    memory_mib: int
    volume_gib: int | None
    """Root volume of each node; None where the cluster exists already."""
    room: Room


@dataclass(frozen=True, slots=True)
class Head:
    """The head pod. `type` is None when the cluster's system type is unknown."""

    cpu: int
    memory_mib: int
    type: InstanceType | None
    room: Room | None


@dataclass(frozen=True, slots=True)
class Resolved:
    """One environment in numbers."""

    environment: Environment
    cluster: Cluster | None
    groups: tuple[Group, ...]
    head: Head

    @property
    def nodes(self) -> int:
        """Worker nodes; the system nodes are the cluster's."""
        return sum(group.nodes for group in self.groups)

    @property
    def gpus(self) -> int:
        return sum(group.nodes * group.gpus for group in self.groups)

    @property
    def world_size(self) -> int:
        return sum(group.nodes * group.processes for group in self.groups)

    @property
    def service_account(self) -> str:
        """The chart names it like the Helm release, which is named like the environment."""
        return self.environment.name


def resolve(environment: Environment, cluster: Cluster | None) -> Resolved:
    """Work out all numbers of one environment."""
    made = cluster is not None and cluster.managed == "eksctl"
    groups = tuple(
        # NVMe disks that carry the pods' files have a size of their own, which no rule is asked about.
        resolve_group(environment, name, group, group.volume_size if made and group.scratch == "volume" else None)
        for name, group in environment.workers.items()
        if usable(group.instance_type)
    )
    system = instance_types().get(cluster.system_nodes.instance_type) if cluster is not None else None
    room = None
    if system is not None and cluster is not None:
        alone, fsx = cluster.system_nodes.count == 1, environment.training.storage.kind == "fsx"
        volume = cluster.system_nodes.volume_size if cluster.managed == "eksctl" else None
        room = node_room(system, gpu=False, efa=False, system=alone, fsx=fsx, volume_gib=volume)
    head = Head(environment.head.cpu, mib(environment.head.memory), system, room)
    return Resolved(environment, cluster, groups, head)


def usable(instance_type: str) -> bool:
    found = instance_types().get(instance_type)
    return found is not None and not found.refused and (found.gpus > 0 or found.name == LOCAL)


def resolve_group(environment: Environment, name: str, group: WorkerGroup, volume_gib: int | None) -> Group:
    """Work out one group of a usable type. `volume_gib`: the nodes' root volume, where it is known."""
    found = instance_types()[group.instance_type]
    gpus = found.gpus if group.gpus_per_node is None else group.gpus_per_node
    nodes_in_all = sum(g.nodes for g in environment.workers.values())
    required = group.efa == "required" or (group.efa is None and found.efa_interfaces > 0 and nodes_in_all > 1)
    interfaces = found.efa_interfaces if required else 0
    fsx = environment.training.storage.kind == "fsx"
    room = node_room(found, gpu=gpus > 0, efa=interfaces > 0, system=False, fsx=fsx, volume_gib=volume_gib)
    return Group(
        name=name,
        type=found,
        nodes=group.nodes,
        gpus=gpus,
        processes=gpus or group.processes_per_node or 1,
        interfaces=interfaces,
        zone=group.availability_zone,
        capacity=group.capacity,
        node_group=node_group_name(environment.name, name),
        placement_group=None if group.capacity.placement_group in (None, "none") else group.capacity.placement_group,
        cpu=group.cpu if group.cpu is not None else _default_cpu(room),
        memory_mib=mib(group.memory) if group.memory is not None else _default_memory(room),
        volume_gib=volume_gib,
        room=room,
    )


def node_group_name(environment: str, group: str) -> str:
    return f"{environment}-{group}"


def node_room(
    found: InstanceType, *, gpu: bool, efa: bool, system: bool, fsx: bool = False, volume_gib: int | None = None
) -> Room:
    """What a node has for pods, less those that run there anyway.

    `system`: the pods of the cluster's only system node (CoreDNS, the operator …) run there too.
    """
    there = {"every": True, "gpu": gpu, "efa": efa, "system": system, "fsx": fsx, "fsx-system": fsx and system}
    pods = [] if found.name == LOCAL else [pod for pod in shared_pods() if there[pod.nodes]]
    cpu = sum(pod.replicas * pod.cpu_m for pod in pods)
    memory = sum(pod.replicas * pod.memory_mib for pod in pods)
    notes = [*_allocatable(found)]
    if pods:
        named = ", ".join(pod.name for pod in pods if pod.cpu_m or pod.memory_mib)
        notes.append(
            f"{named} ask for {cpu}m and {memory} MiB of it: {found.allocatable_cpu_m - cpu}m and "
            f"{found.allocatable_memory_mib - memory} MiB are left"
        )
    return Room(
        cpu_m=found.allocatable_cpu_m - cpu,
        memory_mib=found.allocatable_memory_mib - memory,
        gpus=found.gpus,
        interfaces=found.efa_interfaces,
        hugepages_mib=found.hugepages_mib,
        pods=found.max_pods - sum(pod.replicas for pod in pods),
        disk_mib=None if volume_gib is None else int(volume_gib * _GIB * (1 - _DISK_EVICTION)) - _DISK_RESERVED_MIB,
        notes=tuple(notes),
    )


def volume_for(size: int) -> int:
    """The smallest root volume in GiB on which `size` bytes find room."""
    return math.ceil((size / 2**30 + _DISK_RESERVED_MIB / _GIB) / (1 - _DISK_EVICTION))


def _allocatable(found: InstanceType) -> Iterator[str]:
    """How `allocatable_*` of the catalogue comes about."""
    if found.name == LOCAL:
        yield f"a node of type {LOCAL} counts as {found.allocatable_cpu_m}m CPU and {found.allocatable_memory_mib} MiB"
        return
    system = found.memory_mib - found.kubelet_memory_mib - EVICTION_MIB - found.hugepages_mib
    pages = f", {found.hugepages_mib} of 2 MiB pages for EFA" if found.hugepages_mib else ""
    yield (
        f"{found.name} has {found.memory_mib} MiB, less {system - found.allocatable_memory_mib} of firmware and kernel "
        f"(7.5 %), {found.kubelet_memory_mib} of the kubelet (255 + 11 × {found.max_pods} pods), {EVICTION_MIB} below "
        f"which it evicts{pages}: {found.allocatable_memory_mib} MiB for pods"
    )
    kept = found.vcpu * 1000 - found.allocatable_cpu_m
    yield f"and {found.vcpu} vCPU, less {kept}m of the kubelet: {found.allocatable_cpu_m}m for pods"


def mib(memory: str) -> int:
    """`160Gi`, `512Mi` or `1Ti` in MiB."""
    return int(memory[:-2]) * {"Mi": 1, "Gi": _GIB, "Ti": _GIB * _GIB}[memory[-2:]]


def memory_text(memory_mib: int) -> str:
    """MiB as Kubernetes writes it canonically: 160Gi rather than 163840Mi (the operator rewrites the other form)."""
    for suffix, unit in (("Ti", _GIB * _GIB), ("Gi", _GIB)):
        if memory_mib % unit == 0:
            return f"{memory_mib // unit}{suffix}"
    return f"{memory_mib}Mi"


def _default_cpu(room: Room) -> int:
    """Whole vCPU, less one on larger nodes: a cluster's own log and metric agents must still find a place."""
    whole = room.cpu_m // 1000
    return max(1, whole - 1 if whole > _SMALL_CPU else whole)


def _default_memory(room: Room) -> int:
    """All but 2 %, for the same reason, in round numbers."""
    gib = int(room.memory_mib * 0.98) // _GIB
    if gib >= 4 * _GRAIN_GIB:
        gib -= gib % _GRAIN_GIB
    return gib * _GIB if gib else max(room.memory_mib, 1)
