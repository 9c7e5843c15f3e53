"""Nodes with a network between them on one machine: Linux network namespaces on the two ends of a rate-limited veth.

Their addresses exist inside the namespaces alone. Needs root, and `ip` and `tc` of iproute2.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.training.processes import Process, Started

PORT = "29500"  # nobody else is in the namespaces
INTERFACE = "rtd0"  # the same name in both namespaces, which gloo needs to be told


def run(*command: str) -> str:
    """Run a program of iproute2 and return what it says.

    Raises:
        OSError: it failed; with its own words.
    """
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


@dataclass(frozen=True)
class Node:
    """One namespace."""

    namespace: str
    address: str

    def command(self, *inside: str) -> tuple[str, ...]:
        """`inside`, run in the namespace: with its interfaces, also in /sys/class/net."""
        return ("ip", "netns", "exec", self.namespace, *inside)

    def processes(self) -> list[int]:
        """Ids of the processes in it."""
        return [int(pid) for pid in run("ip", "netns", "pids", self.namespace).split()]

    def connect(self, rate: str) -> None:
        """Give the interface its address and its limit, and switch it on."""
        inside = ("-n", self.namespace)
        run("ip", *inside, "address", "add", f"{self.address}/24", "dev", INTERFACE)
        for link in ("lo", INTERFACE):
            run("ip", *inside, "link", "set", link, "up")
        bucket = ("rate", rate, "burst", "256kb", "latency", "50ms")
        run("tc", *inside, "qdisc", "add", "dev", INTERFACE, "root", "tbf", *bucket)

    def remove(self) -> None:
        """End what still runs in it, which would keep it without a name, and remove it."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run("ip", "netns", "delete", self.namespace)


@contextmanager
def two_nodes(*, rate: str) -> Iterator[tuple[Node, Node]]:
    """Two namespaces joined by a veth; they and all that is in them go at the end.

    Args:
        rate: of each direction, as tc writes it: `1gbit`.

    Raises:
        OSError: this machine cannot make them.
    """
    token = uuid.uuid4().hex[:8]
    first, second = (Node(f"rtd-{token}-{i}", f"10.99.0.{i + 1}") for i in range(2))
    made: list[Node] = []
    try:
        for node in (first, second):
            run("ip", "netns", "add", node.namespace)
            made.append(node)
        # Made inside a namespace: the machine's own never sees the pair.
        other_end = ("peer", INTERFACE, "netns", second.namespace)
        run("ip", "-n", first.namespace, "link", "add", INTERFACE, "type", "veth", *other_end)
        for node in made:
            node.connect(rate)
        yield first, second
    finally:
        for node in made:
            node.remove()


def unavailable() -> str:
    """Why there can be no such nodes here, or nothing: tried, not guessed."""
    if missing := [name for name in ("ip", "tc") if shutil.which(name) is None]:
        return f"{' and '.join(missing)} not found: install iproute2"
    try:
        with two_nodes(rate="1gbit"):
            return ""
    except OSError as error:
        return f"network namespaces need root, and veth and tbf in the kernel: {error}"


def start_ranks(
    started: Started, nodes: tuple[Node, ...], command: tuple[str, ...], folder: Path, *, per_node: int = 2
) -> list[Process]:
    """Start `command` as `per_node` ranks in each namespace, with the variables that torchrun would set.

    Args:
        folder: for each rank's output, `rank<N>.log`.
    """
    return [
        started.start(
            nodes[rank // per_node].command(*command),
            folder / f"rank{rank}.log",
            RANK=str(rank),
            WORLD_SIZE=str(per_node * len(nodes)),
            LOCAL_RANK=str(rank % per_node),
            LOCAL_WORLD_SIZE=str(per_node),
            GROUP_RANK=str(rank // per_node),
            MASTER_ADDR=nodes[0].address,
            MASTER_PORT=PORT,
            GLOO_SOCKET_IFNAME=INTERFACE,
        )
        for rank in range(per_node * len(nodes))
    ]
