"""Whatever the chart accepts is accepted: random values, rendered by Helm, judged by KubeRay's functions, and what the
operator makes of them by the API server's.

The reverse does not hold, and need not: docs/stricter-than-kuberay.md lists what the chart refuses and the operator
takes.
"""

from __future__ import annotations

from collections import Counter

import pytest
import yaml

from tests.chart.cases import job
from tests.chart.test_requirements import problems
from tests.cluster.checkers import KUBERAY, require_go
from tests.cluster.judges import refusals, rendered
from tests.cluster.sets import values
from tests.cluster.tools import build

SETS = 300
MANY = 10_000  # in `make test-full`
AT_ONCE = 250


@pytest.mark.parametrize("count", [SETS, pytest.param(MANY, marks=pytest.mark.full)])
def test_what_the_chart_accepts_is_accepted(count: int) -> None:
    require_go()
    kinds: Counter[str] = Counter()
    for start in range(0, count, AT_ONCE):
        sets = {f"set-{seed}": values(seed) for seed in range(start, min(start + AT_ONCE, count))}
        texts = rendered(sets)
        kinds.update("RayJob" if "\nkind: RayJob\n" in text else "RayCluster" for text in texts.values())
        found = refusals(sets, texts)
        assert not found, f"{len(found)} refusals:\n" + "\n".join(found[:100])
    # Both sides of the chart's judgement are tried, and both kinds.
    assert count * 0.3 < kinds.total() < count * 0.9
    assert min(kinds["RayJob"], kinds["RayCluster"]) > count * 0.05, kinds


@pytest.mark.parametrize("release", KUBERAY)
@pytest.mark.parametrize(("value", "kind"), [("job.extraSpec", "rayjobs"), ("cluster.extraSpec", "rayclusters")])
def test_no_field_of_a_spec_in_other_letters_is_dropped_in_silence(value: str, kind: str, release: str) -> None:
    """The chart knows every field that the CRDs of KubeRay have."""
    require_go()
    file = build.module_dir(KUBERAY[release]) / "config" / "crd" / "bases" / f"ray.io_{kind}.yaml"
    versions = yaml.safe_load(file.read_text(encoding="utf-8"))["spec"]["versions"]
    (schema,) = (item["schema"]["openAPIV3Schema"] for item in versions if item["name"] == "v1")
    fields = [field.upper() for field in schema["properties"]["spec"]["properties"]]
    said = problems(job(value, dict.fromkeys(fields, 1)))
    assert sorted(problem.split()[2] for problem in said) == sorted(fields)
