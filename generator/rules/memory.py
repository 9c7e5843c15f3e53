"""Whether the training fits into what its nodes have: GPU memory, the pods' memory, disk, and the mesh (2xx)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from generator.catalog import LOCAL, instance_types
from generator.diagnostics.finding import Finding, Pointer, Severity
from generator.plan import host
from generator.plan.changes import SMALLEST, changes_that_fit, fits, needed_at_least
from generator.plan.disk import checkpoints_on_disk, disk
from generator.plan.memory import NEAR, Memory, gpu_memory, training_config
from generator.resolve import Group, memory_text, usable, volume_for
from generator.rules.context import Context

_GB, _GIB = 10**9, 2**30


def _sum(memory: Memory, unit: int, suffix: str) -> str:
    """`state 6.2 GB + loss 2.3 GB = 8.5 GB`."""
    parts = " + ".join(f"{name} {size / unit:.1f}" for name, size in memory.parts.items() if size)
    return f"{parts} = {memory.total / unit:.1f} {suffix}"


def _shown(name: str, value: object) -> str:
    most = " or less" if isinstance(value, int) and value > 1 else ""
    return f"{name} to {value}{most}"


def gpu(ctx: Context) -> Iterator[Finding]:
    """An error above what the GPU has, a warning when near to it."""
    found = gpu_memory(ctx.resolved)
    if not found:
        return
    name, memory = max(found, key=lambda item: item[1].share)
    if memory.share <= NEAR:
        return
    group = next(g for g in ctx.resolved.groups if g.name == name)
    changes = changes_that_fit(ctx.resolved, NEAR)
    given = ctx.environment.training.args
    blamed = next((argument for argument, _ in changes if argument in given), None)
    path: Pointer = ("training", "args", blamed) if blamed else ("training", "preset")
    above = memory.share > 1
    yield ctx.in_environment(
        "RTD215",
        *path,
        severity=Severity.ERROR if above else Severity.WARNING,
        message=f"the training needs about {memory.total / _GB:.1f} GB on each {group.type.gpu_model} of workers.{name}, "
        f"{'which has' if above else 'close to its'} {memory.available / _GB:.1f} GB",
        notes=(
            f"by training/sizes.py: {_sum(memory, _GB, 'GB')}",
            "this was 4 to 30 % above the peak that was measured on one H200",
        ),
        help=_gpu_help(ctx, changes),
    )


def _gpu_help(ctx: Context, changes: list[tuple[str, object]]) -> str:
    if [name for name, _ in changes] == ["precision"]:
        return "use more or larger GPUs, or set training.args.precision to bfloat16, which loses small updates"
    changes = [change for change in changes if change[0] != "precision"]
    if changes:
        return f"set training.args.{', or '.join(_shown(*change) for change in changes)}; or use more or larger GPUs"
    least = needed_at_least(ctx.resolved)
    if fits(ctx.resolved, NEAR, **SMALLEST):
        together = ", ".join(f"{name}: {value}" for name, value in SMALLEST.items())
        return f"set all of {together} in training.args, which needs {least / _GB:.1f} GB"
    if not least:
        return "choose an instance type whose GPUs have more memory, or more nodes"
    large = [t for t in instance_types().values() if usable(t.name) and t.gpu_memory_mib * 2**20 * NEAR >= least]
    models = list(dict.fromkeys(t.gpu_model for t in sorted(large, key=lambda t: (t.gpu_memory_mib, t.name))))
    needed = f"no argument alone is enough, and at the least it needs {least / _GB:.1f} GB on each GPU"
    return f"{needed}: choose {' or '.join(models[:3])}, or more nodes" if models else f"{needed}: choose more nodes"


def pod(ctx: Context) -> Iterator[Finding]:
    """An error when the training alone does not fit, a warning when it leaves no room for Ray's object store."""
    groups = {group.name: group for group in ctx.resolved.groups if group.type.name != LOCAL}
    for name, memory in host.pod_memory(ctx.resolved):
        if name not in groups:
            continue
        group, usual = groups[name], host.MONITOR * (1 - host.STORE)
        least = math.ceil(memory.total / host.MONITOR / _GIB)
        advised = math.ceil(memory.total / usual / _GIB)
        impossible = memory.total > host.MONITOR * memory.available
        if not impossible and memory.total <= usual * memory.available:
            continue
        written = ctx.environment.workers[name].memory is not None
        ranks = f"the {group.processes} ranks" if group.processes > 1 else "the rank"
        yield ctx.in_environment(
            "RTD213",
            "workers",
            name,
            "memory" if written else "instanceType",
            severity=Severity.ERROR if impossible else Severity.WARNING,
            message=f"{ranks} of a worker and Ray need about {memory.total / _GIB:.1f} GiB of memory, and the pod has "
            f"{memory_text(group.memory_mib)}",
            notes=(
                _sum(memory, _GIB, "GiB"),
                f"Ray kills processes above {100 * host.MONITOR:.0f} % of the pod's memory, and its object store in /dev/shm, "
                f"which counts as the pod's, may take {100 * host.STORE:.0f} % of it",
            ),
            help=f"set workers.{name}.memory to {advised}Gi or more ({least}Gi at the least)"
            + (", or remove it to use what the node has left" if written else " on a larger instance type"),
        )


