"""Measure the network between the ranks: all-gather, reduce-scatter, all-reduce, inside a node and between nodes.

    python -m training.probe                                two ranks of a Ray of its own, CPU
    torchrun --nproc-per-node=4 -m training.probe --num-workers=0
    python -m training.probe --largest=256MiB --nominal-gbps=40

It is started as a training is: on a cluster as the entrypoint of a RayJob, where the chart's RTD_* variables say how
many ranks there are, on which device, and which transport NCCL must use; a wrong one ends it with 3, as it would end
the training. Each collective is checked on known numbers first: a wrong result ends the probe.

The groups are those of a training:

    inside    the ranks of one node, all nodes at once            HSDP's gathers and reduce-scatters
    between   the ranks with the same place on every node, all    HSDP's all-reduce; they share the nodes' cards
              places at once
    world     all ranks                                           full sharding

and the slowest rank of the slowest group is shown. Columns, as nccl-tests defines them (its doc/PERFORMANCE.md):

    size      of the output of an all-gather, the input of a reduce-scatter, the buffer of an all-reduce
    time      mean of one run
    algbw     size / time
    busbw     algbw × (n-1)/n, for an all-reduce × 2 (n-1)/n, with n ranks in a group: what each rank would send in a
              ring, so it compares with the hardware whatever n is
    node      bytes that one node sends in a ring / time; what the network card must carry
    expected  those bytes for one run
    sent      what the counters of the interfaces say, of the node that sent most; EFA's own where there is EFA, else
              those of the network devices but lo. More than expected by some percent are headers

The run path receives probe.json with every number, in bytes and seconds. On several nodes without shared storage it is
printed as one line instead.

Exit codes: 0 done, 1 failed or wrong result, 2 wrong flags, 3 wrong network, 4 wrong storage, 5 wrong layout, 143
stopped; what was measured until then is kept.
"""

from __future__ import annotations

import argparse
import faulthandler
import functools
import inspect
import json
import re
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from training import config, metrics
from training.collectives import NAMES, Collective, bus_factor, node_bytes
from training.contract import ContractError, Exit, RunEndError
from training.loop import ending_of
from training.options import Batch
from training.pace import Interfaces
from training.prepare import guard_transport
from training.probe_table import Group, Sweep, binary, counted, head, limits, record, row
from training.session import Ending, Hooks, Job, Session
from training.storage import Storage
from training.topology import LostRankError, Place, agree, check_layout, check_storage, gather, lost_rank
from training.train import add_place_flags, carry_out, leave, settings_of, show, surroundings

RECORD = "probe.json"
SETTINGS = ("device", "start_timeout", "collective_timeout")  # those of a training that mean something here


def size(text: str) -> int:
    """Bytes of `4096`, `64K`, `1MiB`, `2GB`; the units are powers of 1024.

    Raises:
        argparse.ArgumentTypeError: it is none of these.
    """
    found = re.fullmatch(r"([1-9]\d{0,12}) *([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write 1MiB, 64K or 4096")
    return int(found[1]) << 10 * " KMG".index(found[2].upper() or " ")


