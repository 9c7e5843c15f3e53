"""`values`, the way to what has no key here: judged by the chart's own schema (RTD140), and no way around (RTD141)."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generator.diagnostics.finding import Finding, Pointer, Severity, dotted
from generator.rules.context import Context

if TYPE_CHECKING:
    from jsonschema import Draft7Validator
    from jsonschema.exceptions import ValidationError

SCHEMA = Path(__file__).resolve().parents[2] / "charts" / "ray-train-dlc" / "values.schema.json"

# Values that the environment decides: place (`*`: any one key) → what to change instead.
_DECIDED = {
    "nameOverride": "`name`",
    "clusterName": "`cluster`",
    "mode": "`mode`",
    "image": "`image` of version.yaml",
    "rayVersion": "`rayVersion` of version.yaml",
    "commonLabels": "`commonLabels`",
    "commonAnnotations": "`commonAnnotations`",
    "serviceAccount": "`serviceAccount.annotations`; its name is the environment's",
    "common.image": "`image` of version.yaml",
    "common.env": "`env`",
    "common.envFrom": "`envFrom`",
    "common.imagePullSecrets": "`imagePullSecrets`",
    "common.serviceAccountName": "`serviceAccount.annotations`; its name is the environment's",
    "common.nodeSelector": "`workers.<group>.instanceType`, or nodeSelector of a group in `values`",
    "head.image": "`image` of version.yaml",
    "head.resources.cpu": "`head.cpu`",
    "head.resources.memory": "`head.memory`",
    "head.nodeSelector.ray-train-dlc/node-group": "systemNodes in the file of the cluster",
    "head.nodeSelector.node.kubernetes.io/instance-type": "systemNodes in the file of the cluster",
    "workerGroups.*.image": "`image` of version.yaml",
    "workerGroups.*.replicas": "`workers.<group>.nodes`",
    "workerGroups.*.minReplicas": "`workers.<group>.nodes`: a training has a set number of ranks",
    "workerGroups.*.maxReplicas": "`workers.<group>.nodes`: a training has a set number of ranks",
    "workerGroups.*.numOfHosts": "`workers.<group>.nodes`: each node runs one pod",
    "workerGroups.*.gpus": "`workers.<group>.gpusPerNode`",
    "workerGroups.*.processesPerNode": "`workers.<group>.processesPerNode`",
    "workerGroups.*.efa": "`workers.<group>.efa`",
    "workerGroups.*.transport": "`workers.<group>.instanceType`: what NCCL must report follows from it",
    "workerGroups.*.resources.cpu": "`workers.<group>.cpu`",
    "workerGroups.*.resources.memory": "`workers.<group>.memory`",
    "workerGroups.*.nodeSelector.ray-train-dlc/node-group": "`workers.<group>.instanceType`",
    "workerGroups.*.nodeSelector.node.kubernetes.io/instance-type": "`workers.<group>.instanceType`",
    "workerGroups.*.nodeSelector.topology.kubernetes.io/zone": "`workers.<group>.availabilityZone`",
    "scheduler": "`scheduler`",
    "training": "`training`",
    "job.runId": "`job.runId`",
    "job.onChange": "`job.onChange`",
    "job.resumeFrom": "`job.resumeFrom`",
    "job.clusterName": "`job.clusterName`",
    "job.backoffLimit": "`job.backoffLimit`",
    "job.activeDeadlineSeconds": "`job.activeDeadlineSeconds`",
    "job.preRunningDeadlineSeconds": "`job.preRunningDeadlineSeconds`",
    "job.ttlSecondsAfterFinished": "`job.ttlSecondsAfterFinished`",
    "networkPolicy.limitEgress": "`networkPolicy.limitEgress`",
    "networkPolicy.operatorNamespace": "`networkPolicy.operatorNamespace`",
    "monitoring": "`monitoring`",
}
# Fields of the RayJob that have a value of their own: the chart refuses them in job.extraSpec.
_OWN_FIELDS = (
    "activeDeadlineSeconds", "backoffLimit", "clusterSelector", "deletionStrategy", "entrypoint", "managedBy", "metadata",
    "preRunningDeadlineSeconds", "rayClusterSpec", "runtimeEnvYAML", "shutdownAfterJobFinishes", "submissionMode",
    "submitterConfig", "submitterPodTemplate", "suspend", "ttlSecondsAfterFinished",
)  # fmt: skip


def decided_elsewhere(ctx: Context) -> Iterator[Finding]:
    for path, value in _nodes(ctx.environment.values):
        # `head: null` and `workerGroups: null` would take away what lies below them.
        leaf = not isinstance(value, Mapping)
        instead = next(
            (text for place, text in _decided() if _matches(place[: len(path)] if leaf else place, path)), None
        )
        if instead is not None:
            yield ctx.in_environment(
                "RTD141",
                "values",
                *path,
                on_key=True,
                message=f"values.{dotted(path)} would override what the environment decides",
                help=f"remove it, and change {instead}",
            )
    for name in _OWN_FIELDS:
        if name in _mapping(_mapping(ctx.environment.values.get("job")).get("extraSpec")):
            yield ctx.in_environment(
                "RTD141",
                "values",
                "job",
                "extraSpec",
                name,
                on_key=True,
                message=f"{name} has a value of its own, or is the chart's alone",
                help="remove it; use the key of job, or of values.job, if there is one",
            )


def chart_takes_it(ctx: Context) -> Iterator[Finding]:
    values = ctx.environment.values
    if not values:
        return
    if not SCHEMA.is_file():
        yield ctx.in_environment(
            "RTD140",
            "values",
            on_key=True,
            severity=Severity.WARNING,
            message="values cannot be checked: the chart's values.schema.json is not beside this tool",
            help="run the generator from the project's folder, or check with `helm template`",
        )
        return
    for name in _mapping(values.get("workerGroups")):
        if name not in ctx.environment.workers:
            yield ctx.in_environment(
                "RTD140",
                "values",
                "workerGroups",
                name,
                on_key=True,
                message=f"there is no worker group `{name}`",
                help=f"name one of workers: {', '.join(ctx.environment.workers)}",
            )
    for error in _validator().iter_errors(values):
        yield from _refused(ctx, error)


def _refused(ctx: Context, error: ValidationError) -> Iterator[Finding]:
    """A complaint of the schema, in our words."""
    path = tuple(error.absolute_path)
    schema: Any = error.schema
    instance: Any = error.instance
    place = f"values.{dotted(path)}" if path else "values"
    if error.validator == "required" and len(path) in (2, 3) and path[0] == "workerGroups":
        return  # the environment gives them
    if error.validator == "additionalProperties":
        known = list(schema.get("properties", {}))
        patterns = list(schema.get("patternProperties", {}))
        for key in instance:
            if key in known or any(re.search(pattern, key) for pattern in patterns):
                continue
            close = difflib.get_close_matches(str(key), known, n=1, cutoff=0.6)
            yield ctx.in_environment(
                "RTD140",
                "values",
                *path,
                key,
                on_key=True,
                message=f"the chart does not take `{key}` in {place}",
                label=f"did you mean `{close[0]}`?" if close else "",
                help=f"rename it to `{close[0]}`" if close else f"{_known(known, patterns)}; see docs/values.md",
            )
        return
    yield ctx.in_environment(
        "RTD140",
        "values",
        *path,
        message=f"the chart does not take {place}: {_reason(error)}",
        help=f"write a value that fits: {schema.get('description') or 'see docs/values.md'}",
    )


def _known(known: list[str], patterns: list[str]) -> str:
    if known:
        return f"known here: {', '.join(known)}"
    return f"names here have the form {patterns[0]}" if patterns else "remove it"


def _reason(error: ValidationError) -> str:
    wanted: Any = error.validator_value
    instance: Any = error.instance
    shown = json.dumps(instance, ensure_ascii=False)
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    if error.validator == "type":
        kinds = [kind for kind in ([wanted] if isinstance(wanted, str) else wanted) if kind != "null"]
        return f"{shown} is not of type {' or '.join(kinds)}"
    if error.validator == "enum":
        return f"{shown} is none of {', '.join(str(value) for value in wanted if value not in (None, ''))}"
    if error.validator == "required":
        missing = [key for key in wanted if key not in instance]
        return f"{', '.join(missing)} is missing"
    if error.validator in ("minimum", "maximum"):
        return f"{shown} is not {'at least' if error.validator == 'minimum' else 'at most'} {wanted}"
    if error.validator == "pattern":
        return f"{shown} is not of the form {wanted}"
    return f"{shown} breaks `{error.validator}: {json.dumps(wanted)}`"


@cache
def _validator() -> Draft7Validator:
    from jsonschema import Draft7Validator

    return Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


@cache
def _decided() -> tuple[tuple[Pointer, str], ...]:
    """The places as paths; keys of node selectors have dots of their own."""
    found = []
    for place, text in _DECIDED.items():
        before, selector, label = place.partition(".nodeSelector.")
        path = (*before.split("."), *(("nodeSelector", label) if selector else ()))
        found.append((path, text))
    return tuple(found)


def _matches(place: Pointer, path: Pointer) -> bool:
    return len(place) == len(path) and all(a in ("*", b) for a, b in zip(place, path, strict=True))


def _mapping(value: Any) -> Mapping[str, Any]:
    """The value itself where it is a map, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _nodes(node: Mapping[str, Any], path: Pointer = ()) -> Iterator[tuple[Pointer, Any]]:
    """(path, value) of every key, maps before what is in them."""
    for key, value in node.items():
        yield (*path, key), value
        if isinstance(value, Mapping):
            yield from _nodes(value, (*path, key))


RULES = (decided_elsewhere, chart_takes_it)
