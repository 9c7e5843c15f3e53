"""`new`: a commented environment that validates and renders at once. It asks nothing: every choice has a default."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from generator.catalog import LOCAL, InstanceType, images, instance_types, zones
from generator.project import Project, UsageError
from generator.render import quote
from generator.resolve import usable
from generator.rules.names import BASE_MAX

SYSTEM_TYPE = "m7i.xlarge"
KUBERNETES = "1.36"


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
        region = choices.region or "us-west-2"
        known = sorted(zones().get(region, ()))
        if found.name != LOCAL and not known:
            raise UsageError(f"--region {region} is not in the catalogue; choose from {', '.join(sorted(zones()))}")
        zone = choices.zone or (known[0] if known else None)
        pair = sorted({*known[:2], *([zone] if zone else [])}) if found.name != LOCAL else []
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
    tree[f"environments/{choices.name}/environment.yaml"] = _render(
        "environment.yaml.j2",
        choices=choices,
        cluster=cluster,
        type=found,
        zone=None if found.name == LOCAL else zone,
        efa=found.efa_interfaces > 0 and choices.nodes > 1,
        storage=storage,
        local=found.name == LOCAL,
    )
    image = images()[0]
    tree[f"environments/{choices.name}/version.yaml"] = _render("version.yaml.j2", image=image)
    return tree


def _storage(choices: Choices, found: InstanceType) -> dict[str, str]:
    if choices.storage is None:
        if found.name == LOCAL:
            return {"kind": "pvc", "claimName": "checkpoints"}
        return {"kind": "s3", "uri": f"s3://{choices.name}-checkpoints/ray-train"}
    if choices.storage.startswith("s3://"):
        return {"kind": "s3", "uri": choices.storage}
    kind, _, claim = choices.storage.partition(":")
    if kind in ("pvc", "fsx") and claim:
        return {"kind": kind, "claimName": claim}
    if choices.storage == "none":
        return {"kind": "none"}
    raise UsageError(f"--storage {choices.storage} is none of s3://bucket/prefix, fsx:CLAIM, pvc:CLAIM, none")


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
    return templates.get_template(template).render(**values)
