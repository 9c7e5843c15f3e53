"""Every value of the chart, in every place that takes it, judged by two releases of KubeRay and two of Kubernetes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest

from tests.chart.cases import job
from tests.cluster.cases import LATER, cases, judged, ray, values_of_cases
from tests.cluster.checkers import KUBERAY, NEWEST, check_objects, check_rayjobs, require_go
from tests.helm import Object, template

pytestmark = pytest.mark.go

KUBERNETES = ("1.34", "1.37")  # the oldest that the chart takes, and the newest known


@pytest.fixture(autouse=True)
def _go() -> None:
    require_go()


@pytest.mark.parametrize("release", KUBERAY)
def test_kuberay_takes_every_value(release: str) -> None:
    reports = judged(release)
    refused = {case: f"{case}: {report}" for case, report in reports.items() if report.errors}
    # A field of a later release: the schemas are those of this one, and strict.
    assert 'unknown field "spec.rayClusterSpec.networkPolicy"' in refused.pop(LATER)
    assert not refused, "\n".join(refused.values())


@pytest.mark.parametrize(
    "values",
    [
        job("common.scratch", {"storageClassName": "a", "size": "1Gi"}),
        job("head.service", {"metadata": {"labels": {"a": "1"}}}),
        job("head.service", {"spec": {"type": "ClusterIP"}}),
    ],
    ids=repr,
)
def test_the_operator_would_write_nothing_back(values: dict[str, Any]) -> None:
    (report,) = check_rayjobs(template(values))
    assert report.ok, report


def test_the_releases_agree() -> None:
    oldest, newest = (judged(release) for release in KUBERAY)
    assert [case for case in oldest if oldest[case].errors != newest[case].errors] == []


def as_created() -> Iterator[tuple[str, Object]]:
    """(case, object): what the API server is asked to create, by Helm and by the operator, each kind of object once."""
    seen = set()
    for case, objects in cases().items():
        made = ray(objects)
        plain = [item for item in objects if item is not made and item["kind"] != "PodMonitor"]
        report = judged(NEWEST)[case]
        for item in [*plain, *report.pods, *filter(None, [report.service])]:
            # Cases differ in the hash of the job's name too, which no schema is about.
            text = json.dumps(item, sort_keys=True).replace(made["metadata"]["name"], "demo")
            if text not in seen:
                seen.add(text)
                yield case, item


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_takes_every_object(version: str) -> None:
    kinds = set()
    for case, item in as_created():
        kinds.add(item["kind"])
        try:
            kubernetes_validate.validate(item, version, strict=True)
        except kubernetes_validate.ValidationError as refused:
            pytest.fail(f"{case}: {item['kind']}: {refused}")
    assert kinds == {"ConfigMap", "NetworkPolicy", "Pod", "Service", "ServiceAccount"}


def test_the_api_server_takes_every_object() -> None:
    """Its code, not its schema alone; with the Pod Security level that the values ask for."""
    for level in ("baseline", "restricted"):
        items = [(case, item) for case, item in as_created() if level == "baseline" or case == "podSecurity"]
        assert items
        reports = check_objects("".join(f"---\n{json.dumps(item)}\n" for _, item in items), pod_security=level)
        refused = [f"{case}: {report}" for (case, _), report in zip(items, reports, strict=True) if report.errors]
        assert not refused, "\n".join(refused)


def test_the_pods_are_those_of_all_roles() -> None:
    def names(case: str) -> list[list[str]]:
        return [[container["name"] for container in pod["spec"]["containers"]] for pod in judged(NEWEST)[case].pods]

    assert names("default-values") == [["ray-head"], ["ray-worker"]]
    assert names("job.submitter.resources") == [["ray-head"], ["ray-worker"], ["ray-job-submitter"]]
    assert names("job.submissionMode") == [["ray-head", "ray-job-submitter"], ["ray-worker"]]
    assert names("cluster.autoscaling.enabled") == [["ray-head", "autoscaler"], ["ray-worker"]]
    assert names("job-on-cluster-values") == []


def test_no_case_is_as_the_others() -> None:
    """A change that changes nothing would prove nothing."""
    values = values_of_cases()
    assert len({json.dumps(case, sort_keys=True) for case in values.values()}) == len(values)
