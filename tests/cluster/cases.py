"""Every case that the tests of the chart know, rendered once: what Kubernetes and KubeRay are then asked about."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import yaml

from generator.project import Project
from generator.render import render, values_path
from tests.chart.cases import job, with_key
from tests.chart.every_value import (
    FUNCTIONAL,
    NEUTRAL,
    NEUTRAL_POD_FIELDS,
    OF_A_CLUSTER,
    OF_A_JOB_ON_A_CLUSTER,
    POD_FIELDS,
    RAY_FIELDS,
    SUBMITTER,
    VOLUMES,
    changed,
)
from tests.cluster.checkers import Report, check_rayjobs
from tests.golden.tree import ROOT, objects
from tests.helm import CI_VALUES, Object
from tests.helm import render as chart

LATER = "cluster.extraSpec"
"""The value whose case is a field that a later KubeRay brings."""


def values_of_cases() -> dict[str, dict[str, Any]]:
    """Each value of the chart in another than its default, in every place that takes it; {what is set: values}."""
    made: dict[str, dict[str, Any]] = {}
    for path, (before, value) in (FUNCTIONAL | NEUTRAL | OF_A_CLUSTER | OF_A_JOB_ON_A_CLUSTER).items():
        made[path] = changed(path, before or job(), value)
    for path, value in (POD_FIELDS | NEUTRAL_POD_FIELDS).items():
        for place, before in (("head", job()), ("workerGroups.gpu", job()), ("job.submitter", SUBMITTER)):
            start = with_key(before, f"{place}.volumes", VOLUMES) if path == "volumeMounts" else before
            made[f"{place}.{path}"] = with_key(start, f"{place}.{path}", value)
    for path, value in RAY_FIELDS.items():
        for place in ("head", "workerGroups.gpu"):
            made[f"{place}.{path}"] = job(f"{place}.{path}", value)
    return made


@cache
def cases() -> Mapping[str, list[Object]]:
    """{name of the case: objects}: the chart's ci/ files, `values_of_cases`, the environments of this repository."""
    given: dict[str, Any] = {file.stem: [file] for file in CI_VALUES} | values_of_cases()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = dict(zip(given, pool.map(lambda case: chart(given[case]), given), strict=True))
    for name in Project(ROOT).names():
        made[f"environment {name}"] = objects(name, render(Project(ROOT).load(name))[values_path(name)])
    return made


def ray(objects: Iterable[Object]) -> Object:
    """The RayJob or RayCluster of a case."""
    (found,) = (item for item in objects if item["apiVersion"].startswith("ray.io/"))
    return found


@cache
def judged(release: str) -> Mapping[str, Report]:
    """What a release of KubeRay says of every case, and the pods that it would create."""
    text = yaml.safe_dump_all(map(ray, cases().values()), explicit_start=True)
    return dict(zip(cases(), check_rayjobs(text, pods=True, release=release), strict=True))
