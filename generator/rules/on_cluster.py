"""Jobs on a RayCluster that another environment keeps (RTD545 to RTD548), and queues (RTD549)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from generator.diagnostics.finding import Finding
from generator.model.environment import Environment, S3Storage, Storage
from generator.resolve import Group, resolve
from generator.rules.context import Context
from generator.values.patterns import LABEL_VALUE

KUEUE_GROUPS = 17  # besides the head's; Kueue admits workloads of at most 18 pod sets
# What belongs to the pods: key of the file, field of the model.
_OF_THE_PODS = {
    "env": "env",
    "envFrom": "env_from",
    "imagePullSecrets": "image_pull_secrets",
    "serviceAccount": "service_account",
    "networkPolicy": "network_policy",
    "monitoring": "monitoring",
}


def cluster_named(ctx: Context) -> Iterator[Finding]:
    """The environment named by `job.clusterName` keeps a RayCluster on the same cluster, in the same namespace."""
    environment = ctx.environment
    name = environment.job.cluster_name
    if environment.has_pods:
        if name is not None:
            yield ctx.in_environment(
                "RTD546",
                "job",
                "clusterName",
                message=f"job.clusterName has no effect in mode {environment.mode}",
                help="set mode to jobOnCluster, or remove it",
            )
        return
    beside = {other.name: other for _, other in ctx.loaded.neighbours}
    known = sorted(n for n, e in beside.items() if e.mode == "cluster" and e.namespace == environment.namespace)
    there = f"there {'is' if len(known) == 1 else 'are'} {', '.join(known)}" if known else "there is none yet"
    if name is None:
        problem = "mode jobOnCluster needs the name of the environment that keeps the RayCluster"
    elif name not in beside:
        problem = f"no environment `{name}` is on cluster `{environment.cluster}`"
    elif beside[name].mode != "cluster":
        problem = f"environment `{name}` has mode {beside[name].mode}, and keeps no RayCluster"
    elif beside[name].namespace != environment.namespace:
        problem = f"environment `{name}` is in namespace {beside[name].namespace}, and a RayJob finds clusters of its own only"
    else:
        return
    close = difflib.get_close_matches(name or "", known, n=1)
    yield ctx.in_environment(
        "RTD545",
        "job",
        "clusterName",
        message=problem,
        on_key=name is None,
        label=f"did you mean `{close[0]}`?" if close else "",
        help=f"name an environment of mode cluster in namespace {environment.namespace}: {there}",
    )


def host(ctx: Context) -> Environment | None:
    """The environment whose RayCluster runs the job, when it is one that can."""
    name = ctx.environment.job.cluster_name
    for _, other in ctx.loaded.neighbours:
        if not ctx.environment.has_pods and other.name == name and other.mode == "cluster":
            return other if other.namespace == ctx.environment.namespace else None
    return None


def same_groups(ctx: Context) -> Iterator[Finding]:
    """`workers` of the job say how many ranks there are: they must be the cluster's."""
    other = host(ctx)
    if other is None:
        return
    mine = {group.name: group for group in ctx.resolved.groups}
    theirs = {group.name: group for group in resolve(other, ctx.cluster).groups}
    for name in ctx.environment.workers:
        if name not in other.workers:
            yield _differs(ctx, (name,), f"environment `{other.name}` has no worker group `{name}`")
        elif name in mine and name in theirs:
            for key, what, here, there in _pairs(mine[name], theirs[name]):
                if here != there:
                    yield _differs(ctx, (name, key), f"{what}: {here} here, {there} in environment `{other.name}`")
    for name in other.workers:
        if name not in ctx.environment.workers:
            yield _differs(ctx, (), f"environment `{other.name}` has a worker group `{name}`, too")


def _pairs(mine: Group, theirs: Group) -> Iterator[tuple[str, str, object, object]]:
    """(key, what it is, value here, value there)."""
    yield "instanceType", "instance type", mine.type.name, theirs.type.name
    yield "nodes", "nodes", mine.nodes, theirs.nodes
    if mine.type == theirs.type:  # else these follow from it
        yield "gpusPerNode", "GPUs per node", mine.gpus, theirs.gpus
        yield "efa", "EFA interfaces per node", mine.interfaces, theirs.interfaces
        if not mine.gpus:
            yield "processesPerNode", "ranks per node", mine.processes, theirs.processes


