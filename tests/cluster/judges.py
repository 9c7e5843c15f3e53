"""All that reads what the chart renders, asked at once: two releases of KubeRay, then the API server and Pod Security
admission about each object that Helm and the operator would create."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.cluster.checkers import KUBERAY, NEWEST, Report, check_objects, check_rayjobs
from tests.helm import HelmError, template

PLAIN = re.compile(r"^kind: (ConfigMap|NetworkPolicy|Service|ServiceAccount)$", re.MULTILINE)
SCHEMA = "don't meet the specifications of the schema"


def rendered(cases: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """{case: manifests} of those that the chart accepts; a template that fails otherwise fails the test."""

    def one(case: str) -> str | None:
        try:
            return template(cases[case])
        except HelmError as error:
            assert error.problems or SCHEMA in error.stderr, f"{case}: {cases[case]}\n{error.stderr}"
            return None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = dict(zip(cases, pool.map(one, cases), strict=True))
    return {case: text for case, text in made.items() if text is not None}


def created(text: str, report: Report) -> Iterator[str]:
    """Every object of a case but custom resources, as YAML or JSON: Helm's, then the operator's."""
    yield from (part for part in re.split(r"^---$", text, flags=re.MULTILINE) if PLAIN.search(part))
    yield from (json.dumps(item, ensure_ascii=False) for item in (*report.pods, report.service) if item)


def level(values: Mapping[str, Any]) -> str:
    """The Pod Security level that values ask for."""
    return values.get("podSecurity") or "baseline"


def refusals(cases: Mapping[str, dict[str, Any]], texts: Mapping[str, str]) -> list[str]:
    """What anybody has against the manifests of some cases, a line each."""
    together = "\n---\n".join(texts.values())
    lines = []
    reports = {}
    for release in KUBERAY:
        judged = check_rayjobs(together, pods=True, release=release)
        reports[release] = dict(zip(texts, judged, strict=True))
        lines += [f"{case}: {error}" for case, report in reports[release].items() for error in report.errors]
    for wanted in sorted({level(cases[case]) for case in texts}):
        items = [
            (case, item)
            for case, text in texts.items()
            if level(cases[case]) == wanted
            for item in created(text, reports[NEWEST][case])
        ]
        found = check_objects("".join(f"---\n{item}\n" for _, item in items), pod_security=wanted)
        lines += [
            f"{case}: {report.kind}: {error}"
            for (case, _), report in zip(items, found, strict=True)
            for error in report.errors
        ]
    return list(dict.fromkeys(lines))
