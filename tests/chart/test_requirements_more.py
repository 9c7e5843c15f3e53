"""Rules of templates/_requirements.tpl about pods, modes, queues and code."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.cases import job, with_key
from tests.chart.every_value import CLUSTER, COMMIT, GIT, KUEUE, ON_CLUSTER, SCALING, VOLUMES
from tests.chart.test_requirements import refused
from tests.helm import one, render
from tests.project_pods import container, project

HEAD_ONLY = {"replicas": 1, "gpus": 0, "resources": {"cpu": "4", "memory": "8Gi"}}


def mounted(path: str) -> dict[str, Any]:
    return job("common", {"volumes": VOLUMES, "volumeMounts": [{"name": "data", "mountPath": path}]})


# (values, words that the one message must hold)
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "field with a value of its own": (
        job("head.extraPodSpec", {"volumes": [{"name": "a"}]}),
        ["head.extraPodSpec", "volumes"],
    ),
    "container field with a value of its own": (
        job("common.extraContainer", {"image": "a"}),
        ["extraContainer", "image"],
    ),
    "resources of the container": (
        job("common.extraContainer", {"resources": {"limits": {"cpu": "1"}}}),
        ["extraContainer", "claims"],
    ),
    "volume of the chart": (
        job("common.volumes", [{"name": "scratch", "emptyDir": {}}]),
        ["common.volumes", "scratch"],
    ),
    "host path": (
        job("workerGroups.gpu.volumes", [{"name": "a", "hostPath": {"path": "/"}}]),
        ["workerGroups.gpu.volumes", "hostPath"],
    ),
    "mount of the operator": (mounted("/dev/shm"), ["/dev/shm"]),  # noqa: S108
    "mount of the chart": (
        mounted("/mnt/ray-train/a"),
        ["/mnt/ray-train/a"],
    ),
    "ray stop": (
        job("common.lifecycle", {"preStop": {"exec": {"command": ["ray", "stop"]}}}),
        ["common.lifecycle", "ray stop"],
    ),
    "ray stop in a shell": (
        job("common.lifecycle", {"preStop": {"exec": {"command": ["sh", "-c", "ray stop"]}}}),
        ["ray stop"],
    ),
    "scratch without a size": (job("common.scratch", {"storageClassName": "nvme"}), ["common.scratch.size"]),
    "scratch without a class": (job("common.scratch", {"size": "1Gi"}), ["common.scratch.storageClassName"]),
    "scratch of both kinds": (
        job("common.scratch", {"sizeLimit": "1Gi", "storageClassName": "a", "size": "1Gi"}),
        ["sizeLimit"],
    ),
    "GPU among further resources": (
        job("common.extraResources", {"nvidia.com/gpu": 1}),
        ["common.extraResources", "nvidia.com/gpu"],
    ),
    "two sources of a variable": (
        job(
            "common.env", {"A": {"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "a", "key": "b"}}}
        ),
        ["common.env", "A has 2 sources"],
    ),
    "secret without a name": (
        job("common.env", {"A": {"secretKeyRef": {"key": "b"}}}),
        ["common.env", "without name or key"],
    ),
    "pod label of the chart": (job("head.labels", {"ray-train-dlc/role": "a"}), ["head.labels", "ray-train-dlc/role"]),
    "own image latest": (job("workerGroups.gpu.image", {"tag": "latest"}), ["workerGroups.gpu.image.tag", "latest"]),
    "redis by a variable": (job("common.env", {"RAY_REDIS_ADDRESS": "a"}), ["common.env", "RAY_REDIS_ADDRESS"]),
    "job on no cluster": (job("mode", "jobOnCluster"), ["job.clusterName"]),
    "cluster of a job with its own": (job("job.clusterName", "a"), ["job.clusterName", "no effect"]),
    "submitter on another cluster": (with_key(ON_CLUSTER, "job.submissionMode", "K8sJobMode"), ["job.submissionMode"]),
    "code for another cluster": (
        with_key(ON_CLUSTER, "training.code.configMapName", "a"),
        ["training.code.configMapName"],
    ),
    "sidecar under restricted": (
        job("podSecurity", "restricted") | {"job": {"submissionMode": "SidecarMode"}},
        ["SidecarMode"],
    ),
    "sidecar and restarts": (
        job("head.restartPolicy", "Always") | {"job": {"submissionMode": "SidecarMode"}},
        ["restartPolicy"],
    ),
    "autoscaling of a job": (job("cluster.autoscaling.enabled", True), ["cluster.autoscaling.enabled", "mode job"]),
    "fault tolerance of a job": (
        job("cluster.gcsFaultToleranceOptions", {"redisAddress": "redis:6379"}),
        ["gcsFaultToleranceOptions"],
    ),
    "tokens of Kubernetes for a job": (job("auth.enableK8sTokenAuth", True), ["auth.enableK8sTokenAuth"]),
    "tokens of Kubernetes before Ray 2.55": (
        with_key(with_key(CLUSTER, "auth.enableK8sTokenAuth", True), "rayVersion", "2.54.0"),
        ["auth.enableK8sTokenAuth", "2.55"],
    ),
    "secret without tokens": (job("auth", {"mode": "disabled", "secretName": "a"}), ["auth.secretName"]),
    "range without autoscaling": (
        with_key(CLUSTER, "workerGroups.gpu.minReplicas", 1),
        ["minReplicas", "without effect"],
    ),
    "range upside down": (
        with_key(SCALING, "workerGroups.gpu.minReplicas", 9),
        ["minReplicas 9 is above maxReplicas 2"],
    ),
    "options without autoscaling": (
        with_key(CLUSTER, "cluster.autoscaling.options", {"version": "v2"}),
        ["autoscaling.options"],
    ),
    "idle time without v2": (
        with_key(
            with_key(SCALING, "cluster.autoscaling.options", {"version": "v1"}),
            "workerGroups.gpu.idleTimeoutSeconds",
            9,
        ),
        ["idleTimeoutSeconds", "v2"],
    ),
    "restarts under autoscaler v2": (with_key(SCALING, "common.restartPolicy", "Always"), ["restartPolicy", "v2"]),
    "suspend": (job("job.extraSpec", {"suspend": True}), ["job.extraSpec", "suspend"]),
    "strategy in the spec": (
        job("cluster.extraSpec", {"upgradeStrategy": {}}),
        ["cluster.extraSpec", "upgradeStrategy"],
    ),
    "queue without a scheduler": (job("scheduler.queue", "a"), ["scheduler.kind"]),
    "kueue without a queue": (job("scheduler.kind", "kueue"), ["scheduler.queue"]),
    "priority of yunikorn": (
        job("scheduler", {"kind": "yunikorn", "queue": "a", "priorityClass": "b"}),
        ["scheduler.priorityClass"],
    ),
    "queue that is no label": (job("scheduler", {"kind": "kueue", "queue": "a b"}), ["scheduler.queue"]),
    "kueue on a cluster": (ON_CLUSTER | {"scheduler": {"kind": "kueue", "queue": "a"}}, ["scheduler.kind", "kueue"]),
    "kai with a submitter": (
        job("scheduler", {"kind": "kai", "queue": "a"}) | {"job": {"submissionMode": "K8sJobMode"}},
        ["job.submissionMode", "kai"],
    ),
    "18 groups in Kueue": (
        KUEUE | {"workerGroups": {f"g{n}": job()["workerGroups"]["gpu"] for n in range(18)}},
        ["workerGroups", "17"],
    ),
    "CPU ranks next to servants": (
        job(gpus=0, efa=0, processesPerNode=2)
        | {"workerGroups": {"cpu": HEAD_ONLY | {"processesPerNode": 1}, "data": HEAD_ONLY}},
        ["workerGroups.cpu", "data"],
    ),
    "branch in place of a commit": (with_key(GIT, "training.code.git.revision", "main"), ["git.revision", '"main"']),
    "password in the address": (
        with_key(GIT, "training.code.git.url", "https://u:p@git.example/a"),
        ["git.url", "secretName"],
    ),
    "git without an address": (job("training.code.git.revision", COMMIT), ["git.url"]),
    "folder above the repository": (with_key(GIT, "training.code.git.path", "../a"), ["git.path"]),
    "two sources of code": (
        with_key(GIT, "training.code.configMapName", "a"),
        ["training.code", "configMapName and git"],
    ),
    "code that nothing runs": (
        job("training.code.files", {"own.py": "print(1)\n"}),
        ["training.code", "files is given", "training.code.module"],
    ),
    "code of 300 KiB": (
        job("training.code", {"files": {"a.py": "#" * 300_000}, "module": "a"}),
        ["training.code.files", "200 KiB"],
    ),
    "sub path above the claim": (job("training.storage.subPath", "../a"), ["training.storage.subPath"]),
    "sub path of s3": (
        job("training.storage", {"kind": "s3", "uri": "s3://bucket", "subPath": "a"}),
        ["training.storage.subPath"],
    ),
    "code for a cluster that is there": (
        with_key(ON_CLUSTER, "training.code", {"module": "own", "files": {"own.py": "pass\n"}}),
        ["training.code.files", "the release that holds the cluster", "keep training.code.module"],
    ),
    "file in the place of a module": (
        job("training.code", {"module": "own_training.py", "files": {"own_training.py": "pass\n"}}),
        ["training.code.module", "own_training.py is a file name", "write the module, own_training"],
    ),
    "two types of the head's Service": (
        job("head", {"serviceType": "LoadBalancer", "service": {"spec": {"type": "NodePort"}}}),
        ["head.service.spec.type", "NodePort next to head.serviceType LoadBalancer"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    refused(*REFUSED[case])


def test_a_group_without_ranks_serves_beside_gpus() -> None:
    """Ray Data on CPU nodes: counted neither among the nodes of the training nor told of its transport."""
    values = job()
    values["workerGroups"]["data"] = HEAD_ONLY
    pods = project(one("RayJob", values))
    for pod in pods:
        env = {item["name"]: item.get("value") for item in container(pod)["env"]}
        assert (env["RTD_NODES"], env["RTD_GPUS_PER_NODE"], env["RTD_PROCESSES_PER_NODE"]) == ("2", "4", "4")
        assert ("NCCL_NET" in env) is ("nvidia.com/gpu" in container(pod)["resources"]["limits"])


def test_containers_beside_ray_have_what_the_operator_would_write_back() -> None:
    values = job("common.sidecarContainers", [{"name": "a", "image": "b"}])
    values["common"]["initContainers"] = [{"name": "c", "image": "d"}]
    for pod in project(one("RayJob", values)):
        assert pod["spec"]["containers"][1] == {"name": "a", "image": "b", "resources": {}}
        assert pod["spec"]["initContainers"] == [{"name": "c", "image": "d", "resources": {}}]


def test_a_job_on_a_cluster_is_all_of_its_release() -> None:
    (found,) = render(ON_CLUSTER)
    assert found["spec"]["clusterSelector"] == {"ray.io/cluster": "demo"}
    assert not {"backoffLimit", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished", "rayClusterSpec"} & set(
        found["spec"]
    )
    name = found["metadata"]["name"]
    assert f"RTD_RUN_NAME: {name}\n" in found["spec"]["runtimeEnvYAML"]
    assert f"RTD_RUN_PATH: /mnt/ray-train/cluster/ray-train/{name}\n" in found["spec"]["runtimeEnvYAML"]


def test_code_of_the_users_own_is_mounted_beside_the_bundled() -> None:
    objects = render(job("training.code", {"files": {"own.py": "print(1)\n"}, "module": "own"}))
    maps = {item["metadata"]["name"]: item for item in objects if item["kind"] == "ConfigMap"}
    (name,) = [name for name in maps if "user-code" in name]
    assert maps[name]["data"] == {"own.py": "print(1)\n"}
    assert maps[name]["immutable"] is True
    (ray,) = [item for item in objects if item["kind"] == "RayJob"]
    for pod in project(ray):
        assert {"name": "code", "configMap": {"name": name}} in pod["spec"]["volumes"]
        env = {item["name"]: item.get("value") for item in container(pod)["env"]}
        assert env["PYTHONPATH"] == "/opt/ray-train:/opt/ray-train-code"


@pytest.mark.parametrize(
    ("scheduler", "labels"),
    [
        ({"kind": "kueue", "queue": "a", "priorityClass": "b"},
         {"kueue.x-k8s.io/queue-name": "a", "kueue.x-k8s.io/priority-class": "b"}),
        ({"kind": "volcano", "queue": "a", "priorityClass": "b"},
         {"volcano.sh/queue-name": "a", "ray.io/priority-class-name": "b"}),
        ({"kind": "kai", "queue": "a"}, {"kai.scheduler/queue": "a"}),
    ],
)  # fmt: skip
def test_a_queue_finds_its_labels(scheduler: dict[str, str], labels: dict[str, str]) -> None:
    for mode, kind in (("job", "RayJob"), ("cluster", "RayCluster")):
        found = one(kind, job("mode", mode) | {"scheduler": scheduler})
        assert labels.items() <= found["metadata"]["labels"].items()
