"""The image (4xx). Forms: OCI distribution specification 1.1, sections on names, tags and digests."""

from __future__ import annotations

import re
from collections.abc import Iterator

from generator import catalog
from generator.catalog import LOCAL
from generator.diagnostics.finding import Finding, Severity
from generator.rules.context import Context

_REPOSITORY = re.compile(
    r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?/)?[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)*"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# Private registries: Amazon ECR user guide, "Amazon ECR private registry".
_ECR = re.compile(r"[0-9]{12}\.dkr[.-]ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.(amazonaws\.com(\.cn)?|on\.aws)/")
_TOKEN_MINIMUM = (2, 52, 0)  # KubeRay refuses token authentication below it


def reference(ctx: Context) -> Iterator[Finding]:
    if ctx.version is None:
        return
    image = ctx.version.image
    if not _REPOSITORY.fullmatch(image.repository):
        tagged = ":" in image.repository.rsplit("/", 1)[-1] or "@" in image.repository
        yield ctx.in_version(
            "RTD401",
            "image",
            "repository",
            message=f"`{image.repository}` is not an image repository",
            help="move the tag or digest to its own key"
            if tagged
            else "write registry and path in lower case, without https://",
        )
    if image.tag and not _TAG.fullmatch(image.tag):
        yield ctx.in_version(
            "RTD401",
            "image",
            "tag",
            message=f"`{image.tag}` is not an image tag",
            help="use at most 128 letters, digits, dots, hyphens and underscores",
        )
    if image.digest and not _DIGEST.fullmatch(image.digest):
        yield ctx.in_version(
            "RTD402",
            "image",
            "digest",
            message=f"`{image.digest}` is not a digest",
            notes=(f"it has {len(image.digest)} characters; a digest has 71",),
            help="write sha256: followed by 64 lower-case hex digits",
        )
    if not image.tag and not image.digest:
        yield ctx.in_version(
            "RTD401",
            "image",
            "tag",
            message="the image has neither a tag nor a digest",
            on_key=True,
            help="add the tag of a release, such as train-ml-cuda-v1.1.0",
        )


def pinned(ctx: Context) -> Iterator[Finding]:
    """A tag names what the registry says it names today; a digest names one image."""
    if ctx.version is None or ctx.version.image.digest or not ctx.version.image.tag:
        return  # with a digest the tag is only a comment
    if all(group.instance_type == LOCAL for group in ctx.environment.workers.values()):
        return  # nothing is pulled: `local` runs on the Ray that is installed here
    image = ctx.version.image
    required = ctx.environment.policy.require_digest
    yield ctx.in_version(
        "RTD403",
        "image",
        "digest",
        message=f"the image {image.repository}:{image.tag} is not pinned by its digest",
        severity=Severity.ERROR if required else Severity.WARNING,
        on_key=True,
        notes=("policy.requireDigest asks for it",) if required else (),
        help=f"run `python -m generator pin {ctx.loaded.folder}`: it asks the image's registry and sets image.digest",
    )
    known = next((i for i in catalog.images() if (i.repository, i.tag) == (image.repository, image.tag)), None)
    if image.tag == "latest" or (known is not None and known.moves):
        frozen = [i.tag for i in catalog.images() if i.repository == image.repository and not i.moves]
        yield ctx.in_version(
            "RTD404",
            "image",
            "tag",
            message=f"the tag `{image.tag}` moves: two nodes may run two builds",
            severity=Severity.ERROR if image.tag == "latest" else Severity.WARNING,
            help=f"use {frozen[0]}, or pin the digest" if frozen else "use the tag of one release, or pin the digest",
        )


def ray_version(ctx: Context) -> Iterator[Finding]:
    if ctx.version is None:
        return
    image, written = ctx.version.image, ctx.version.ray_version
    known = next((i for i in catalog.images() if (i.repository, i.tag) == (image.repository, image.tag)), None)
    if known is not None and known.ray != written:
        yield ctx.in_version(
            "RTD405",
            "rayVersion",
            message=f"rayVersion is {written}, but {known.tag} holds Ray {known.ray}",
            help=f'set rayVersion to "{known.ray}"',
        )
    elif tuple(int(part) for part in written.split(".")) < _TOKEN_MINIMUM:
        yield ctx.in_version(
            "RTD405",
            "rayVersion",
            message=f"Ray {written} has no token authentication: KubeRay refuses the job",
            notes=("it exists since Ray 2.52.0, and the chart always turns it on",),
            help="use an image with Ray 2.52.0 or later",
        )


def region(ctx: Context) -> Iterator[Finding]:
    """A private registry of ECR stands in the region that its name says."""
    found = _ECR.match(ctx.version.image.repository) if ctx.version is not None else None
    here = ctx.cluster.region if ctx.cluster is not None else None
    if found is None or here is None or found["region"] == here:
        return
    yield ctx.in_version(
        "RTD408",
        "image",
        "repository",
        message=f"the image is in {found['region']}, and the cluster in {here}",
        notes=("each node pulls all of it across regions: slower, and AWS bills the traffic between regions",),
        help=f"copy the image to a repository in {here}, and name that one",
    )


RULES = (reference, pinned, ray_version, region)
