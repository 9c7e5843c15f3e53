"""What a Ray cluster must have before a training may start on it, and how its CPUs are shared out to the ranks."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import Any

from training.contract import Exit, RunEndError
from training.session import Job
from training.topology import wants_cuda


def wait_for_cluster(job: Job, world_size: int, stop: threading.Event) -> tuple[dict[str, float], bool] | None:
    """Wait until Ray has the nodes, CPUs and GPUs for this run; Ray Train itself would wait for ever.

    While they are not there, they are asked for: Ray's autoscaler, where there is one, makes them.

    Returns:
        resources of one rank, and whether it has a GPU; None when asked to stop.

    Raises:
        RunEndError: they did not come in time, or will never come (layout).
    """
    contract = job.contract
    wanted = wants_cuda(job.config.parallel.device, contract)
    # A Ray of this process's own has all that it will ever have.
    limit = job.config.limits.start_timeout if os.environ.get("RAY_ADDRESS") else 0
    demand = _Demand(job.run_name, contract.nodes if limit else None, contract.processes_per_node)
    try:
        return _wait(job, world_size, stop, demand, wanted=wanted, limit=limit)
    finally:
        demand.withdraw()


class _Demand:
    """A placement group of whole nodes: what the autoscaler sees as wanted, and what ends with this process."""

    def __init__(self, run_name: str, nodes: int | None, per_node: int | None) -> None:
        self._name, self._nodes, self._per_node = f"nodes of {run_name}", nodes, per_node
        self._group: Any = None

    def make(self, *, cuda: bool) -> None:
        """Ask for the nodes, once; a CPU stands for a node without GPUs, of which only Ray knows the size."""
        if self._group is not None or self._nodes is None or self._per_node is None:
            return
        from ray.util.placement_group import placement_group

        bundle = {"GPU": float(self._per_node)} if cuda else {"CPU": 1.0}
        self._group = placement_group([bundle] * self._nodes, strategy="STRICT_SPREAD", name=self._name)

    def withdraw(self) -> None:
        """Give back what it holds, for the ranks to take."""
        if self._group is None:
            return
        from ray.util.placement_group import remove_placement_group

        with suppress(Exception):  # it ends with the driver in any case
            remove_placement_group(self._group)
        self._group = None


def _wait(
    job: Job, world_size: int, stop: threading.Event, demand: _Demand, *, wanted: bool | None, limit: int
) -> tuple[dict[str, float], bool] | None:
    import ray

    contract = job.contract
    deadline, said = time.monotonic() + limit, time.monotonic()
    while True:
        alive = [n["Resources"] for n in ray.nodes() if n["Alive"]]
        cuda = _gpus(alive) >= world_size if wanted is None else wanted
        found = rank_resources(alive, contract.nodes, contract.processes_per_node, world_size, cuda=cuda)
        if isinstance(found, dict):
            return found, cuda
        if time.monotonic() >= deadline:
            after = f", also after {limit} s" if limit else ""
            raise RunEndError(Exit.LAYOUT, f"the Ray cluster is too small{after}: {found}", lasting=bool(limit))
        demand.make(cuda=cuda)
        if time.monotonic() - said > 30:
            said = time.monotonic()
            print(f"waiting for the Ray cluster: {found}", flush=True)
        if stop.wait(1.0):
            return None


def _gpus(nodes: list[dict[str, float]]) -> float:
    return sum(n.get("GPU", 0) for n in nodes)


def rank_resources(
    alive: list[dict[str, float]], nodes: int | None, per_node: int | None, world_size: int, *, cuda: bool
) -> dict[str, float] | str:
    """One rank's resources, or what is missing. CPUs are shared out so that no more ranks fit on a node than belong."""
    kind = "GPU" if cuda else "CPU"
    shown = ", ".join(f"{n.get('CPU', 0):g} CPU {n.get('GPU', 0):g} GPU" for n in alive) or "none"
    if nodes is None or per_node is None:
        total = sum(n.get(kind, 0) for n in alive)
        if total < world_size:
            return f"needed {world_size} {kind}s in all, found {total:g} (nodes: {shown})"
        return {"CPU": 1, "GPU": 1} if cuda else {"CPU": 1}
    fit = [n for n in alive if n.get(kind, 0) >= (per_node if cuda else 1)]
    if len(fit) < nodes:
        need = f"{per_node} GPUs" if cuda else "CPUs"
        return f"needed {nodes} nodes with {need}, found {len(fit)} (nodes: {shown})"
    cpus = min(n.get("CPU", 0) for n in fit) / per_node
    # Whole CPUs where that leaves no room for one more rank on a node, else a fraction that fills the node.
    whole = int(cpus)
    if whole >= 1 and (cuda or int(cpus * per_node // whole) == per_node):
        cpus = whole
    share = {"CPU": int(cpus * 10_000) / 10_000}
    return {**share, "GPU": 1} if cuda else share
