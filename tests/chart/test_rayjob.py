"""RayJob and RayCluster: what KubeRay needs, what it would refuse or strand, and what makes pods safe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.chart.cases import environments, group, job, pods, with_key
from tests.helm import CI_VALUES, MODES, Object, one, render
from tests.project_pods import cluster_spec, container, project, templates

# Those with pods, and with the settings that the chart stands for.
PLAIN = [file for file in CI_VALUES if MODES[file] != "jobOnCluster" and not file.name.startswith("all-options")]
BY_FILE = pytest.mark.parametrize("file", PLAIN, ids=lambda file: file.stem.removesuffix("-values"))


def ray_object(file: Path) -> Object:
    (found,) = [item for item in render([file]) if item["apiVersion"] == "ray.io/v1"]
    return found


@BY_FILE
def test_token_authentication_is_explicit(file: Path) -> None:
    spec = cluster_spec(ray_object(file))
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["rayVersion"]


@BY_FILE
def test_sizes_are_fixed(file: Path) -> None:
    spec = cluster_spec(ray_object(file))
    assert spec["enableInTreeAutoscaling"] is False
    for workers in spec["workerGroupSpecs"]:
        assert workers["replicas"] == workers["minReplicas"] == workers["maxReplicas"] >= 1


@BY_FILE
def test_ray_parameters_are_strings(file: Path) -> None:
    spec = cluster_spec(ray_object(file))
    for start in [spec["headGroupSpec"], *spec["workerGroupSpecs"]]:
        assert all(isinstance(value, str) for value in start["rayStartParams"].values())
    head = spec["headGroupSpec"]["rayStartParams"]
    assert (head["num-cpus"], head["num-gpus"]) == ("0", "0")


@BY_FILE
def test_requests_equal_limits_and_gpus_are_one_number(file: Path) -> None:
    resource = ray_object(file)
    counts = {
        workers["groupName"]: workers["rayStartParams"]["num-gpus"]
        for workers in cluster_spec(resource)["workerGroupSpecs"]
    }
    for name, template in templates(resource):
        resources = template["spec"]["containers"][0]["resources"]
        assert resources["requests"] == resources["limits"]
        assert all(isinstance(quantity, str) for quantity in resources["limits"].values())
        assert resources["limits"].get("nvidia.com/gpu", "0") == counts.get(name, "0")


@BY_FILE
def test_pods_are_closed(file: Path) -> None:
    for pod in project(ray_object(file)):
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
        assert container(pod)["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]},
        }
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        for volume in spec["volumes"]:
            assert not {"hostPath", "secret"} & set(volume)
            assert all(set(source) == {"configMap"} for source in volume.get("projected", {}).get("sources", []))
        assert ":latest" not in container(pod)["image"]


@BY_FILE
def test_pods_leave_to_kuberay_what_is_kuberays(file: Path) -> None:
    for pod in project(ray_object(file)):
        spec = pod["spec"]
        assert spec["restartPolicy"] == "Never"
        assert container(pod)["name"] == ("ray-head" if pod["metadata"]["name"].endswith("-head") else "ray-worker")
        assert not {"command", "args", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"} & set(
            container(pod)
        )
        assert all(mount["mountPath"] != "/dev/shm" for mount in container(pod)["volumeMounts"])  # noqa: S108


def test_rayjob_spec() -> None:
    spec = one("RayJob")["spec"]
    assert set(spec) == {
        "entrypoint", "submissionMode", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished", "backoffLimit",
        "preRunningDeadlineSeconds", "rayClusterSpec",
    }  # fmt: skip
    assert spec["submissionMode"] == "HTTPMode"
    assert spec["shutdownAfterJobFinishes"] is True
    assert "upgradeStrategy" not in spec["rayClusterSpec"]


def test_numbers_of_the_job() -> None:
    values = {
        "job": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": 1000000,
            "preRunningDeadlineSeconds": 2000000,
            "ttlSecondsAfterFinished": 0,
        }
    }
    spec = one("RayJob", values)["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"], spec["preRunningDeadlineSeconds"]) == (
        0,
        1000000,
        2000000,
    )
    assert "ttlSecondsAfterFinished" not in spec  # the operator would write a 0 back as nothing


def test_cluster_mode() -> None:
    cluster = one("RayCluster", {"mode": "cluster"}, name="1.My-Cluster".lower())
    assert cluster["metadata"]["name"] == "r-1-my-cluster"
    assert cluster["spec"]["upgradeStrategy"] == {"type": "Recreate"}
    env = environments_of(cluster)[0]
    assert env["RTD_RUN_NAME"] == "r-1-my-cluster"
    assert env["RTD_RUN_PATH"].endswith("/cluster/ray-train/r-1-my-cluster")


def test_both_modes_have_the_same_pods() -> None:
    values = job()
    job_pods, cluster_pods = pods(values), pods(with_key(values, "mode", "cluster"), kind="RayCluster")
    own = {"RTD_RUN_NAME", "RTD_RUN_PATH"}
    for left, right in zip(job_pods, cluster_pods, strict=True):
        for pod in (left, right):
            container(pod)["env"] = [item for item in container(pod)["env"] if item["name"] not in own]
        assert left["spec"] == right["spec"]


def environments_of(resource: Object) -> list[dict[str, Any]]:
    return [{item["name"]: item.get("value", "") for item in container(pod)["env"]} for pod in project(resource)]


def test_chart_version_is_in_no_pod(chart_copy: Path) -> None:
    """Else a new chart would recreate a standing cluster."""
    before = one("RayCluster", {"mode": "cluster"}, chart=chart_copy)["spec"]
    file = chart_copy / "Chart.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("version: 0.1.0", "version: 0.2.0"), encoding="utf-8")
    after = one("RayCluster", {"mode": "cluster"}, chart=chart_copy)
    assert after["metadata"]["labels"]["helm.sh/chart"] == "ray-train-dlc-0.2.0"
    assert after["spec"] == before


@pytest.mark.parametrize(
    ("storage", "mounted", "root"),
    [
        ({"kind": "none"}, False, "/var/tmp/ray-train/runs"),  # noqa: S108
        ({"kind": "s3", "uri": "s3://bucket/prefix/"}, False, "s3://bucket/prefix"),
        ({"kind": "s3", "uri": "s3://bucket"}, False, "s3://bucket"),
        ({"kind": "fsx", "claimName": "claim"}, True, "/mnt/ray-train"),
        ({"kind": "pvc", "claimName": "claim"}, True, "/mnt/ray-train"),
    ],
)
def test_storage(storage: dict[str, str], mounted: bool, root: str) -> None:
    values = {"training": {"storage": storage}, "clusterName": "demo"}
    job_object = one("RayJob", values)
    for pod in project(job_object):
        mounts = {mount["name"]: mount for mount in container(pod)["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        assert set(mounts) == set(volumes) == {"training", "scratch"} | ({"storage"} if mounted else set())
        if mounted:
            assert mounts["storage"] == {"name": "storage", "mountPath": "/mnt/ray-train"}
            assert volumes["storage"]["persistentVolumeClaim"] == {"claimName": "claim"}
        assert mounts["training"] == {"name": "training", "mountPath": "/opt/ray-train/training", "readOnly": True}
        assert mounts["scratch"] == {"name": "scratch", "mountPath": "/var/tmp/ray-train"}  # noqa: S108
    for env in environments(values):
        assert env["RTD_STORAGE_KIND"] == storage["kind"]
        assert env["RTD_RUN_PATH"] == f"{root}/demo/ray-train/{job_object['metadata']['name']}"


def test_scheduling_goes_to_the_right_pods() -> None:
    values = job(nodeSelector={"a": "1", "gone": None}, tolerations=[{"key": "gpu", "operator": "Exists"}])
    values["head"] = {"nodeSelector": {"b": "2"}, "tolerations": [{"key": "system", "operator": "Exists"}]}
    head, worker = (pod["spec"] for pod in pods(values))
    assert (head["nodeSelector"], worker["nodeSelector"]) == ({"b": "2"}, {"a": "1"})
    assert (head["tolerations"][0]["key"], worker["tolerations"][0]["key"]) == ("system", "gpu")


def test_one_worker_per_node() -> None:
    job_object = one("RayJob", job())
    head, worker = project(job_object)
    assert "affinity" not in head["spec"]
    (rule,) = worker["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"
    wanted = rule["labelSelector"]["matchLabels"]
    # All workers of the release, of whichever job and group, and not the head.
    assert wanted.items() <= worker["metadata"]["labels"].items()
    assert not wanted.items() <= head["metadata"]["labels"].items()
    assert "ray-train-dlc/run" not in wanted


def test_image_reference() -> None:
    digest = "sha256:" + "a" * 64
    for image, reference in (
        ({"repository": "r.example:5000/ray", "tag": "1"}, "r.example:5000/ray:1"),
        ({"repository": "r.example/ray", "tag": "1", "digest": digest}, f"r.example/ray@{digest}"),
        ({"repository": "r.example/ray", "tag": "latest", "digest": digest}, f"r.example/ray@{digest}"),
        ({"repository": "r.example/ray", "tag": "", "digest": digest}, f"r.example/ray@{digest}"),
    ):
        assert {container(pod)["image"] for pod in pods({"image": image})} == {reference}


def test_service_account() -> None:
    account = one("ServiceAccount", {"serviceAccount": {"annotations": {"a/b": "1", "gone": None}}})
    assert account["automountServiceAccountToken"] is False
    assert account["metadata"]["annotations"] == {"a/b": "1"}
    for given, name in (
        ({}, "demo"),
        ({"name": "own"}, "own"),
        ({"create": False}, "default"),
        ({"create": False, "name": "own"}, "own"),
    ):
        objects = render({"serviceAccount": given})
        assert {
            pod["spec"]["serviceAccountName"] for item in objects if item["kind"] == "RayJob" for pod in project(item)
        } == {name}
        assert [item["metadata"]["name"] for item in objects if item["kind"] == "ServiceAccount"] == (
            [name] if given.get("create", True) else []
        )


def test_pull_secrets() -> None:
    assert {
        str(pod["spec"]["imagePullSecrets"]) for pod in pods({"common": {"imagePullSecrets": [{"name": "a"}]}})
    } == {"[{'name': 'a'}]"}


def test_a_group_named_and_several_groups() -> None:
    values = job()
    values["workerGroups"] = {"a": group(replicas=1), "b": group(replicas=3), "gone": None}
    spec = one("RayJob", values)["spec"]["rayClusterSpec"]
    assert [(workers["groupName"], workers["replicas"]) for workers in spec["workerGroupSpecs"]] == [("a", 1), ("b", 3)]


def test_keep_marks_all_objects_and_replace_none() -> None:
    keep = {
        "helm.sh/resource-policy": "keep",
        "kustomize.toolkit.fluxcd.io/prune": "disabled",
        "argocd.argoproj.io/sync-options": "Prune=false",
        "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
    }
    for item in render({"job": {"onChange": "keep"}}):
        assert keep.items() <= item["metadata"]["annotations"].items(), item["kind"]
    for values in ({}, {"mode": "cluster", "job": {"onChange": "keep"}}):
        for item in render(values):
            assert not keep.keys() & item["metadata"].get("annotations", {}).keys(), item["kind"]
