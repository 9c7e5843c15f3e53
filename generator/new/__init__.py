"""`new`: a commented environment that validates and renders at once. It asks nothing: every choice has a default."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from generator.catalog import LOCAL, InstanceType, images, instance_types, zones
from generator.diagnostics.finding import Finding, Severity
from generator.model.cluster import Cluster
from generator.model.environment import Environment
from generator.model.shape import Shaped, shape
from generator.model.version import Version
from generator.plan.memory import NEAR, of_one_gpu
from generator.project import Loaded, Project, UsageError
from generator.render import quote
from generator.resolve import usable
from generator.rules import check
from generator.rules.names import BASE_MAX
from generator.source import Source, parse
from training.config import build

SYSTEM_TYPE = "m7i.xlarge"
KUBERNETES = "1.36"
REGION = "us-west-2"
_COMMENT_COLUMN = 36
# Plain text that YAML of any version takes for text; what else there is goes into quotes.
_PLAIN = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)$)[a-z][A-Za-z0-9._-]*(?:://[A-Za-z0-9._=/-]+)?")


@dataclass(frozen=True, slots=True)
class Choices:
    """What `new` was asked for. None: the default for the instance type or the cluster."""

    name: str
    cluster: str | None = None
    region: str | None = None
    zone: str | None = None
    instance_type: str = "g6.12xlarge"
    nodes: int = 2
    storage: str | None = None
    namespace: str = "ray-train"


def files(project: Project, choices: Choices) -> dict[str, str]:
    """The files of the new environment by path; the cluster's among them when it does not exist yet.

    Raises:
        UsageError: a flag's value cannot be used; the text says why.
    """
    _check_name(choices.name)
    found = _instance_type(choices.instance_type)
    if choices.nodes < 1:
        raise UsageError(f"--nodes must be at least 1, not {choices.nodes}")
    cluster = choices.cluster or (LOCAL if found.name == LOCAL else choices.name)
    existing = project.cluster(cluster) if cluster in project.cluster_names() else None
    tree: dict[str, str] = {}
    if existing is None:
        _check_name(cluster)
        region = choices.region or _region(found)
        known = sorted(zones().get(region, ()))
        if found.name != LOCAL and not known:
            raise UsageError(f"--region {region} is not in the catalogue; choose from {', '.join(sorted(zones()))}")
        zone = choices.zone or (known[0] if known else None)
        pair = sorted([zone or "", *(z for z in known if z != zone)][:2]) if found.name != LOCAL else []
        tree[f"environments/_clusters/{cluster}.yaml"] = _render(
            "cluster.yaml.j2",
            name=cluster,
            local=found.name == LOCAL,
            region=region,
            zones=pair,
            kubernetes=KUBERNETES,
            system_type=SYSTEM_TYPE,
        )
    else:
        if existing.model is None or existing.findings:
            raise UsageError(f"the cluster `{cluster}` has errors; run `python -m generator validate` first")
        if choices.region and choices.region != existing.model.region:
            raise UsageError(f"the cluster `{cluster}` is in {existing.model.region}, not in {choices.region}")
        have = existing.model.availability_zones
        zone = choices.zone or (have[0] if have else None)
    storage = _storage(choices, found)
    preset = "tiny" if found.name == LOCAL else "qwen2.5-1.5b"
    processes = 2 if found.name == LOCAL else found.gpus
    batch = _batch(preset, choices.nodes * processes)
    tree[f"environments/{choices.name}/environment.yaml"] = _render(
        "environment.yaml.j2",
        choices=choices,
        cluster=cluster,
        type=found,
        zone=None if found.name == LOCAL else zone,
        efa=found.efa_interfaces > 0 and choices.nodes > 1,
        storage=storage,
        local=found.name == LOCAL,
        preset=preset,
        processes=processes,
        ranks=choices.nodes * processes,
        batch=batch,
        halved=found.gpus > 0 and not _fits(preset, batch, found, choices.nodes),
    )
    tree[f"environments/{choices.name}/version.yaml"] = _render("version.yaml.j2", image=images()[0])
    _validate(project, choices.name, cluster, existing, tree)
    return tree


def _region(found: InstanceType) -> str:
    """The usual region, or where the type is offered."""
    return next((r for r in (REGION, *sorted(zones())) if found.offered_in(r)), REGION)


def _batch(preset: str, ranks: int) -> int | None:
    """A batch size that divides among the ranks, near the preset's; None when the preset's own does."""
    usual = build(preset).batch.global_batch_size
    return None if usual % ranks == 0 else -(-usual // ranks) * ranks


def _fits(preset: str, batch: int | None, found: InstanceType, nodes: int) -> bool:
    """Whether the preset as it is fits into the GPUs; 1.5 B parameters in float32 fit no single GPU of 24 GB."""
    config = build(preset, {"global_batch_size": batch} if batch else {})
    return of_one_gpu(config, found, nodes, found.gpus).share <= NEAR


def _validate(
    project: Project, name: str, cluster: str, existing: Shaped[Cluster] | None, tree: dict[str, str]
) -> None:
    """What `validate` would say to the new files, before they are written.

    Raises:
        UsageError: there would be errors; the flags ask for what cannot be.
    """

    def source(path: str) -> Source:
        return parse(tree[path].encode(), path)

    environment = shape(source(f"environments/{name}/environment.yaml"), Environment)
    version = shape(source(f"environments/{name}/version.yaml"), Version)
    shaped = existing or shape(source(f"environments/_clusters/{cluster}.yaml"), Cluster)
    others = [(folder, project.environment(folder).model) for folder in project.on_cluster(cluster) if folder != name]
    neighbours = tuple((folder, model) for folder, model in others if model is not None)
    findings = (*environment.findings, *version.findings, *shaped.findings)
    found = check(Loaded(name, environment, version, shaped, neighbours, findings))
    errors = [f for f in found if f.severity is Severity.ERROR]
    if errors:
        raise UsageError("nothing was written: " + "; ".join(dict.fromkeys(_said(f) for f in errors)))


def _said(finding: Finding) -> str:
    return f"{finding.message} ({finding.help})"


def _storage(choices: Choices, found: InstanceType) -> dict[str, str]:
    if choices.storage is None:
        if found.name == LOCAL:
            return {"kind": "pvc", "claimName": "checkpoints"}
        return {"kind": "s3", "uri": f"s3://{choices.name}-checkpoints/ray-train"}
    if choices.storage.startswith("s3://"):
        return {"kind": "s3", "uri": choices.storage}
    kind, _, claim = choices.storage.partition(":")
    if kind in ("pvc", "fsx", "efs") and claim:
        return {"kind": kind, "claimName": claim}
    if choices.storage == "none":
        return {"kind": "none"}
    raise UsageError(
        f"--storage {choices.storage} is none of s3://bucket/prefix, fsx:CLAIM, efs:CLAIM, pvc:CLAIM, none"
    )


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name) or len(name) > BASE_MAX:
        raise UsageError(
            f"`{name}` cannot be a name: use at most {BASE_MAX} lower-case letters, digits and hyphens; "
            "start with a letter, end with a letter or digit"
        )


def _instance_type(name: str) -> InstanceType:
    found = instance_types().get(name)
    if found is None:
        close = difflib.get_close_matches(name, instance_types(), n=3)
        raise UsageError(
            f"--instance-type {name} is not in the catalogue" + (f"; nearest: {', '.join(close)}" if close else "")
        )
    if not usable(name):
        raise UsageError(f"--instance-type {name} cannot be used for workers: {found.refused or 'it has no GPU'}")
    return found


def _render(template: str, **values: object) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(  # noqa: S701  (YAML, never HTML)
        loader=PackageLoader("generator.new"), undefined=StrictUndefined, keep_trailing_newline=True
    )
    templates.filters["q"] = quote
    templates.filters["plain"] = _plain
    text = templates.get_template(template).render(**values)
    return "".join(_aligned(line) for line in text.splitlines(keepends=True))


def _plain(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else quote(text)


def _aligned(line: str) -> str:
    """A line with its comment moved to the column of all comments, or one space behind a longer text.

    A key that is commented out may have a comment too.
    """
    found = re.fullmatch(r"( *(?:# )?[^ #].*?) +# (.*\n)", line)
    if found is None or found[1].count('"') % 2:  # a `#` inside of quotes
        return line
    return f"{found[1]:<{_COMMENT_COLUMN - 1}} # {found[2]}"
