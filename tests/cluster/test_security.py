"""A security scanner over what the chart renders and the operator makes of it.

It finds what docs/security-findings.md lists, with a reason for each, and nothing else.
"""

from __future__ import annotations

import copy
import os
import re
from collections import defaultdict
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.cases import job
from tests.chart.every_value import DIGEST
from tests.cluster.cases import ray
from tests.cluster.checkers import check_rayjobs, require_go
from tests.cluster.tools import checkov
from tests.helm import CI_VALUES, ROOT, Object, render

LIST = ROOT / "docs" / "security-findings.md"
CASES: dict[str, Any] = {
    **{file.stem.removesuffix("-values"): [file] for file in CI_VALUES},
    "restricted": job("podSecurity", "restricted") | {"image": {"digest": DIGEST}},
    "sidecar": job("job.submissionMode", "SidecarMode"),
}

pytestmark = pytest.mark.go


def named(pod: Object) -> Object:
    """A pod with its role for a name, which the operator would make longer."""
    role = pod["metadata"]["labels"].get("ray.io/group", "submitter").replace("headgroup", "head")
    return pod | {"metadata": pod["metadata"] | {"name": role}}


@cache
def created(case: str) -> list[Object]:
    """Objects of Helm and pods of the operator; ray.io objects themselves say nothing to a scanner."""
    objects = render(CASES[case])
    made = ray(objects)
    (report,) = check_rayjobs(yaml.safe_dump(made), pods=True)
    return [item for item in objects if item is not made] + [named(pod) for pod in report.pods]


def label(item: Object) -> str:
    """How the list names an object: a pod by its name alone."""
    name: str = item["metadata"]["name"]
    return name if item["kind"] == "Pod" else f"{item['kind']} {name}"


def scanned(folder: Path) -> dict[str, set[str]]:
    """{check: what fails it}."""
    labels = {}
    for case in CASES:
        # The scanner's report has namespace and name; an object without one has none.
        for item in created(case):
            namespace = item["metadata"].get("namespace", "default")
            labels[case, f"{item['kind']}.{namespace}.{item['metadata']['name']}"] = f"{case}/{label(item)}"
        text = yaml.safe_dump_all(created(case), explicit_start=True)
        (folder / f"{case}.yaml").write_text(text, encoding="utf-8")
    try:
        scan = checkov.scan(folder)
    except checkov.CheckovError as error:
        if os.environ.get("CI", "").lower() in {"true", "1"}:
            raise
        pytest.skip(str(error))
    assert scan.passed > 1000
    failed = defaultdict(set)
    for check, asks, path, resource in scan.failed:
        failed[f"{check} {asks}"].add(labels[Path(path).stem, resource])
    return dict(failed)


def listed() -> dict[str, set[str]]:
    """{check: what the list names for it}, every pattern over all pods of all cases, or one object that is none."""
    pods = [f"{case}/{label(item)}" for case in CASES for item in created(case) if item["kind"] == "Pod"]
    rows = {}
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if not line.startswith("| CKV"):
            continue
        check, asks, where, why, since = (cell.strip() for cell in line.strip("|").split("|"))
        assert len(why) > len("As CKV_"), line
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", since), line
        patterns = where.split(", ")
        named = {pattern for pattern in patterns if " " in pattern}
        rows[f"{check} {asks}"] = named | {pod for pod in pods if any(fnmatchcase(pod, entry) for entry in patterns)}
    return rows


def test_the_scanner_finds_what_is_listed_and_nothing_else(tmp_path: Path) -> None:
    require_go()
    found, known = scanned(tmp_path), listed()
    new = [f"{check}: {', '.join(sorted(found[check] - known.get(check, set())))}" for check in sorted(found)]
    gone = [f"{check}: {', '.join(sorted(known[check] - found.get(check, set())))}" for check in sorted(known)]
    new, gone = ([line for line in lines if not line.endswith(": ")] for lines in (new, gone))
    assert not new, "\n".join([f"not in {LIST.name}: mend it, or add it there with the reason why it stays", *new])
    assert not gone, "\n".join([f"in {LIST.name} and not found: remove it there", *gone])


def test_the_list_names_the_scanner() -> None:
    (version,) = re.findall(r"^checkov==(\S+)$", checkov.PINS.read_text(encoding="utf-8"), re.MULTILINE)
    assert f"checkov {version} " in LIST.read_text(encoding="utf-8")


def test_the_scanner_sees_a_weakness(tmp_path: Path) -> None:
    require_go()
    pod = copy.deepcopy(next(item for item in created("restricted") if item["kind"] == "Pod"))
    pod["spec"]["containers"][0]["securityContext"]["privileged"] = True
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod), encoding="utf-8")
    assert "CKV_K8S_16" in {check for check, *_ in checkov.scan(tmp_path).failed}
