"""Where checkpoints go (6xx)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from generator.catalog import LOCAL
from generator.diagnostics.finding import Finding
from generator.model.environment import S3Storage
from generator.rules.context import Context

# Bucket names: Amazon S3 user guide, "General purpose bucket naming rules".
_BUCKET = re.compile(
    r"(?!xn--|sthree-|amzn-s3-demo-)(?!.*(-s3alias|--ol-s3|--x-s3)$)(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
)
_IP = re.compile(r"[0-9]+(\.[0-9]+){3}")
# What can stand in a key without escaping, and in a URL of pyarrow's.
_PREFIX = re.compile(r"(/[A-Za-z0-9._=-]+)*/?")


def shared(ctx: Context) -> Iterator[Finding]:
    nodes = ctx.resolved.nodes
    if nodes > 1 and ctx.environment.mode != "cluster" and ctx.environment.training.storage.kind == "none":
        yield ctx.in_environment(
            "RTD601",
            "training",
            "storage",
            "kind",
            message=f"{nodes} nodes need storage that all of them reach",
            notes=(
                "each rank writes its part of a checkpoint; on the nodes' own disks no one could put the parts together",
            ),
            help="set training.storage, for example {kind: s3, uri: s3://bucket/prefix} or {kind: fsx, claimName: name}",
            on_key=True,
        )


def s3_uri(ctx: Context) -> Iterator[Finding]:
    storage = ctx.environment.training.storage
    if not isinstance(storage, S3Storage):
        return
    scheme, _, rest = storage.uri.partition("://")
    bucket, slash, prefix = rest.partition("/")
    problem = ""
    if scheme != "s3":
        problem = "it does not start with s3://"
    elif not _BUCKET.fullmatch(bucket) or _IP.fullmatch(bucket):
        problem = f"`{bucket}` is not a bucket name"
    elif not _PREFIX.fullmatch(slash + prefix) or any(part in (".", "..") for part in prefix.split("/")):
        problem = f"the prefix `{prefix}` has empty parts or characters that need escaping"
    if problem:
        yield ctx.in_environment(
            "RTD602",
            "training",
            "storage",
            "uri",
            message=f"`{storage.uri}` is not an S3 location: {problem}",
            help="write s3://bucket/prefix",
        )


def lost_with_the_pod(ctx: Context) -> Iterator[Finding]:
    """What storage `none` would lose, or does not have."""
    environment = ctx.environment
    training, job = environment.training, environment.job
    if training.storage.kind != "none" or environment.mode == "cluster":
        return
    export = training.args.get("export", "none")
    here = all(group.type.name == LOCAL for group in ctx.resolved.groups)  # the pod's disk is this machine's
    if export != "none" and training.bundled and not here:
        yield ctx.in_environment(
            "RTD640",
            "training",
            "args",
            "export",
            message="the exported model would be lost with the pod: training.storage is none",
            help="set training.storage, for example {kind: s3, uri: s3://bucket/prefix}, or remove export",
        )
    if job.resume_from:
        yield ctx.in_environment(
            "RTD641",
            "job",
            "resumeFrom",
            message=f"with storage none no run has left anything, so `{job.resume_from}` cannot be the start",
            help="set the training.storage that the run is on, or remove job.resumeFrom",
        )


RULES = (shared, s3_uri, lost_with_the_pod)
