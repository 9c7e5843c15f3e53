"""Where each rank runs: process group, even layout, a storage that all ranks share, and the device mesh."""

from __future__ import annotations

import gc
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from training.config import check_world_size
from training.contract import Contract, ContractError, Exit, RunEndError
from training.options import Batch, Parallel
from training.sizes import sharding_mode
from training.storage import Storage, is_full

# For ranks on the CPU: torch's checkpoints open every GPU that they see, and hold half a GB of each.
NO_GPUS = {"CUDA_VISIBLE_DEVICES": ""}
PROBE_S = 10.0  # network file systems may show a new file to other clients this late
# What a killed process leaves beside the files that it was writing: see `Storage.write` and `check_storage`.
LEFTOVER = re.compile(
    r"\.((run|owner|refused)\.json|(loss|throughput)\.svg|\.probe-\w+)(\.[0-9a-f]{8}){1,2}|\.probe-[0-9a-f]{32}"
)


@dataclass(frozen=True)
class Place:
    """One rank's position, as Ray Train and torchrun write it to the environment."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    node_rank: int = 0
    host: str = ""

    @classmethod
    def from_env(cls, environ: Mapping[str, str], host: str = "") -> Place:
        """Position from RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and NODE_RANK or torchrun's GROUP_RANK.

        Raises:
            ContractError: one of them is no number that makes sense.
        """

        def number(name: str, default: int, low: int = 0) -> int:
            text = environ.get(name, str(default)).strip()
            if not re.fullmatch("[0-9]{1,9}", text) or int(text) < low:
                raise ContractError(f"{name}={text} must be a whole number, {low} or more")
            return int(text)

        world, rank = number("WORLD_SIZE", 1, 1), number("RANK", 0)
        if rank >= world:
            raise ContractError(f"RANK={rank} must be less than WORLD_SIZE={world}")
        return cls(
            rank=rank,
            world_size=world,
            local_rank=number("LOCAL_RANK", rank),
            local_world_size=number("LOCAL_WORLD_SIZE", world, 1),
            node_rank=number("NODE_RANK" if "NODE_RANK" in environ else "GROUP_RANK", 0),
            host=host or socket.gethostname(),
        )


def backend(cuda: bool) -> str:
    """Process-group backend; gloo beside NCCL carries what ranks tell each other when NCCL itself is in question."""
    return "cpu:gloo,cuda:nccl" if cuda else "gloo"


class LostRankError(RuntimeError):
    """Another rank has died, or does not take part any more; what this one knows of it. A retry may mend it."""


def lost_rank(error: BaseException) -> bool:
    """Whether an error is that of a collective whose other side is gone; gloo's errors have no class of their own."""
    import torch.distributed as dist

    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo/transport" in str(error))


@contextmanager
def process_group(place: Place, *, cuda: bool, timeout_s: int) -> Iterator[None]:
    """The default process group of a run without Ray: torchrun's ranks, or this process alone.

    Args:
        timeout_s: a collective that takes longer has lost a rank.
    """
    import torch
    import torch.distributed as dist

    if cuda:
        torch.cuda.set_device(place.local_rank)
    timeout = timedelta(seconds=timeout_s)
    if place.world_size == 1:
        dist.init_process_group(backend(cuda), store=dist.HashStore(), rank=0, world_size=1, timeout=timeout)
    else:
        dist.init_process_group(backend(cuda), timeout=timeout)
    try:
        yield
    finally:
        # The frames of an error of DCP hold process groups in a cycle; one that is left at exit aborts the process.
        gc.collect()
        dist.destroy_process_group()


def gather(value: Any) -> list[Any]:
    """Every rank's `value`, by rank, on every rank."""
    import torch.distributed as dist

    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def broadcast(value: Any) -> Any:
    """Rank 0's `value` on every rank."""
    import torch.distributed as dist

    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def on_rank_0(place: Place, action: Callable[[], None]) -> None:
    """Rank 0 runs `action`, however long that takes, and the others wait: a collective alone has a limit of time.

    Raises:
        RunEndError: that of `action`, on all ranks.
    """
    ended: list[RunEndError | None] = []

    def act() -> None:
        try:
            action()
            ended.append(None)
        except RunEndError as error:
            ended.append(error)
        except Exception as error:  # the other ranks must not wait for ever, whatever it was
            ended.append(RunEndError(Exit.FAILED, f"rank 0 on {place.host}: {type(error).__name__}: {error}"))

    if place.rank == 0:
        threading.Thread(target=act, name="rank 0 alone", daemon=True).start()
    # A copy: what is sent as empty must not be filled by the thread before rank 0 itself looks at it.
    while not (told := broadcast(list(ended))):
        time.sleep(0.2)
    if told[0]:
        raise told[0]


def agree(problem: str | None) -> str | None:
    """All ranks' problems, equal ones once, on every rank; None when no rank has one."""
    return "\n".join({p: None for p in gather(problem) if p}) or None