def _differs(ctx: Context, path: tuple[str, ...], message: str) -> Finding:
    return ctx.in_environment(
        "RTD547",
        "workers",
        *path,
        message=message,
        on_key=len(path) < 2,
        notes=("the job runs on the nodes of that environment, and counts its ranks by its own workers",),
        help=f"write workers as environment `{ctx.environment.job.cluster_name}` has them",
    )


def of_the_cluster(ctx: Context) -> Iterator[Finding]:
    """What the pods have is what the cluster's environment gave them."""
    environment = ctx.environment
    if environment.has_pods:
        return
    plain = type(environment).model_fields
    for key, field in _OF_THE_PODS.items():
        if getattr(environment, field) != plain[field].get_default():
            yield _without_effect(ctx, (key,), f"{key} has no effect in mode jobOnCluster: the pods are the cluster's")
    for key, value, why in (
        ("backoffLimit", environment.job.backoff_limit, "the operator does not try again"),
        ("ttlSecondsAfterFinished", environment.job.ttl_seconds_after_finished, "the pods stay"),
    ):
        if value:
            yield _without_effect(ctx, ("job", key), f"job.{key} has no effect in mode jobOnCluster: {why}")
    other = host(ctx)
    if other is not None and not _reached(environment.training.storage, other.training.storage):
        yield ctx.in_environment(
            "RTD548",
            "training",
            "storage",
            on_key=True,
            message=f"the storage is not that of environment `{other.name}`, whose pods mount it and may write to it",
            help="write training.storage as it is there; with s3 a prefix below the cluster's will do, too",
        )


def _without_effect(ctx: Context, path: tuple[str, ...], message: str) -> Finding:
    return ctx.in_environment(
        "RTD548", *path, on_key=True, message=message, help="move it to the environment of the cluster, or remove it"
    )


def _reached(mine: Storage, theirs: Storage) -> bool:
    if isinstance(mine, S3Storage) and isinstance(theirs, S3Storage):
        return f"{mine.uri.rstrip('/')}/".startswith(f"{theirs.uri.rstrip('/')}/")
    return mine == theirs


def queue(ctx: Context) -> Iterator[Finding]:
    """What the chart refuses of a scheduler, at its place in the file."""
    scheduler = ctx.environment.scheduler
    if not scheduler.kind:
        if scheduler.queue or scheduler.priority_class:
            yield _queue(ctx, ("kind",), "a queue or priority class without scheduler.kind", "add kind: kueue", True)
        return
    if scheduler.kind != "volcano" and not scheduler.queue:
        yield _queue(
            ctx,
            ("queue",),
            f"{scheduler.kind} looks at jobs with a queue only",
            "name the queue (Kueue: a LocalQueue)",
            True,
        )
    if scheduler.priority_class and scheduler.kind not in ("kueue", "volcano"):
        yield _queue(
            ctx,
            ("priorityClass",),
            f"{scheduler.kind} does not read it",
            "set values.common.priorityClassName instead",
        )
    for key, value in (("queue", scheduler.queue), ("priorityClass", scheduler.priority_class)):
        if len(value) > 63 or not re.fullmatch(LABEL_VALUE, value):
            yield _queue(
                ctx,
                (key,),
                f"`{value}` cannot be the value of a label",
                "use letters, digits, hyphens and dots, at most 63",
            )
    if not ctx.environment.has_pods and scheduler.kind in ("kueue", "volcano"):
        yield _queue(
            ctx,
            ("kind",),
            f"{scheduler.kind} does not take jobs on a cluster that is there already",
            "give scheduler to the environment of the cluster",
        )
    if scheduler.kind == "kueue" and len(ctx.environment.workers) > KUEUE_GROUPS:
        count = len(ctx.environment.workers)
        yield _queue(ctx, ("kind",), f"{count} worker groups, and Kueue takes {KUEUE_GROUPS}", "merge some of them")


def _queue(ctx: Context, path: tuple[str, ...], message: str, help: str, on_key: bool = False) -> Finding:
    where = ".".join(("scheduler", *path))
    return ctx.in_environment("RTD549", "scheduler", *path, message=f"{where}: {message}", help=help, on_key=on_key)


RULES = (cluster_named, same_groups, of_the_cluster, queue)
