"""Instance types, GPUs, and whether every pod fits on its node (2xx)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from generator import catalog
from generator.catalog import LOCAL, instance_types
from generator.diagnostics.finding import Finding, Pointer, Severity
from generator.resolve import Room, memory_text, usable
from generator.rules.context import Context

# Families of general, compute and memory nodes as AWS names them: m5.2xlarge, c7i-flex.large, r6id.metal.
_TYPE = re.compile(r"(m|c|r|t)[0-9][a-z0-9-]*\.(nano|micro|small|medium|large|[0-9]*xlarge|metal(-[0-9]+xl)?)")


def _written_types(ctx: Context) -> Iterator[tuple[str, Pointer, bool]]:
    """(instance type, path, whether in the cluster's file) of every type that the user wrote."""
    for name, group in ctx.environment.workers.items():
        yield group.instance_type, ("workers", name, "instanceType"), False
    if ctx.cluster is not None:
        yield ctx.cluster.system_nodes.instance_type, ("systemNodes", "instanceType"), True


def known_type(ctx: Context) -> Iterator[Finding]:
    for written, path, in_cluster in _written_types(ctx):
        if written in instance_types():
            continue
        fitting = [t.name for t in instance_types().values() if (t.gpus == 0) == in_cluster]
        close = difflib.get_close_matches(written, fitting, n=3)
        say = ctx.in_cluster if in_cluster else ctx.in_environment
        if in_cluster and _TYPE.fullmatch(written):  # many general types exist; whether the head fits is then not known
            yield say(
                "RTD201",
                *path,
                severity=Severity.WARNING,
                message=f"the catalogue has no facts about {written}: whether the head fits, and the price, are not checked",
                help=f"check that it exists and is amd64; known ones near it: {', '.join(close) or 'm7i.xlarge'}",
            )
            continue
        yield say(
            "RTD201",
            *path,
            message=f"there is no instance type `{written}` in the catalogue",
            label=f"did you mean `{close[0]}`?" if close else "",
            help=f"nearest: {', '.join(close)}" if close else "write an EC2 instance type such as g6.12xlarge",
        )


def runs_training(ctx: Context) -> Iterator[Finding]:
    """The GPU must run the image, and the type must be one whose network we can state."""
    for name, group in ctx.environment.workers.items():
        found = instance_types().get(group.instance_type)
        if found is None or usable(found.name):
            continue
        reason = found.refused or "it has no GPU"
        usual = [t.name for t in instance_types().values() if usable(t.name) and t.efa_interfaces and t.name != LOCAL]
        yield ctx.in_environment(
            "RTD202",
            "workers",
            name,
            "instanceType",
            message=f"{found.name} cannot be used for workers: {reason}",
            help=f"choose a type with whole NVIDIA GPUs of 2020 or later, such as {', '.join(usual[7:10])}",
        )
    if ctx.cluster is None:
        return
    system = instance_types().get(ctx.cluster.system_nodes.instance_type)
    if system is not None and (system.gpus or (system.architecture not in ("", "amd64"))):
        yield ctx.in_cluster(
            "RTD202",
            "systemNodes",
            "instanceType",
            message=f"{system.name} cannot be used for system nodes: it has accelerators, or is not amd64",
            help="choose a general type such as m7i.xlarge",
        )


def offered(ctx: Context) -> Iterator[Finding]:
    if ctx.cluster is None or ctx.cluster.region is None:
        return
    region = ctx.cluster.region
    if region not in catalog.zones():
        close = difflib.get_close_matches(region, catalog.zones(), n=1, cutoff=0.8)
        yield ctx.in_cluster(
            "RTD208",
            "region",
            message=f"the catalogue has no facts about {region}: offers, zones and prices there are not checked",
            label=f"did you mean `{close[0]}`?" if close else "",
            notes=(f"it knows {', '.join(sorted(catalog.zones()))}",),
            help="check by hand that the instance types exist there",
        )
        return
    for written, path, in_cluster in _written_types(ctx):
        found = instance_types().get(written)
        if found is None or found.refused or found.name == LOCAL or found.offered_in(region):
            continue
        elsewhere = sorted(r for r in catalog.zones() if found.offered_in(r))
        say = ctx.in_cluster if in_cluster else ctx.in_environment
        yield say(
            "RTD203",
            *path,
            message=f"{written} is not offered in {region}",
            notes=("as of the catalogue's sources of July 2026",),
            help=f"choose another type, or a cluster in {' or '.join(elsewhere)}"
            if elsewhere
            else "choose another type",
        )


def gpu_count(ctx: Context) -> Iterator[Finding]:
    for group, written in ctx.groups():
        if group.gpus > group.type.gpus:
            has = f"{group.type.gpus} × {group.type.gpu_model}" if group.type.gpus else "none"
            yield ctx.in_environment(
                "RTD204",
                "workers",
                group.name,
                "gpusPerNode",
                message=f"{group.gpus} GPUs per node asked for, but {group.type.name} has {has}",
                help=f"set workers.{group.name}.gpusPerNode to {group.type.gpus}, or remove it to use all",
            )
        elif group.type.gpus and written.gpus_per_node == 0:
            yield ctx.in_environment(
                "RTD204",
                "workers",
                group.name,
                "gpusPerNode",
                message=f"no GPU asked for on {group.type.name}, which has {group.type.gpus}",
                help="a worker group trains on GPUs; remove the key to use all",
            )


def processes(ctx: Context) -> Iterator[Finding]:
    """One rank per GPU; and the same number of ranks on every node, or the device mesh has no rows."""
    groups = list(ctx.groups())
    for group, written in groups:
        if written.processes_per_node is not None and group.gpus and written.processes_per_node != group.gpus:
            yield ctx.in_environment(
                "RTD207",
                "workers",
                group.name,
                "processesPerNode",
                message=f"{written.processes_per_node} processes per node contradict {group.gpus} GPUs per node",
                help="remove processesPerNode: one rank runs per GPU",
            )
    if groups and any(group.processes != groups[0][0].processes for group, _ in groups):
        counts = ", ".join(f"{group.name}: {group.processes}" for group, _ in groups)
        last = next(group for group, _ in groups if group.processes != groups[0][0].processes)
        yield ctx.in_environment(
            "RTD207",
            "workers",
            last.name,
            on_key=True,
            message=f"the groups have different numbers of ranks per node ({counts})",
            help="give every group the same number of GPUs per node, or train on one group",
        )


def head_fits(ctx: Context) -> Iterator[Finding]:
    head, cluster = ctx.resolved.head, ctx.cluster
    if head.room is None or head.type is None or cluster is None or head.type.gpus:
        return
    wanted = f"cpu {head.cpu} and memory {memory_text(head.memory_mib)}"
    short = _shortfall(head.cpu, head.memory_mib, head.room)
    if short:
        written = ctx.loaded.environment.source.data.get("head") is not None
        say = ctx.in_environment if written else ctx.in_cluster
        path = ("head",) if written else ("systemNodes", "instanceType")
        yield say(
            "RTD205",
            *path,
            message=f"the head ({wanted}) does not fit on {head.type.name}: {short}",
            notes=head.room.notes,
            on_key=written,
            help=f"choose a larger systemNodes.instanceType, or lower head.cpu and head.memory to at most {_most(head.room)}",
        )


def heads_fit_together(ctx: Context) -> Iterator[Finding]:
    """Each environment's job has its own head, and all of them run on the system nodes."""
    heads = [ctx.resolved.head, *(other.head for other in ctx.neighbours)]
    room, cluster = ctx.resolved.head.room, ctx.cluster
    if room is None or cluster is None or len(heads) < 2:
        return
    nodes = cluster.system_nodes.count
    cpu, memory = sum(h.cpu for h in heads), sum(h.memory_mib for h in heads)
    if cpu * 1000 > nodes * room.cpu_m or memory > nodes * room.memory_mib:
        yield ctx.in_cluster(
            "RTD210",
            "systemNodes",
            message=f"the {len(heads)} heads of this cluster's environments (cpu {cpu} and memory {memory_text(memory)}) do not fit together",
            notes=(*room.notes, f"there {'is' if nodes == 1 else 'are'} {nodes} such node{'' if nodes == 1 else 's'}"),
            help="raise systemNodes.count or choose a larger type; until then one job waits for another's end",
            on_key=True,
        )


def workers_fit(ctx: Context) -> Iterator[Finding]:
    for group, written in ctx.groups():
        short = _shortfall(group.cpu, group.memory_mib, group.room)
        if not short:
            continue
        key = "cpu" if written.cpu is not None and group.cpu * 1000 > group.room.cpu_m else "memory"
        yield ctx.in_environment(
            "RTD206",
            "workers",
            group.name,
            key,
            message=f"a worker (cpu {group.cpu} and memory {memory_text(group.memory_mib)}) does not fit on {group.type.name}: {short}",
            notes=group.room.notes,
            help=f"ask for at most {_most(group.room)}, or remove cpu and memory to use what the node has left",
        )


def _shortfall(cpu: int, memory_mib: int, room: Room) -> str:
    parts = []
    if cpu * 1000 > room.cpu_m:
        parts.append(f"{cpu * 1000 - room.cpu_m}m CPU too much")
    if memory_mib > room.memory_mib:
        parts.append(f"{memory_mib - room.memory_mib} MiB too much")
    return " and ".join(parts)


def _most(room: Room) -> str:
    return f"cpu {max(room.cpu_m // 1000, 0)} and memory {max(room.memory_mib // 1024, 0)}Gi"


def local_apart(ctx: Context) -> Iterator[Finding]:
    """`local` is this machine; it cannot be a node of a cluster on AWS, nor the other way round."""
    if ctx.cluster is None:
        return
    system_local = ctx.cluster.system_nodes.instance_type == LOCAL
    if system_local and ctx.cluster.managed == "eksctl":
        yield ctx.in_cluster(
            "RTD209",
            "systemNodes",
            "instanceType",
            message="eksctl cannot make nodes of type `local`",
            help="set managed to existing, or choose an EC2 type such as m7i.xlarge",
        )
    for name, group in ctx.environment.workers.items():
        if (group.instance_type == LOCAL) != system_local:
            yield ctx.in_environment(
                "RTD209",
                "workers",
                name,
                "instanceType",
                message=f"workers of type {group.instance_type} cannot join a cluster whose system nodes are {ctx.cluster.system_nodes.instance_type}",
                help="use `local` for all nodes of a cluster, or for none",
            )


RULES = (
    known_type,
    runs_training,
    offered,
    gpu_count,
    processes,
    head_fits,
    heads_fit_together,
    workers_fit,
    local_apart,
)
OF_PODS = (head_fits, heads_fit_together, workers_fit)
