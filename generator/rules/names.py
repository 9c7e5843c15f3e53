"""Names: of files and of what Kubernetes, KubeRay and AWS make out of them (RTD107, RTD501)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from generator.diagnostics.finding import Finding
from generator.model.base import NAME
from generator.resolve import node_group_name
from generator.rules.context import Context

# KubeRay 1.6: RayJob names have 47 characters at most, because the operator appends "-" and five to make the RayCluster's
# (53). The chart appends "-" and eight hex digits to the base name.
RAYJOB_MAX, HASH_SUFFIX = 47, 9
BASE_MAX = RAYJOB_MAX - HASH_SUFFIX
# A group's name is part of pod names, which KubeRay shortens from the left; the chart allows 30 characters.
GROUP_MAX = 30
NODE_GROUP_MAX = 63  # EKS
STACK_MAX = 128  # CloudFormation; eksctl names the stack eksctl-<cluster>-nodegroup-<node group>


def file_names(ctx: Context) -> Iterator[Finding]:
    """The environment is called like its folder, the cluster like its file."""
    if ctx.environment.name != ctx.loaded.folder:
        yield ctx.in_environment(
            "RTD107",
            "name",
            message=f"the environment is called `{ctx.environment.name}` but its folder `{ctx.loaded.folder}`",
            help=f"set name to {ctx.loaded.folder}, or rename the folder"
            if re.fullmatch(NAME, ctx.loaded.folder)
            else f"rename the folder to {ctx.environment.name}",
        )
    if ctx.cluster is not None and ctx.cluster.name != ctx.environment.cluster:
        yield ctx.in_cluster(
            "RTD107",
            "name",
            message=f"the cluster is called `{ctx.cluster.name}` but its file {ctx.environment.cluster}.yaml",
            help=f"set name to {ctx.environment.cluster}, or rename the file",
        )


def lengths(ctx: Context) -> Iterator[Finding]:
    """Every name that is made from ours must be accepted where it ends up."""
    name = ctx.environment.name
    if len(name) > BASE_MAX:
        yield ctx.in_environment(
            "RTD501",
            "name",
            message=f"the environment's name has {len(name)} characters, above {BASE_MAX}",
            notes=(
                f"the RayJob is called <name>-<8 hex>, and KubeRay refuses RayJob names above {RAYJOB_MAX} characters",
            ),
            help=f"shorten it by {len(name) - BASE_MAX}",
        )
    for group in ctx.environment.workers:
        if group == "head":
            yield ctx.in_environment(
                "RTD501",
                "workers",
                group,
                message="a worker group cannot be called `head`: that is the head's own group",
                help="choose another name",
                on_key=True,
            )
        if len(group) > GROUP_MAX:
            yield ctx.in_environment(
                "RTD501",
                "workers",
                group,
                message=f"the worker group's name has {len(group)} characters, above {GROUP_MAX}",
                notes=("it becomes part of pod names and of labels",),
                help=f"shorten it by {len(group) - GROUP_MAX}",
                on_key=True,
            )
    if ctx.cluster is None or ctx.cluster.managed != "eksctl":
        return
    for group in ctx.environment.workers:
        node_group = node_group_name(name, group)
        stack = f"eksctl-{ctx.cluster.name}-nodegroup-{node_group}"
        for what, text, limit in (
            ("node group", node_group, NODE_GROUP_MAX),
            ("CloudFormation stack", stack, STACK_MAX),
        ):
            if len(text) > limit:
                yield ctx.in_environment(
                    "RTD501",
                    "workers",
                    group,
                    message=f"the {what} `{text}` has {len(text)} characters, above {limit}",
                    help=f"shorten the group's or the environment's name by {len(text) - limit}",
                    on_key=True,
                )


RULES = (file_names, lengths)
