"""Where code, model and data come from (RTD142, RTD143): what the chart would refuse, at its place in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from generator.diagnostics.finding import Finding
from generator.rules.context import Context
from generator.values.patterns import SUBDOMAIN

_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?")
_ADDRESS = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_.=-]+)*/?|(/[A-Za-z0-9_.=-]+)+/?")
_GIT_URL = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\])(:[1-9][0-9]{0,4})?/[^\s@]+")
_IMAGE = re.compile(
    r"[a-z0-9][a-zA-Z0-9./_-]*(:[0-9]+/[a-z0-9./_-]+)?(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@sha256:[0-9a-f]{64})?"
)
_MOVES = "a branch or tag may move, and the job's name would not"


def model_and_data(ctx: Context) -> Iterator[Finding]:
    for name in ("model", "data"):
        source = getattr(ctx.environment.training, name)
        hub = bool(_HUB.fullmatch(source.uri))
        if source.uri and not hub and not _ADDRESS.fullmatch(source.uri):
            yield _at(
                ctx,
                "RTD143",
                (name, "uri"),
                f"`{source.uri}` is no name on the hub, no s3://bucket/prefix and no absolute path",
                "write one of them, such as owner/name with its revision, or s3://bucket/models/name",
            )
        elif hub and not _COMMIT.fullmatch(source.revision):
            yield _at(
                ctx,
                "RTD143",
                (name, "revision"),
                f"{source.uri} on the hub needs a commit of 40 hexadecimal digits: {_MOVES}",
                "copy it from the hub: Files and versions, History",
                on_key=not source.revision,
            )
        elif source.revision and not hub:
            yield _at(
                ctx, "RTD143", (name, "revision"), "a revision has no effect but for a name on the hub", "remove it"
            )
        if source.secret_ref.name and not hub:
            yield _at(
                ctx,
                "RTD143",
                (name, "secretRef"),
                "a token has no effect but for a name on the hub",
                "remove it; S3 is reached with EKS Pod Identity",
                on_key=True,
            )
        elif source.secret_ref.name and not ctx.environment.has_pods:
            yield _at(
                ctx,
                "RTD143",
                (name, "secretRef"),
                "a job on a cluster that is there already brings no Secrets along",
                "give secretRef to the environment of the cluster",
                on_key=True,
            )


def code(ctx: Context) -> Iterator[Finding]:
    """One source of code, that the job runs, and that does not move under the job's name."""
    given = ctx.environment.training.code
    sources = [
        key
        for key, value in (("files", given.files), ("configMapName", given.config_map_name), ("git", given.git.url))
        if value
    ]
    if len(sources) > 1:
        yield _code(ctx, (sources[1],), f"{' and '.join(sources)} at once", "give one of them", on_key=True)
    if sources and not ctx.environment.has_pods:
        yield _code(
            ctx,
            (sources[0],),
            "in mode jobOnCluster the code is that of the cluster",
            "give it to the environment of the cluster, and keep training.code.module here",
            on_key=True,
        )
    elif sources and ctx.environment.mode == "job" and given.module.startswith("training."):
        yield _code(
            ctx,
            ("module",),
            f"{sources[0]} is given, but {given.module} is what runs, and does not import it",
            "set training.code.module to the module to run",
            on_key="module" not in given.model_fields_set,
        )
    if given.module.endswith(".py"):
        module = given.module.removesuffix(".py")
        yield _code(ctx, ("module",), f"`{given.module}` is a file name", f"write the module: {module}")
    if given.config_map_name and not re.fullmatch(SUBDOMAIN, given.config_map_name):
        yield _code(
            ctx,
            ("configMapName",),
            f"`{given.config_map_name}` is not the name of a ConfigMap",
            "use lower-case letters, digits, hyphens and dots",
        )
    yield from _git(ctx)


def _git(ctx: Context) -> Iterator[Finding]:
    git = ctx.environment.training.code.git
    if not git.url:
        if git.model_fields_set - {"url"}:
            yield _code(ctx, ("git", "url"), "git has no url", "add it, or remove git", on_key=True)
        return
    if not _GIT_URL.fullmatch(git.url):
        yield _code(
            ctx,
            ("git", "url"),
            "the address of the repository is not https://host/path without a user",
            "write it so; a user and a password go into the Secret that secretName names",
        )
    if not _COMMIT.fullmatch(git.revision):
        yield _code(
            ctx,
            ("git", "revision"),
            f"`{git.revision}` is not a commit of 40 hexadecimal digits: {_MOVES}",
            "write what `git rev-parse HEAD` prints",
            on_key=not git.revision,
        )
    if git.path.startswith("/") or ".." in git.path.split("/"):
        yield _code(
            ctx,
            ("git", "path"),
            f"`{git.path}` is not a folder of the repository",
            "write it without a leading slash and without ..",
        )
    if git.image and not _IMAGE.fullmatch(git.image):
        yield _code(ctx, ("git", "image"), f"`{git.image}` is not an image", "write registry/path:tag or @sha256:…")


def _code(ctx: Context, path: tuple[str, ...], message: str, help: str, *, on_key: bool = False) -> Finding:
    return _at(ctx, "RTD142", ("code", *path), message, help, on_key=on_key)


def _at(ctx: Context, code: str, path: tuple[str, ...], message: str, help: str, *, on_key: bool = False) -> Finding:
    where = ".".join(("training", *path))
    return ctx.in_environment(code, "training", *path, message=f"{where}: {message}", help=help, on_key=on_key)


RULES = (model_and_data, code)