def _count(low: int) -> Any:
    def number(text: str) -> int:
        if not re.fullmatch(r"\d{1,6}", text) or int(text) < low:
            raise argparse.ArgumentTypeError(f"must be a whole number, {low} or more, not {text!r}")
        return int(text)

    return number


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 < rate < 1e6:
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return rate


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m training.probe",
        description=inspect.getdoc(sys.modules[__name__]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    where = made.add_argument_group("where it runs")
    where.add_argument("--preset", metavar="name", help="without effect; the chart gives it to every module")
    add_place_flags(where, default_path="runs/probe")
    for name in SETTINGS:
        flag = f"--{name.replace('_', '-')}"
        default = config.fields()[name][0].default
        text = f"{config.descriptions()[name]} [{default}]"
        where.add_argument(
            flag,
            default=argparse.SUPPRESS,
            metavar="|".join(config.fields()[name][0].metadata["choices"]) or "int",
            help=text,
        )
    what = made.add_argument_group("what it measures")
    what.add_argument("--smallest", type=size, default=2**20, metavar="size", help="first size [1MiB]")
    what.add_argument("--largest", type=size, metavar="size", help="no size is above it [1GiB on GPUs, 64MiB on CPUs]")
    what.add_argument(
        "--factor", type=_count(2), default=4, metavar="int", help="each size is this many times the one before [4]"
    )
    what.add_argument("--warmup", type=_count(0), default=3, metavar="int", help="runs before the timed ones [3]")
    what.add_argument("--iterations", type=_count(1), default=10, metavar="int", help="timed runs [10]")
    what.add_argument(
        "--nominal-gbps",
        type=_rate,
        default=0.0,
        metavar="number",
        help="network bandwidth of a node in Gbit/s, from the vendor's table; shows the node's rate as a share of it",
    )
    what.add_argument(
        "--json", dest="as_json", action="store_true", help="end the output with the record as one line of JSON"
    )
    return made


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    made = parser()
    given = vars(made.parse_args(argv))
    settings = settings_of(made, "tiny", {name: given.pop(name) for name in SETTINGS if name in given})
    workers, run_path = given.pop("num_workers"), given.pop("run_path")
    del given["preset"]
    sweep = Sweep(**given)
    if sweep.largest is not None and sweep.largest < sweep.smallest:
        made.error("--largest is below --smallest")
    try:
        contract, place, path = surroundings(made, workers, run_path, default_path="runs/probe")
    except ContractError as error:
        print(f"wrong environment:\n{error}", file=sys.stderr)
        return int(Exit.FAILED)
    job = Job(settings, contract, path, contract.run_name or path.rsplit("/", 1)[-1])
    body = functools.partial(run, sweep=sweep)
    ending = _refused(job) or carry_out(job, place, workers, body)
    if sweep.as_json and ending.code == Exit.DONE:
        return int(Exit.DONE)  # the record is the last line
    return show(ending, place, path)


def _refused(job: Job) -> Ending | None:
    """Why this run path is not for a probe, or None."""
    try:
        storage = Storage(job.run_path)
        if refused := metrics.refusal(storage):
            return Ending("failed", *refused)
        if storage.read(metrics.RECORD) is not None:
            text = f"{storage.path(metrics.RECORD)} is there: {job.run_path} belongs to a training"
            return Ending("failed", Exit.STORAGE, f"{text}; give the probe another --run-path")
    except (OSError, ValueError, ImportError) as error:
        return Ending("failed", Exit.STORAGE, f"cannot read the run path {job.run_path}: {error}")
    return None


def run(job: Job, place: Place, hooks: Hooks, *, cuda: bool, sweep: Sweep) -> Ending:
    """Measure, as one rank of several; the process group exists already.

    Returns:
        the ending, the same on all ranks; also for those that nothing can mend.

    Raises:
        LostRankError: another rank has gone; under Ray a retry may mend it.
    """
    try:
        session = Session(job, place, hooks, cuda, Storage(job.run_path))
    except (OSError, ValueError, ImportError) as error:
        return Ending("failed", Exit.STORAGE, f"cannot open the run path {job.run_path}: {error}")
    try:
        return _measure_all(session, sweep)
    except RunEndError as error:
        if place.rank == 0 and error.lasting:
            metrics.refuse(session.storage, error.code, error.message)
        return ending_of(error)
    except RuntimeError as error:
        if not lost_rank(error):
            raise
        cause = str(error).strip().splitlines()[0]
        text = f"rank {place.rank} on {place.host} has lost another rank: it has died, or was stuck for"
        raise LostRankError(f"{text} {job.config.limits.collective_timeout} s (collective_timeout); {cause}") from error


def _measure_all(session: Session, sweep: Sweep) -> Ending:
    place = session.place
    session.places = check_layout(place, session.job.contract, Batch(global_batch_size=place.world_size))
    # Nothing is kept on the way, so a probe needs no shared storage: without it the record goes to the output.
    session.shared = check_storage(session.storage, place, required=False)
    guard_transport(session)
    groups = _groups(session)
    measured: list[dict[str, Any]] = []
    ending = Ending("finished", Exit.DONE, limits(session, groups))
    for line in head(session, sweep, groups):
        session.say(line)
    interfaces = Interfaces() if place.local_rank == 0 else None
    for group, name, size_ in _plan(session, sweep, groups):
        if any(gather(session.hooks.stop)):
            message = f"asked to stop: ended after {counted(len(measured), 'measurement')}, which the record keeps"
            ending = Ending("preempted", Exit.PREEMPTED, message)
            break
        one = _measure(session, group, name, size_, sweep, interfaces)
        if len(group.ranks[0]) > 1:
            measured.append(one)
            session.say(row(one, session.nodes, sweep.nominal_gbps))
    _keep(session, sweep, record(session, sweep, measured, ending.state))
    return ending


def _groups(session: Session) -> list[Group]:
    """The groups with more than one rank, on the mesh that HSDP trains on; with one rank that rank alone."""
    from torch.distributed.device_mesh import init_device_mesh

    nodes, world = session.nodes, session.place.world_size
    each = world // nodes
    mesh = init_device_mesh("cuda" if session.cuda else "cpu", (nodes, each), mesh_dim_names=("replicate", "shard"))
    rows: list[list[int]] = mesh.mesh.tolist()
    found = []
    if each > 1:
        found.append(Group("inside", rows, mesh.get_group("shard"), 0))
    if nodes > 1:
        found.append(Group("between", [list(column) for column in zip(*rows, strict=True)], mesh.get_group(0), each))
    if len(found) != 1:  # one of them alone has all ranks already
        found.append(Group("world", [list(range(world))], None, 1 if nodes > 1 else 0))
    return found


def _plan(session: Session, sweep: Sweep, groups: list[Group]) -> Iterator[tuple[Group, str, int]]:
    sizes = sweep.sizes(cuda=session.cuda)
    if session.place.world_size == 1:
        sizes = sizes[:1]  # only to see that the results are right
    for group in groups:
        for name in NAMES:
            for each in sizes:
                yield group, name, each


def _measure(
    session: Session, group: Group, name: str, wanted: int, sweep: Sweep, interfaces: Interfaces | None
) -> dict[str, Any]:
    """Check one collective, then time it. All ranks together.

    Returns:
        the measurement as it is in the record, on every rank.

    Raises:
        RunEndError: a rank has no memory for it, or got a wrong result.
    """
    import torch

    place = session.place
    device = torch.device("cuda", torch.cuda.current_device()) if session.cuda else torch.device("cpu")
    who = f"rank {place.rank} on {place.host}"
    collective, problem = None, None
    try:
        collective = Collective(name, wanted, group.handle, device)
    except RuntimeError as error:
        problem = f"no memory for {name} of {binary(wanted)}: {who}: {str(error).splitlines()[0]}"
    if (problem := agree(problem)) or collective is None:
        raise RunEndError(Exit.FAILED, f"{problem}\ntake a smaller --largest")
    problem = None
    if not collective.right():
        problem = f"wrong result: {name} of {binary(collective.size)} ({group.name}): {who}"
    if problem := agree(problem):
        raise RunEndError(Exit.FAILED, f"{problem}\nnumbers that all ranks know came out changed; no time counts")
    for _ in range(sweep.warmup):
        collective()
    collective.wait()
    _barrier()
    if interfaces:
        interfaces.moved()
    _barrier()
    seconds = collective.seconds(sweep.iterations)
    _barrier()
    moved = interfaces.moved() if interfaces else None
    told: list[tuple[float, dict[str, dict[str, float]] | None]] = gather((seconds, moved))
    slowest = max(each for each, _ in told)
    ranks, size_ = collective.ranks, collective.size
    return {
        "group": group.name,
        "collective": name,
        "bytes": size_,
        "seconds": slowest,
        "algorithmBytesPerSecond": size_ / slowest,
        "busBytesPerSecond": size_ / slowest * bus_factor(name, ranks),
        "groups": [{"ranks": each, "seconds": max(told[r][0] for r in each)} for each in group.ranks],
        "nodeBytesExpected": node_bytes(name, size_, ranks=ranks, groups=group.crossing, cuda=session.cuda),
        "network": [
            {
                "host": session.places[rank].host,
                **{way: sum(one[way] for one in each.values()) / sweep.iterations for way in ("sent", "received")},
            }
            for rank, (_, each) in enumerate(told)
            if each is not None
        ],
    }


def _barrier() -> None:
    """Over gloo, which is beside NCCL too: nothing of it is on the network that is measured on a GPU."""
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.zeros(1))


def _keep(session: Session, sweep: Sweep, content: dict[str, Any]) -> None:
    """Write the record, or print it; the same ending on all ranks.

    Raises:
        RunEndError: the run path refuses it.
    """
    problem = None
    if session.place.rank == 0 and session.shared:
        try:
            session.storage.write(RECORD, json.dumps(content, indent=1).encode())
        except OSError as error:
            problem = f"cannot write {session.storage.path(RECORD)}: {error}"
    if sweep.as_json or not session.shared or problem:
        session.say(json.dumps(content))
    if problem := agree(problem):
        raise RunEndError(Exit.STORAGE, problem, lasting=False)


def _start() -> NoReturn:
    faulthandler.enable()  # a rank that C++ code aborts says where
    leave(main())


if __name__ == "__main__":
    # The module again, under its own name: Ray's workers can import that one, and not `__main__`.
    from training.probe import _start as start

    start()