def head(ctx: Context) -> Iterator[Finding]:
    """GCS, dashboard and the driver run in the head; `local` enforces no limit, and a job on a cluster makes no head."""
    memory, system = ctx.resolved.head.memory_mib, ctx.resolved.head.type
    if ctx.environment.mode == "jobOnCluster":
        return
    if (system is not None and system.name == LOCAL) or memory >= host.HEAD_USUAL_MIB:
        return
    impossible = memory < host.HEAD_LEAST_MIB
    yield ctx.in_environment(
        "RTD214",
        "head",
        "memory",
        severity=Severity.ERROR if impossible else Severity.WARNING,
        message=f"{memory_text(memory)} is little for the Ray head, which runs GCS, dashboard and the driver",
        notes=(
            f"heads of 2.7 and 3.5 GB were seen; KubeRay's maintainers warn below {memory_text(host.HEAD_LEAST_MIB)} "
            f"(ray-project/kuberay 761, 4089, 4288)",
        ),
        help=f"set head.memory to {memory_text(host.HEAD_USUAL_MIB)} or more, or remove it: 8Gi is the default",
    )


def volume(ctx: Context) -> Iterator[Finding]:
    """What the node writes must leave the kubelet's tenth of its volume free, or the pod is evicted."""
    config = training_config(ctx.resolved)
    for name, memory in disk(ctx.resolved):
        if config is None or memory.total <= memory.available:
            continue
        group = next(g for g in ctx.resolved.groups if g.name == name)
        copies, kept = checkpoints_on_disk(config, ctx.resolved), config.checkpoints.keep_checkpoints
        storage = ctx.environment.training.storage.kind
        path: Pointer = ("training", "preset")
        if "keep_checkpoints" in ctx.environment.training.args and storage == "none":
            path = ("training", "args", "keep_checkpoints")
        elif "volume_size" in ctx.environment.workers[name].model_fields_set:
            path = ("workers", name, "volumeSize")
        yield ctx.in_environment(
            "RTD212",
            *path,
            message=f"about {memory.total / _GB:.0f} GB on the disk of each node exceed the "
            f"{memory.available / _GB:.0f} GB that its volume of {group.volume_gib} GiB has for pods and images",
            notes=(
                _sum(memory, _GB, "GB"),
                f"checkpoints: {copies} at once"
                + (f" (keep_checkpoints {kept}, and the next)" if storage == "none" else " on its way to S3")
                + "; the kubelet evicts pods when a tenth of the volume is left, and reserves 1 GiB",
            ),
            help=_disk_help(group, memory, copies, storage),
        )


def _disk_help(group: Group, memory: Memory, copies: int, storage: str) -> str:
    others = memory.total - memory.parts.get("checkpoints", 0)
    each = memory.parts.get("checkpoints", 0) // max(copies, 1)
    most = (memory.available - others) // each - 1 if each else 0
    larger = f"set workers.{group.name}.volumeSize to {volume_for(memory.total)} or more"
    if storage == "none" and most >= 1:
        return f"{larger}, or training.args.keep_checkpoints to {most} or less, or keep checkpoints in training.storage"
    if storage == "none":
        return f"{larger}, or keep checkpoints in training.storage"
    return f"{larger}, or spread the training over more nodes"


def sharding(ctx: Context) -> Iterator[Finding]:
    """A mode that comes to another one on this layout: it works, and is not what was asked for."""
    config = training_config(ctx.resolved)
    if config is None or "sharding" not in ctx.environment.training.args:
        return
    nodes, ranks = ctx.resolved.nodes, ctx.resolved.groups[0].processes
    mode = config.parallel.sharding
    if mode == "hsdp" and nodes == 1:
        problem, advice = "on one node there is nothing to replicate: it is the same as full", "full or auto"
    elif mode == "hsdp" and ranks == 1:
        problem, advice = "with one rank per node it shards nothing: every GPU holds all states", "full"
    elif mode == "hpz" and nodes == 1:
        problem, advice = "on one node a second copy would be the first: it is the same as full", "full or auto"
    elif mode == "hpz" and ranks == 1:
        problem, advice = "with one rank per node its second copy is the whole model on every GPU", "full or zero2"
    else:
        return
    yield ctx.in_environment(
        "RTD216",
        "training",
        "args",
        "sharding",
        message=f"sharding {mode} does not fit {nodes} node{'s' if nodes > 1 else ''} with {ranks} "
        f"rank{'s' if ranks > 1 else ''} each: {problem}",
        help=f"set training.args.sharding to {advice}",
    )


RULES = (gpu, pod, head, volume, sharding)
