"""Room on each kind of node, what its pod asks for, and what the training needs of that."""

from __future__ import annotations

from dataclasses import dataclass

from generator.plan.disk import disk
from generator.plan.host import pod_memory
from generator.plan.memory import Memory
from generator.resolve import Resolved, Room


@dataclass(frozen=True, slots=True)
class Fit:
    """One pod and the node that it runs on. CPU in thousandths, memory in MiB. `room` is None on an unknown type."""

    name: str
    """The worker group's name, or `head`."""
    instance_type: str
    pods: int
    cpu_m: int
    memory_mib: int
    gpus: int
    interfaces: int
    room: Room | None
    needed: Memory | None
    """What the training needs of the pod's memory, as far as it can be foreseen."""
    disk: Memory | None
    """What is written to the node's root volume, where that is ours to choose."""

    @property
    def fits(self) -> bool | None:
        """None where the node is not known."""
        room = self.room
        if room is None:
            return None
        asked = self.cpu_m <= room.cpu_m and self.memory_mib <= room.memory_mib
        there = self.gpus <= room.gpus and self.interfaces <= room.interfaces
        return asked and there and all(one is None or one.share <= 1 for one in (self.needed, self.disk))


def fit(resolved: Resolved) -> tuple[Fit, ...]:
    """The worker pods by group, then the head; a job on another environment's cluster has no head of its own."""
    needed, disks = dict(pod_memory(resolved)), dict(disk(resolved))
    workers = [
        Fit(
            name=g.name,
            instance_type=g.type.name,
            pods=g.nodes,
            cpu_m=1000 * g.cpu,
            memory_mib=g.memory_mib,
            gpus=g.gpus,
            interfaces=g.interfaces,
            room=g.room,
            needed=needed.get(g.name),
            disk=disks.get(g.name),
        )
        for g in resolved.groups
    ]
    head = resolved.head
    if not resolved.environment.has_pods:
        return tuple(workers)
    on = head.type.name if head.type else ""
    return (*workers, Fit("head", on, 1, 1000 * head.cpu, head.memory_mib, 0, 0, head.room, None, None))
