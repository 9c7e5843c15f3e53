"""The checker with the API server's code accepts what it accepts and refuses what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.checkers import CheckerError, Report, check_objects, require_go, summary

pytestmark = pytest.mark.go


@pytest.fixture(scope="module", autouse=True)
def _go() -> None:
    require_go()


def pod(spec: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "registry.example/a:1", **container}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "demo"},
        "spec": {"containers": containers, **(spec or {})},
    }


CLOSED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
POLICY = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "demo"},
    "spec": {"podSelector": {}, "ingress": [{"from": [{}]}]},
}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "demo"},
    "spec": {"type": "Balanced", "ports": [{"port": 1}]},
}


def check(*items: dict[str, Any], level: str = "privileged") -> list[Report]:
    return check_objects("".join(f"---\n{json.dumps(item)}\n" for item in items), pod_security=level)


def test_a_right_pod_is_accepted() -> None:
    classes = {"priorityClassName": "high", "runtimeClassName": "nvidia"}
    reports = check(pod(), pod({"restartPolicy": "Never"}, ports=[{"containerPort": 1}]), pod(classes))
    assert [report.kind for report in reports] == ["Pod", "Pod", "Pod"]
    assert all(report.ok for report in reports), summary(reports)


@pytest.mark.parametrize(
    ("item", "check_name", "words"),
    [
        (pod(port=1), "decode", 'unknown field "spec.containers[0].port"'),
        (pod({"priority": 1}), "admission", "integer value of priority (1) must not be provided"),
        (pod({"preemptionPolicy": "Never"}), "admission", "PreemptionPolicy (Never) must not be provided"),
        (pod({"preemptionPolicy": "Never", "priorityClassName": "high"}), "admission", "PreemptionPolicy (Never)"),
        (pod({"overhead": {"cpu": "1"}, "runtimeClassName": "nvidia"}), "admission", "Overhead set without"),
        (pod(ports=[{"containerPort": 70000}]), "validate", "between 1 and 65535"),
        (pod({"restartPolicy": "Sometimes"}), "validate", "spec.restartPolicy"),
        (pod(volumeMounts=[{"name": "a", "mountPath": "/a"}]), "validate", "volumeMounts[0].name: Not found"),
        (POLICY, "validate", "must specify a peer"),
        (SERVICE, "validate", "spec.type"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "A_b"}}, "validate", "metadata.name"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_object_is_refused(item: dict[str, Any], check_name: str, words: str) -> None:
    (report,) = check(item)
    (error,) = report.errors
    assert (error.check, words in error.message) == (check_name, True), report


def test_pod_security_admission_has_its_say() -> None:
    items = (pod(securityContext=CLOSED), pod(), pod(securityContext={"privileged": True}))

    def refused(level: str) -> list[set[str]]:
        return [{error.check for error in report.errors} for report in check(*items, level=level)]

    assert refused("privileged") == [set(), set(), set()]
    assert refused("baseline") == [set(), set(), {"pod-security"}]
    assert refused("restricted") == [set(), {"pod-security"}, {"pod-security"}]


def test_nothing_to_judge_is_no_verdict() -> None:
    with pytest.raises(CheckerError, match="nothing was checked"):
        check({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})
    with pytest.raises(CheckerError, match="must be one of privileged"):
        check(pod(), level="secure")
