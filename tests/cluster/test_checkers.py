"""The KubeRay checker accepts what the operator accepts and refuses what the operator refuses."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.checkers import (
    KUBERAY,
    CheckerError,
    check_rayjobs,
    require_go,
    summary,
)

pytestmark = pytest.mark.go

FIXTURES = Path(__file__).parent / "fixtures"
Document = dict[str, Any]
Change = Callable[[Document], object]


@pytest.fixture(scope="module", autouse=True)
def _go() -> None:
    require_go()


def _load(name: str) -> Document:
    loaded: Document = yaml.safe_load((FIXTURES / name).read_text(encoding="utf-8"))
    return loaded


def _changed(name: str, change: Change) -> Document:
    document = copy.deepcopy(_load(name))
    change(document)
    return document


def _cluster(job: Document) -> Document:
    spec: Document = job["spec"]["rayClusterSpec"]
    return spec


def _worker(job: Document) -> Document:
    group: Document = _cluster(job)["workerGroupSpecs"][0]
    return group


def _as_raycluster(job: Document) -> Document:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "demo"},
        "spec": _cluster(job),
    }


@pytest.mark.parametrize("release", KUBERAY)
def test_a_good_rayjob_passes_between_documents_of_other_kinds(release: str) -> None:
    text = "---\n# nothing here\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: code}\n---\n"
    text += (FIXTURES / "rayjob.yaml").read_text(encoding="utf-8")
    reports = check_rayjobs(text, release=release)
    assert [(report.kind, report.name) for report in reports] == [("RayJob", "demo-0a1b2c3d")]
    assert all(report.ok for report in reports), summary(reports)


def test_a_good_raycluster_passes_with_an_upgrade_strategy_of_its_own() -> None:
    cluster = _as_raycluster(_load("rayjob.yaml"))
    cluster["spec"]["upgradeStrategy"] = {"type": "Recreate"}
    reports = check_rayjobs(yaml.safe_dump(cluster))
    assert all(report.ok for report in reports), summary(reports)


def test_a_rayjob_name_of_47_characters_passes() -> None:
    job = _changed("rayjob.yaml", lambda job: job["metadata"].update(name="a" * 47))
    # With pods: for names this long the operator's code prints remarks, which must not mix with the reports.
    (report,) = check_rayjobs(yaml.safe_dump(job), pods=True)
    assert report.ok, str(report)
    assert len(report.pods) == 2


def _limits(job: Document) -> Document:
    """Limits of the worker."""
    return _cluster(job)["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"]["limits"]


BAD_RAYJOBS: dict[str, tuple[Change, str, str]] = {
    # Seen on the test bench: `helm upgrade` with nothing changed ended in a conflict with the operator.
    "worker-group-that-the-operator-writes-anew": (
        lambda job: _cluster(job)["workerGroupSpecs"][0].pop("scaleStrategy"),
        "update",
        "workerGroupSpecs[0].scaleStrategy: nothing becomes {}",
    ),
    "quantity-that-the-operator-writes-anew": (
        lambda job: _limits(job).update(memory="163840Mi"),
        "update",
        'memory: "163840Mi" becomes "160Gi"',
    ),
    "name-of-48-characters": (
        lambda job: job["metadata"].update(name="a" * 48),
        "ValidateRayJobMetadata",
        "no more than 47 characters",
    ),
    "name-starts-with-a-digit": (
        lambda job: job["metadata"].update(name="1demo"),
        "ValidateRayJobMetadata",
        "DNS1035",
    ),
    "upgrade-strategy-inside-a-job": (
        lambda job: _cluster(job).update(upgradeStrategy={"type": "Recreate"}),
        "ValidateRayClusterUpgradeOptions",
        "upgradeStrategy cannot be set when RayCluster is created by RayJob",
    ),
    "ttl-without-shutdown": (
        lambda job: job["spec"].update(shutdownAfterJobFinishes=False),
        "ValidateRayJobSpec",
        "cannot have TTLSecondsAfterFinished",
    ),
    "suspend-without-shutdown": (
        lambda job: job["spec"].update(suspend=True, shutdownAfterJobFinishes=False, ttlSecondsAfterFinished=0),
        "ValidateRayJobSpec",
        "not allowed to be suspended",
    ),
    "deletion-rules-with-shutdown": (
        lambda job: job["spec"].update(
            deletionStrategy={
                "deletionRules": [
                    {"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 60}}
                ]
            }
        ),
        "ValidateRayJobSpec",
        "mutually exclusive",
    ),
    "deletion-rule-with-two-conditions": (
        lambda job: job["spec"].update(
            shutdownAfterJobFinishes=False,
            ttlSecondsAfterFinished=0,
            deletionStrategy={
                "deletionRules": [
                    {
                        "policy": "DeleteCluster",
                        "condition": {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed"},
                    }
                ]
            },
        ),
        "schema",  # a CEL rule of the CRD
        "cannot be used together",
    ),
    "managed-by-a-stranger": (
        lambda job: job["spec"].update(managedBy="example.com/other"),
        "schema",  # a CEL rule of the CRD
        "managedBy field value must be either",
    ),
    "backoff-limit-in-interactive-mode": (
        lambda job: job["spec"].update(submissionMode="InteractiveMode"),
        "ValidateRayJobSpec",
        "incompatible with InteractiveMode",
    ),
    "submission-mode-that-nobody-refuses": (
        lambda job: job["spec"].update(submissionMode="Bogus"),
        "trap",
        "submit nothing",
    ),
    "unknown-field": (
        lambda job: job["spec"].update(entryPoint="python -m training.train"),
        "decode",
        'unknown field "spec.entryPoint"',
    ),
    "unknown-field-in-a-pod": (
        lambda job: _worker(job)["template"]["spec"].update(tolerationz=[]),
        "decode",
        "tolerationz",
    ),
    "wrong-type": (
        lambda job: _worker(job).update(replicas="two"),
        "schema",
        "replicas",
    ),
    "number-as-a-start-parameter": (
        lambda job: _worker(job)["rayStartParams"].update({"num-gpus": 4}),
        "schema",
        "num-gpus",
    ),
    "group-without-a-name": (
        lambda job: _worker(job).pop("groupName"),
        "schema",
        "groupName: Required value",
    ),
    "label-value-with-a-space": (
        lambda job: job["metadata"]["labels"].update(team="machine learning"),
        "schema",
        "metadata.labels",
    ),
    "two-groups-of-one-name": (
        lambda job: _cluster(job)["workerGroupSpecs"].append(copy.deepcopy(_worker(job))),
        "webhook",
        "worker group names must be unique",
    ),
    "resources-in-two-places": (
        lambda job: _worker(job).update(resources={"GPU": "4"}),
        "ValidateRayJobSpec",
        "both rayStartParams and Resources",
    ),
    "labels-as-a-start-parameter": (
        lambda job: _worker(job)["rayStartParams"].update(labels="zone=a"),
        "ValidateRayJobSpec",
        "rayStartParams['labels'] is not supported",
    ),
    "min-above-max": (
        lambda job: _worker(job).update(minReplicas=3),
        "ValidateRayJobSpec",
        "greater than maxReplicas",
    ),
    "no-container": (
        lambda job: _worker(job)["template"]["spec"].update(containers=[]),
        "ValidateRayJobSpec",
        "at least one container",
    ),
    "token-without-a-ray-version": (
        lambda job: _cluster(job).pop("rayVersion"),
        "ValidateRayJobSpec",
        "RayVersion was not specified",
    ),
    "token-in-capitals": (
        lambda job: _cluster(job)["authOptions"].update(mode="Token"),
        "schema",
        "Unsupported value",
    ),
    "secret-without-a-mode": (
        lambda job: _cluster(job).update(authOptions={"secretName": "token"}),
        "trap",
        "without authentication",
    ),
    "negative-backoff": (
        lambda job: job["spec"].update(backoffLimit=-1),
        "ValidateRayJobSpec",
        "backoffLimit must be a positive integer",
    ),
    "runtime-environment-that-is-no-yaml": (
        lambda job: job["spec"].update(runtimeEnvYAML="a: [1"),
        "ValidateRayJobSpec",
        "yaml",
    ),
    "old-api-version": (
        lambda job: job.update(apiVersion="ray.io/v1alpha1"),
        "decode",
        "is not ray.io/v1",
    ),
    "kind-that-is-not-judged": (
        lambda job: job.update(kind="RayServe"),
        "decode",
        "not judged",
    ),
}


@pytest.mark.parametrize("release", KUBERAY)
@pytest.mark.parametrize("case", BAD_RAYJOBS)
def test_a_bad_rayjob_is_refused(case: str, release: str) -> None:
    change, check, words = BAD_RAYJOBS[case]
    (report,) = check_rayjobs(yaml.safe_dump(_changed("rayjob.yaml", change)), release=release)
    assert not report.ok
    matching = [error for error in report.errors if error.check == check and words in error.message]
    assert matching, f"no {check} error says {words!r}:\n{report}"


def test_a_duplicate_key_is_refused() -> None:
    text = (FIXTURES / "rayjob.yaml").read_text(encoding="utf-8")
    (report,) = check_rayjobs(text.replace("  backoffLimit: 2\n", "  backoffLimit: 2\n  backoffLimit: 3\n"))
    assert any("backoffLimit" in error.message for error in report.errors), str(report)


def test_every_refusal_of_a_job_is_told_and_none_twice() -> None:
    job = _changed("rayjob.yaml", BAD_RAYJOBS["name-of-48-characters"][0])
    BAD_RAYJOBS["min-above-max"][0](job)
    BAD_RAYJOBS["upgrade-strategy-inside-a-job"][0](job)
    (report,) = check_rayjobs(yaml.safe_dump(job))
    checks = [error.check for error in report.errors]
    assert checks.count("ValidateRayJobSpec") == 1
    assert "ValidateRayClusterSpec" not in checks, f"the job's function has said the same:\n{report}"
    assert {
        "ValidateRayJobMetadata",
        "ValidateRayClusterMetadata",
        "ValidateRayClusterUpgradeOptions",
    } <= set(checks)


def test_feature_gates_are_those_of_the_operator() -> None:
    def rules(job: Document) -> None:
        condition = {"jobStatus": "SUCCEEDED", "ttlSeconds": 60}
        job["spec"].pop("ttlSecondsAfterFinished")
        job["spec"].pop("shutdownAfterJobFinishes")
        job["spec"]["deletionStrategy"] = {"deletionRules": [{"policy": "DeleteCluster", "condition": condition}]}

    text = yaml.safe_dump(_changed("rayjob.yaml", rules))
    assert check_rayjobs(text)[0].ok, "on by default in 1.6"
    (report,) = check_rayjobs(text, feature_gates="RayJobDeletionPolicy=false")
    assert "feature gate must be enabled" in str(report)
    with pytest.raises(CheckerError, match="NoSuchGate"):
        check_rayjobs(text, feature_gates="NoSuchGate=true")


def test_pods_are_those_that_the_operator_would_start() -> None:
    (report,) = check_rayjobs((FIXTURES / "rayjob.yaml").read_text(encoding="utf-8"), pods=True)
    head, worker = report.pods
    assert "--num-gpus=4" in " ".join(worker["spec"]["containers"][0]["args"])
    assert "--num-gpus=0" in " ".join(head["spec"]["containers"][0]["args"])
    assert head["metadata"]["labels"]["ray.io/node-type"] == "head"
    for pod in report.pods:
        environment = {entry["name"] for entry in pod["spec"]["containers"][0]["env"]}
        assert {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN"} <= environment
    assert [container["name"] for container in worker["spec"]["initContainers"]] == ["wait-gcs-ready"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "nothing was checked", id="empty"),
        pytest.param("apiVersion: v1\nkind: Pod\n", "nothing was checked", id="nothing-of-ray"),
        pytest.param("a: [1\n", "yaml", id="no-yaml"),
    ],
)
def test_an_input_without_a_verdict_is_an_error_of_the_check(text: str, words: str) -> None:
    with pytest.raises(CheckerError, match=words):
        check_rayjobs(text)
