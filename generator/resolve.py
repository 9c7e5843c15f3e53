"""Every derived number, once. Nothing downstream computes one of these again.

A group whose instance type is unknown or refused has no numbers: it is left out here, and the rules say why.
"""

from __future__ import annotations

from dataclasses import dataclass

from generator.catalog import LOCAL, InstanceType, instance_types, shared_pods
from generator.model.cluster import Cluster
from generator.model.environment import Capacity, Environment, WorkerGroup

_GIB = 1024  # MiB
_SMALL_CPU = 8
_GRAIN_GIB = 4  # defaults of large pods are multiples of it; small pods keep single GiB


@dataclass(frozen=True, slots=True)
class Room:
    """What a node offers to our pod: CPU in thousandths, memory in MiB, and how that was found."""

    cpu_m: int
    memory_mib: int
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
    groups = tuple(
        resolve_group(environment, name, group)
        for name, group in environment.workers.items()
        if usable(group.instance_type)
    )
    system = instance_types().get(cluster.system_nodes.instance_type) if cluster is not None else None
    room = None
    if system is not None and cluster is not None:
        alone = cluster.system_nodes.count == 1
        room = node_room(system, gpu=False, efa=False, system=alone)
    head = Head(environment.head.cpu, mib(environment.head.memory), system, room)
    return Resolved(environment, cluster, groups, head)


def usable(instance_type: str) -> bool:
    found = instance_types().get(instance_type)
    return found is not None and not found.refused and (found.gpus > 0 or found.name == LOCAL)


def resolve_group(environment: Environment, name: str, group: WorkerGroup) -> Group:
    """Work out one group of a usable type."""
    found = instance_types()[group.instance_type]
    gpus = found.gpus if group.gpus_per_node is None else group.gpus_per_node
    nodes_in_all = sum(g.nodes for g in environment.workers.values())
    required = group.efa == "required" or (group.efa is None and found.efa_interfaces > 0 and nodes_in_all > 1)
    interfaces = found.efa_interfaces if required else 0
    room = node_room(found, gpu=gpus > 0, efa=interfaces > 0, system=False)
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
        room=room,
    )


def node_group_name(environment: str, group: str) -> str:
    return f"{environment}-{group}"


def node_room(found: InstanceType, *, gpu: bool, efa: bool, system: bool) -> Room:
    """Allocatable CPU and memory of a node, less the pods that run there anyway.

    `system`: the pods of the cluster's only system node (CoreDNS, the operator …) run there too.
    """
    kinds = {"every"} | ({"gpu"} if gpu else set()) | ({"efa"} if efa else set()) | ({"system"} if system else set())
    pods = [] if found.name == LOCAL else [pod for pod in shared_pods() if pod.nodes in kinds]
    cpu = sum(pod.replicas * pod.cpu_m for pod in pods)
    memory = sum(pod.replicas * pod.memory_mib for pod in pods)
    notes = [
        f"{found.name} leaves {found.allocatable_cpu_m}m CPU and {found.allocatable_memory_mib} MiB for pods"
        + (f", after {found.hugepages_mib} MiB of 2 MiB pages for EFA" if found.hugepages_mib else "")
    ]
    if pods:
        named = ", ".join(pod.name for pod in pods if pod.cpu_m or pod.memory_mib)
        notes.append(f"{named} ask for {cpu}m and {memory} MiB of it")
    return Room(found.allocatable_cpu_m - cpu, found.allocatable_memory_mib - memory, tuple(notes))


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
