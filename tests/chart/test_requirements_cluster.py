"""Rules of templates/_requirements.tpl about the RayCluster, and about fields that have no value of their own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.cases import job, with_key
from tests.chart.every_value import CLUSTER, SCALING
from tests.chart.test_requirements import problems, refused
from tests.helm import one, render

PASSWORD = {"valueFrom": {"secretKeyRef": {"name": "redis", "key": "password"}}}


def scaled(**options: Any) -> dict[str, Any]:
    return with_key(SCALING, "cluster.autoscaling.options", {"version": "v2", **options})


def kept(**options: Any) -> dict[str, Any]:
    return with_key(CLUSTER, "cluster.gcsFaultToleranceOptions", {"redisAddress": "redis:6379", **options})


def mount(path: str, name: str = "scratch", **more: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **more}


# (values, words that the one message must hold)
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "mount of the autoscaler without its volume": (
        scaled(volumeMounts=[mount("/a", "storage")]) | {"training": {"storage": {"kind": "none"}}},
        ["cluster.autoscaling.options.volumeMounts", "storage", "head.volumes"],
    ),
    "mount of the autoscaler over Ray's logs": (
        scaled(volumeMounts=[mount("/tmp/ray")]),  # noqa: S108
        ["cluster.autoscaling.options.volumeMounts", "/tmp/ray"],  # noqa: S108
    ),
    "mounts of the autoscaler at one path": (
        scaled(volumeMounts=[mount("/a"), mount("/a/")]),
        ["cluster.autoscaling.options.volumeMounts", "/a is there twice"],
    ),
    "variable of the autoscaler": (
        scaled(env=[{"name": "RAY_CLUSTER_NAME", "value": "a"}]),
        ["cluster.autoscaling.options.env", "RAY_CLUSTER_NAME"],
    ),
    "claim of the autoscaler": (
        scaled(resources={"claims": [{"name": "a"}]}),
        ["cluster.autoscaling.options.resources.claims", "head.resourceClaims"],
    ),
    "variable of the autoscaler from two sources": (
        scaled(env=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        ["cluster.autoscaling.options.env.0", "not of one source"],
    ),
    "fault tolerance without a store": (
        with_key(CLUSTER, "cluster.gcsFaultToleranceOptions", {"externalStorageNamespace": "a"}),
        ["cluster.gcsFaultToleranceOptions.redisAddress", "not set"],
    ),
    "store without a port": (kept(redisAddress="redis"), ["cluster.gcsFaultToleranceOptions.redisAddress", '"redis"']),
    "store with a path": (kept(redisAddress="redis://redis:6379/0"), ["redisAddress", "host:port"]),
    "store with a user": (kept(redisAddress="redis://u:p@redis:6379"), ["redisAddress", "host:port"]),
    "store at another port": (kept(redisAddress="a:6379,b:65536"), ["redisAddress", '"b:65536"']),
    "password twice": (
        kept(redisPassword=PASSWORD | {"value": "a"}),
        ["cluster.gcsFaultToleranceOptions.redisPassword", '["value","valueFrom"]', "secretKeyRef"],
    ),
    "password of nothing": (kept(redisPassword={"value": None}), ["redisPassword", "not one source"]),
    "user from nowhere": (kept(redisUsername={"valueFrom": {}}), ["redisUsername", "not one source"]),
    "password without its Secret": (
        kept(redisPassword={"valueFrom": {"secretKeyRef": {"key": "a"}}}),
        ["redisPassword.valueFrom.secretKeyRef", "without name"],
    ),
    "user of the store in the environment": (job("common.env", {"REDIS_USERNAME": "a"}), ["common.env", "REDIS_USER"]),
    "password of the store as a parameter": (
        job("head.rayStartParams", {"redis-password": "a"}),
        ["head.rayStartParams", "redis-password", "gcsFaultToleranceOptions"],
    ),
    "fault tolerance by an annotation": (
        with_key(CLUSTER, "commonAnnotations", {"ray.io/ft-enabled": "true"}),
        ["commonAnnotations", "ray.io/ft-enabled"],
    ),
    "field of the job in other letters": (
        job("job.extraSpec", {"entrypointNumCPUs": 1}),
        ["job.extraSpec", "entrypointNumCPUs", "write entrypointNumCpus"],
    ),
    "field of the cluster in other letters": (
        job("cluster.extraSpec", {"tlsoptions": {"enabled": True}}),
        ["cluster.extraSpec", "tlsoptions", "write tlsOptions"],
    ),
    "field of the chart in other letters": (job("job.extraSpec", {"TTLSecondsAfterFinished": 1}), ["job.extraSpec"]),
    "digits that the operator drops": (
        job("job.extraSpec", {"entrypointNumCpus": 1.2345678}),
        ["job.extraSpec.entrypointNumCpus", "1.2345678"],
    ),
    "resources of the driver that are no JSON": (
        job("job.extraSpec", {"entrypointResources": "fast-disk: 1"}),
        ["job.extraSpec.entrypointResources", "fast-disk"],
    ),
    "resources of the driver in words": (
        job("job.extraSpec", {"entrypointResources": '{"fast-disk": "one"}'}),
        ["job.extraSpec.entrypointResources", "names and numbers"],
    ),
    "priority as a number": (job("common.extraPodSpec", {"priority": 1}), ["common.extraPodSpec", "priorityClassName"]),
    "preemption of its own": (
        job("head.extraPodSpec", {"preemptionPolicy": "Never"}),
        ["head.extraPodSpec", "preemptionPolicy", "priorityClassName"],
    ),
    "overhead of its own": (
        job(extraPodSpec={"overhead": {"cpu": "1"}}),
        ["workerGroups.gpu.extraPodSpec", "overhead", "runtimeClassName"],
    ),
    "resources of the pod as a whole": (
        job("common.extraPodSpec", {"resources": {"limits": {"cpu": "1"}}}),
        ["common.extraPodSpec", "resources"],
    ),
    "pod of another system": (job("head.extraPodSpec", {"os": {"name": "windows"}}), ["head.extraPodSpec", "windows"]),
    "gates in front of a node": (
        job("common.extraPodSpec", {"nodeName": "a", "schedulingGates": [{"name": "a.example/b"}]}),
        ["common.extraPodSpec", "nodeName", "schedulingGates"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    refused(*REFUSED[case])


@pytest.mark.parametrize(
    "values",
    [
        scaled(image="registry.example/ray:1", imagePullPolicy="Always", idleTimeoutSeconds=0),
        scaled(volumeMounts=[mount("/a"), mount("/b", "training"), mount("/c", "storage")]),
        scaled(volumeMounts=[mount("/a", "data")]) | {"head": {"volumes": [{"name": "data", "emptyDir": {}}]}},
        scaled(volumeMounts=[mount("/a", "data")]) | {"common": {"volumes": [{"name": "data", "emptyDir": {}}]}},
        kept(redisAddress="rediss://redis.example:6380", redisUsername={"value": "ray"}, redisPassword=PASSWORD),
        kept(redisAddress="a:6379,b:6379", externalStorageNamespace="demo"),
        kept(redisAddress="[2001:db8::1]:6379"),
        job("job.extraSpec", {"entrypointResources": '{"fast-disk": 0.5}', "jobId": "demo.1", "ofALater": {"a": 1}}),
        job("cluster.extraSpec", {"tlsOptions": {"enabled": True}, "ofALater": 1}),
        job("common.extraPodSpec", {"os": {"name": "linux"}}),
    ],
    ids=repr,
)
def test_accepted(values: dict[str, Any]) -> None:
    assert render(values)


def test_a_problem_of_common_stands_there_once() -> None:
    gates = {"nodeName": "a", "schedulingGates": [{"name": "a.example/b"}]}
    (problem,) = problems(job("common.extraPodSpec", gates))
    assert problem.startswith("ERROR: common.extraPodSpec: ")


def test_the_autoscaler_is_told_as_the_operator_writes_it_back() -> None:
    values = scaled(
        env=[{"name": "A", "value": ""}],
        envFrom=[],
        volumeMounts=[mount("/a", readOnly=False, subPath="")],
        resources={"limits": {"cpu": 1}, "requests": None},
    )
    assert one("RayCluster", values)["spec"]["autoscalerOptions"] == {
        "version": "v2",
        "env": [{"name": "A"}],
        "volumeMounts": [{"name": "scratch", "mountPath": "/a"}],
        "resources": {"limits": {"cpu": "1"}},
    }


def test_what_is_false_by_itself_is_left_out() -> None:
    values = job("common.extraPodSpec", {"hostIPC": False, "hostNetwork": False, "hostPID": False})
    values["head"] = {"service": {"spec": {"publishNotReadyAddresses": False, "type": "ClusterIP"}}}
    assert render(values) == render(job("head.service.spec.type", "ClusterIP"))


def test_a_false_of_a_special_place_takes_away_what_common_has() -> None:
    values = job("common.extraPodSpec", {"hostNetwork": True}, extraPodSpec={"hostNetwork": False})
    spec = one("RayJob", values | {"podSecurity": "privileged"})["spec"]["rayClusterSpec"]
    assert spec["headGroupSpec"]["template"]["spec"]["hostNetwork"] is True
    assert "hostNetwork" not in spec["workerGroupSpecs"][0]["template"]["spec"]
