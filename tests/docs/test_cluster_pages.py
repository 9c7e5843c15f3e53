"""docs/growing-cluster.md, docs/kueue.md and docs/private-image.md: their values hold, and do what the pages say."""

from __future__ import annotations

import copy
from typing import Any

import kubernetes_validate
import pytest

from tests.chart.cases import job, pods, with_key
from tests.cluster.checkers import check_rayjobs, require_go
from tests.cluster.judges import refusals, rendered
from tests.docs.blocks import commands, documents
from tests.docs.test_own_code import created
from tests.helm import Object, one, render, template
from tests.project_pods import environment

UNITS = {"m": 1e-3, "Mi": 2.0**20, "Gi": 2.0**30}


def values(page: str, name: str) -> dict[str, Any]:
    """A values file of a page, over those of two nodes."""
    ((found,),) = documents(page, f"{name}-values.yaml")
    return job() | found


GROWING = values("growing-cluster.md", "growing")
REDIS = GROWING | {"cluster": GROWING["cluster"] | values("growing-cluster.md", "redis")["cluster"]}
REDIS_CLOSED = REDIS | {"networkPolicy": values("growing-cluster.md", "redis")["networkPolicy"] | {"limitEgress": True}}
QUEUED = values("kueue.md", "queue")
IMAGE = values("private-image.md", "image")
CASES = {"growing": GROWING, "Redis": REDIS, "Redis, egress closed": REDIS_CLOSED, "queued": QUEUED, "image": IMAGE}


def amount(quantity: object) -> float:
    """A quantity of Kubernetes as a number."""
    text = str(quantity)
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    return float(text)


def asked_for(pod: Object) -> dict[str, float]:
    """What all containers of a pod request."""
    found: dict[str, float] = {}
    for part in pod["spec"]["containers"]:
        for name, quantity in part["resources"]["requests"].items():
            found[name] = found.get(name, 0) + amount(quantity)
    return found


@pytest.mark.go
def test_everybody_takes_what_they_render() -> None:
    require_go()
    found = refusals(CASES, rendered(CASES))
    assert not found, "\n".join(found)


def test_the_cluster_starts_at_its_least_and_counts_the_nodes_of_a_training() -> None:
    spec = one("RayCluster", GROWING)["spec"]
    (group,) = spec["workerGroupSpecs"]
    assert (group.get("replicas"), group["minReplicas"], group["maxReplicas"]) == (None, 0, 4)
    assert spec["enableInTreeAutoscaling"] is True
    assert [environment(pod)["RTD_NODES"] for pod in pods(GROWING, kind="RayCluster")] == ["2", "2"]


def test_without_limits_a_growing_cluster_does_not_grow() -> None:
    plain = copy.deepcopy(GROWING)
    for key in ("minReplicas", "maxReplicas"):
        del plain["workerGroups"]["gpu"][key]
    (group,) = one("RayCluster", plain)["spec"]["workerGroupSpecs"]
    assert (group["minReplicas"], group["maxReplicas"]) == (2, 2)


def test_redis_gets_its_password_from_the_secret_of_the_command(tmp_path: Any) -> None:
    (command,) = commands("growing-cluster.md", "kubectl create secret")
    secret = created(command.replace("$password", "$token"), tmp_path)
    source = one("RayCluster", REDIS)["spec"]["gcsFaultToleranceOptions"]["redisPassword"]["valueFrom"]["secretKeyRef"]
    assert (source["name"], [source["key"]]) == (secret["metadata"]["name"], list(secret["data"]))


@pytest.mark.go
def test_the_quota_is_what_one_job_asks_for() -> None:
    require_go()
    ((flavor, shared, queue),) = documents("kueue.md", "queues.yaml")
    (group,) = shared["spec"]["resourceGroups"]
    ((name, quotas),) = [(item["name"], item["resources"]) for item in group["flavors"]]
    assert name == flavor["metadata"]["name"]
    assert queue["spec"]["clusterQueue"] == shared["metadata"]["name"]
    assert [item["name"] for item in quotas] == group["coveredResources"]
    rayjob = one("RayJob", QUEUED)
    assert rayjob["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == queue["metadata"]["name"]
    assert rayjob["metadata"]["namespace"] == queue["metadata"]["namespace"]
    (report,) = check_rayjobs(template(QUEUED), pods=True)
    wanted: dict[str, float] = {}
    for pod, count in zip(report.pods, (1, 2), strict=True):
        for resource, number in asked_for(pod).items():
            wanted[resource] = wanted.get(resource, 0) + count * number
    assert wanted == {item["name"]: amount(item["nominalQuota"]) for item in quotas}


def test_every_pod_takes_the_image_and_the_secret_of_the_command(tmp_path: Any) -> None:
    (command,) = commands("private-image.md", "kubectl create secret")
    secret = created(command.replace("$password", "$token"), tmp_path)
    assert secret["type"] == "kubernetes.io/dockerconfigjson"
    image = f"{IMAGE['image']['repository']}@{IMAGE['image']['digest']}"
    given = with_key(IMAGE, "job.submissionMode", "K8sJobMode")
    (test,) = [item for item in render(given, hooks=True) if item["kind"] == "Pod"]
    submitter = one("RayJob", given)["spec"]["submitterPodTemplate"]
    for pod in (*pods(given), submitter, test):
        assert pod["spec"]["imagePullSecrets"] == [{"name": secret["metadata"]["name"]}]
        assert {part["image"] for part in pod["spec"]["containers"]} == {image}


@pytest.mark.parametrize("version", ["1.34", "1.37"])
def test_kubernetes_takes_the_job_that_gives_the_folder_away(version: str) -> None:
    ((owner,),) = documents("storage.md", "owner.yaml")
    kubernetes_validate.validate(owner, version, strict=True)
    for pod in pods(job("podSecurity", "restricted")):
        context = pod["spec"]["securityContext"]
        assert (
            f"chown {context['runAsUser']}:{context['fsGroup']} "
            in owner["spec"]["template"]["spec"]["containers"][0]["args"][0]
        )