def check_layout(place: Place, contract: Contract, batch: Batch) -> list[Place]:
    """All ranks' places, after proof that they lie as promised.

    The mesh below takes `nodes × ranks per node` for granted; a scheduler that puts three ranks on one node and one on
    another would give a mesh whose rows are not nodes, and a run that is slow without a word.

    Raises:
        RunEndError: uneven nodes, wrong number of nodes or ranks, or a batch that does not divide.
    """
    places: list[Place] = gather(place)
    per_node: dict[int, int] = {}
    hosts: dict[int, str] = {}
    for p in places:
        per_node[p.node_rank] = per_node.get(p.node_rank, 0) + 1
        hosts[p.node_rank] = p.host
    found = ", ".join(f"{count} on {hosts[node]}" for node, count in sorted(per_node.items()))
    problem = None
    if len(set(per_node.values())) > 1:
        problem = f"uneven layout: ranks per node are {found}; every node must hold the same number"
    elif contract.world_size is not None and len(places) != contract.world_size:
        problem = f"wrong world size: {len(places)} ranks, needed {contract.world_size} ({found})"
    elif contract.nodes is not None and len(per_node) != contract.nodes:
        each = contract.processes_per_node
        problem = f"wrong layout: needed {contract.nodes} nodes with {each} ranks each, found {found}"
    elif problem := check_world_size(batch, len(places)):
        raise RunEndError(Exit.LAYOUT, problem, lasting=False)  # a setting, which the next start may have right
    if problem:
        raise RunEndError(Exit.LAYOUT, problem)
    return places


def check_storage(storage: Storage, place: Place, *, required: bool) -> bool:
    """Whether all ranks see what rank 0 writes to the run path.

    Without this a path that is local to each node fails at the first checkpoint, after paid hours, or never.

    Args:
        required: False for storage `none` on several nodes, where a node's own disk is expected.

    Raises:
        RunEndError: a rank cannot write, or one does not see what rank 0 wrote, and `required`.
    """
    name = f".probe-{uuid.uuid4().hex}"
    failure, full = None, False
    if place.rank == 0:
        with suppress(OSError):  # leftovers do no harm
            for left in filter(LEFTOVER.fullmatch, storage.names("")):
                storage.delete(left)
        try:
            storage.write(name, b"seen")
        except OSError as error:
            failure, full = f"rank 0 on {place.host} cannot write to {storage.root}: {error}", is_full(error)
    name, failure, full = broadcast((name, failure, full))
    if failure:
        raise RunEndError(Exit.STORAGE, failure, lasting=not full)
    seen, problem = False, ""
    deadline = time.monotonic() + (PROBE_S if required else 2.0)
    while True:
        try:
            seen = storage.read(name) == b"seen"
        except OSError as error:
            problem = f" ({error})"
        if seen or time.monotonic() >= deadline:
            break
        time.sleep(0.2)
    answers: list[tuple[bool, str]] = gather((seen, f"rank {place.rank} on {place.host}{problem}"))
    if place.rank == 0:
        storage.delete(name)
    blind = [who for saw, who in answers if not saw]
    if not blind and (refusals := gather(_refusal(storage, f"{name}.{place.rank:08x}", place))) and any(refusals):
        messages, fulls = zip(*filter(None, refusals), strict=True)
        raise RunEndError(Exit.STORAGE, "\n".join(messages), lasting=not all(fulls))
    if blind and required:
        raise RunEndError(
            Exit.STORAGE,
            f"{storage.root} is not one shared folder: not seen there by {', '.join(blind)}, though rank 0 wrote it; "
            "mount the same volume at this path in every pod",
        )
    return not blind


def _refusal(storage: Storage, name: str, place: Place) -> tuple[str, bool] | None:
    """Why this rank cannot write to a storage that it can read, and whether for want of room; None when it can."""
    if place.rank == 0:
        return None  # it has written before
    try:
        storage.write(name, b"")
        storage.delete(name)
    except OSError as error:
        return f"rank {place.rank} on {place.host} cannot write to {storage.root}: {error}", is_full(error)
    return None


def build_mesh(places: list[Place], parallel: Parallel, *, cuda: bool) -> Any:
    """Device mesh: (`replicate`, `shard`) = (nodes, ranks per node) for HSDP, `shard` over all ranks for the others."""
    from torch.distributed.device_mesh import init_device_mesh

    device = "cuda" if cuda else "cpu"
    nodes = len({p.node_rank for p in places})
    if sharding_mode(parallel, nodes, len(places) // nodes) == "hsdp":
        return init_device_mesh(device, (nodes, len(places) // nodes), mesh_dim_names=("replicate", "shard"))
    return init_device_mesh(device, (len(places),), mesh_dim_names=("shard",))


def wants_cuda(device: str, contract: Contract) -> bool | None:
    """Whether the ranks are to compute on GPUs: as `device` says, else the surroundings; None when neither does.

    Raises:
        RunEndError: GPUs are required, and the surroundings say that there are none.
    """
    if device == "cuda" and contract.gpus_per_node == 0:
        raise RunEndError(Exit.LAYOUT, "device cuda needs GPUs, and the nodes have none (RTD_GPUS_PER_NODE=0)")
    if device != "auto":
        return device == "cuda"
    return None if contract.gpus_per_node is None else contract.gpus_per_node > 0


def use_cuda(device: str, contract: Contract) -> bool:
    """Whether this rank computes on a GPU: as wanted, else whether there is one.

    Raises:
        RunEndError: as `wants_cuda`.
    """
    wanted = wants_cuda(device, contract)
    if wanted is not None:
        return wanted
    import torch

    return bool(torch.cuda.is_available())


def missing_gpu(place: Place, contract: Contract) -> str | None:
    """Why this rank cannot compute on the GPU that is its own, or None. Under Ray `wait_for_cluster` saw to that."""
    import torch

    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if place.local_rank < found:
        return None
    said = "" if contract.gpus_per_node is None else f" (RTD_GPUS_PER_NODE={contract.gpus_per_node})"
    return f"rank {place.rank} on {place.host} needs {place.local_rank + 1} visible GPUs there{said}, found {found}"
