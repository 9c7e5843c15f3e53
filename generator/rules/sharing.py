"""Several environments and teams on one cluster, and clusters that are there already (RTD504, RTD541 to RTD543)."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from generator.diagnostics.finding import Finding, Pointer
from generator.model.environment import Environment, Quota, S3Storage
from generator.resolve import node_group_name
from generator.rules.context import Context

# Keys that end up in the ClusterConfig of eksctl and nowhere else, by their names in the models.
_OF_CLUSTER = ("network", "encryption", "addons", "node_repair", "autoscaler", "tags")
_OF_SYSTEM_NODES = ("volume_size",)
_OF_ENVIRONMENT = ("tags",)
_OF_GROUP = ("volume_size",)
_OF_GROUP_WITH_NVME = ("volume_size", "scratch")  # without such disks, RTD552 speaks about `scratch`
_OF_CAPACITY = ("placement_group",)


def node_groups(ctx: Context) -> Iterator[Finding]:
    """Environments on one cluster: each has its own node groups. Those of a cluster made elsewhere are not ours to name."""
    if ctx.cluster is None or ctx.cluster.managed != "eksctl":
        return
    mine = {node_group_name(ctx.environment.name, group): group for group in ctx.environment.workers}
    for other in _others(ctx):
        for group in other.workers:
            clash = mine.get(node_group_name(other.name, group))
            if clash is not None:
                name = node_group_name(other.name, group)
                yield ctx.in_environment(
                    "RTD504",
                    "workers",
                    clash,
                    on_key=True,
                    message=f"the node group `{name}` is also that of environment `{other.name}`",
                    help="rename one of the groups",
                )


def on_existing(ctx: Context) -> Iterator[Finding]:
    """What only eksctl reads. A layer may be meant for another cluster too: what it sets is left to it."""
    cluster, source = ctx.cluster, ctx.loaded.environment.source
    if cluster is None or cluster.managed != "existing":
        return
    why = f"cluster `{cluster.name}` is made elsewhere, and only eksctl's ClusterConfig has this key"
    for path in (*_set(cluster, _OF_CLUSTER), *_set(cluster.system_nodes, _OF_SYSTEM_NODES, ("systemNodes",))):
        yield ctx.in_cluster(
            "RTD541",
            *path,
            on_key=True,
            message=f"`{path[-1]}` has no effect on an existing cluster",
            notes=(why,),
            help="remove it, or see to it where the cluster is made",
        )
    paths = list(_set(ctx.environment, _OF_ENVIRONMENT))
    with_nvme = {group.name for group in ctx.resolved.groups if group.type.local_nvme_gb}
    for name, group in ctx.environment.workers.items():
        paths += _set(group, _OF_GROUP_WITH_NVME if name in with_nvme else _OF_GROUP, ("workers", name))
        paths += _set(group.capacity, _OF_CAPACITY, ("workers", name, "capacity"))
    for path in paths:
        if source.file_of(path) == source.file:
            yield ctx.in_environment(
                "RTD541",
                *path,
                on_key=True,
                message=f"`{path[-1]}` has no effect on an existing cluster",
                notes=(why,),
                help="remove it, or see to it where the nodes are made",
            )


def _set(owner: BaseModel, names: tuple[str, ...], path: Pointer = ()) -> Iterator[Pointer]:
    """Paths of the fields that somebody wrote, and not as they would be anyway."""
    for name in names:
        field = type(owner).model_fields[name]
        if name in owner.model_fields_set and getattr(owner, name) != field.default:
            yield (*path, str(field.alias))


def one_account(ctx: Context) -> Iterator[Finding]:
    """A quota is the account's, in one region: the environments of a cluster cannot have different ones."""
    quota = ctx.environment.policy.quota
    for name, field in Quota.model_fields.items():
        mine = getattr(quota, name)
        theirs = {other.name: getattr(other.policy.quota, name) for other in _others(ctx)}
        different = {folder: limit for folder, limit in theirs.items() if limit not in (None, mine)}
        if mine is not None and different:
            said = ", ".join(f"{folder}: {limit}" for folder, limit in different.items())
            yield ctx.in_environment(
                "RTD542",
                "policy",
                "quota",
                str(field.alias),
                message=f"environments of cluster `{ctx.environment.cluster}` state different {field.alias}: {mine} here",
                notes=(said, "a quota belongs to the account and the region, so one of them is out of date"),
                help="state it once, in a layer that these environments extend (docs/layers.md)",
            )


def own_prefix(ctx: Context) -> Iterator[Finding]:
    """Pods may write and delete below their environment's prefix: another namespace's runs must not lie there."""
    storage = ctx.environment.training.storage
    if ctx.cluster is None or ctx.cluster.managed != "eksctl" or not isinstance(storage, S3Storage):
        return
    mine = _parts(storage)
    reached = [
        other
        for other in _others(ctx)
        if other.namespace != ctx.environment.namespace
        and isinstance(other.training.storage, S3Storage)
        and _parts(other.training.storage)[: len(mine)] == mine
    ]
    if reached:
        named = " and ".join(f"`{other.name}` (namespace {other.namespace})" for other in reached)
        yield ctx.in_environment(
            "RTD543",
            "training",
            "storage",
            "uri",
            message=f"the pods of `{ctx.environment.name}` may delete the checkpoints of {named}",
            notes=("the cluster lets them write below this prefix, and the other's runs lie below it too",),
            help=f"give each namespace a prefix of its own, such as {storage.uri.rstrip('/')}/{ctx.environment.namespace}",
        )


def _parts(storage: S3Storage) -> list[str]:
    return storage.uri.removeprefix("s3://").rstrip("/").split("/")


def _others(ctx: Context) -> Iterator[Environment]:
    """The other environments with pods on the cluster.

    One that is not called like its folder is about to be renamed (RTD107): nothing is said about it, nor by it.
    """
    if ctx.environment.name == ctx.loaded.folder and ctx.environment.has_pods:
        for folder, other in ctx.loaded.neighbours:
            if folder == other.name and other.has_pods:
                yield other


RULES = (node_groups, on_existing, one_account, own_prefix)
