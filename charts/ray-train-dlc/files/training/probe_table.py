"""What the probe shows and keeps: the lines of its table, and its record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from training import metrics
from training.session import Session
from training.topology import backend

LARGEST = {True: 2**30, False: 2**26}  # bytes, by whether on GPUs, where nothing is given


@dataclass(frozen=True)
class Sweep:
    """What is measured."""

    smallest: int
    """Bytes."""
    largest: int | None
    """Bytes; None: as the device is."""
    factor: int
    """From one size to the next."""
    warmup: int
    """Runs that are not timed, of each collective and size."""
    iterations: int
    """Runs whose mean time counts."""
    nominal_gbps: float
    """Network bandwidth of a node as its vendor states it, in Gbit/s and one direction; 0: not known."""
    as_json: bool
    """Print the record too."""

    def sizes(self, *, cuda: bool) -> list[int]:
        """From the smallest size to the largest."""
        sizes = [self.smallest]
        while sizes[-1] * self.factor <= (self.largest or max(self.smallest, LARGEST[cuda])):
            sizes.append(sizes[-1] * self.factor)
        return sizes


@dataclass(frozen=True)
class Group:
    """Ranks that run a collective together, and the others that do the same at the same time."""

    name: str
    ranks: list[list[int]]
    """Ranks of every group."""
    handle: Any
    """Process group of this rank."""
    crossing: int
    """How many of the groups cross each node's edge."""


def limits(session: Session, groups: list[Group]) -> str:
    """What these ranks could measure, and what not."""
    if session.place.world_size == 1:
        return (
            "one rank: its collectives give right results, and there is no bandwidth to measure. Inside a node that "
            "takes two ranks or more (--num-workers=2, torchrun --nproc-per-node=2), between nodes two nodes"
        )
    names = [group.name for group in groups]
    if "world" in names:
        return "measured inside the nodes, between them, and over all ranks"
    if "inside" in names:
        return "measured inside the node; between nodes takes two nodes or more"
    return "measured between the nodes; inside a node takes two ranks or more on each"


def head(session: Session, sweep: Sweep, groups: list[Group]) -> list[str]:
    """The lines above the rows."""
    world, nodes = session.place.world_size, session.nodes
    device = f"cuda, {backend(True)}" if session.cuda else "cpu, gloo"
    where = f"{counted(world, 'rank')} on {counted(nodes, 'node')} ({device})"
    lines = [f"probe: {where}, {counted(sweep.warmup, 'run')} before {sweep.iterations} timed"]
    if world == 1:
        return lines
    lines += [
        f"  {group.name}: {len(group.ranks)} × {len(group.ranks[0])} ranks"
        + (", all at once; the slowest is shown" if len(group.ranks) > 1 else "")
        for group in groups
    ]
    head = f"{'group':<8}{'collective':<15}{'size':>9}{'time ms':>11}{'algbw GB/s':>12}{'busbw GB/s':>12}"
    if nodes > 1:
        head += f"{'node Gb/s':>11}{'expected MB':>13}{'sent MB':>10}"
        head += f"{'of nominal':>12}" if sweep.nominal_gbps else ""
    return [*lines, head]


def row(one: dict[str, Any], nodes: int, nominal_gbps: float) -> str:
    """One line of the table."""
    row = f"{one['group']:<8}{one['collective']:<15}{binary(one['bytes']):>9}{one['seconds'] * 1e3:>11.3f}"
    row += f"{one['algorithmBytesPerSecond'] / 1e9:>12.3f}{one['busBytesPerSecond'] / 1e9:>12.3f}"
    if nodes == 1:
        return row
    expected = one["nodeBytesExpected"]
    rate = expected / one["seconds"] * 8 / 1e9
    sent = max((node["sent"] for node in one["network"]), default=0.0)
    row += f"{rate:>11.2f}{expected / 1e6:>13.3f}{sent / 1e6:>10.3f}" if expected else f"{'-':>11}{'-':>13}{'-':>10}"
    return row + (f"{rate / nominal_gbps:>12.1%}" if expected and nominal_gbps else "")


def binary(bytes_: int) -> str:
    """A size in the largest unit of 1024 that leaves no rest."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if bytes_ >= unit and bytes_ % unit == 0:
            return f"{bytes_ // unit} {name}"
    return f"{bytes_} B"


def counted(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def record(session: Session, sweep: Sweep, measurements: list[dict[str, Any]], state: str) -> dict[str, Any]:
    """`probe.json`: what was measured, and on what."""
    import torch

    each = session.place.world_size // session.nodes
    topology = metrics.topology(
        session.places, gpus_per_node=each if session.cuda else 0, backend=backend(session.cuda), sharding=""
    )
    del topology["sharding"]
    return {
        "version": 1,
        "ended": metrics.now(),
        "versions": metrics.versions(),
        "device": torch.cuda.get_device_name() if session.cuda else "cpu",
        "topology": topology,
        "transport": session.transport,
        "warmup": sweep.warmup,
        "iterations": sweep.iterations,
        "nominalGbps": sweep.nominal_gbps or None,
        "state": state,
        "measurements": measurements,
    }
