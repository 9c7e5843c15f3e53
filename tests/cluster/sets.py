"""Random sets of values: what the chart's tests know, mixed; always the same set for a seed."""

from __future__ import annotations

import copy
import random
from functools import cache
from typing import Any

from tests.chart.cases import group, job, with_key
from tests.chart.every_value import (
    CLUSTER,
    CPU,
    FUNCTIONAL,
    GIT,
    KUEUE,
    NEUTRAL,
    NEUTRAL_POD_FIELDS,
    OF_A_CLUSTER,
    ON_CLUSTER,
    POD_FIELDS,
    PROBE,
    RAY_FIELDS,
    S3,
    SCALING,
    SUBMITTER,
    VOLUME,
)

SERVING = {"replicas": 1, "gpus": 0, "resources": {"cpu": "4", "memory": "8Gi"}}
GROUPS = job() | {"workerGroups": {"gpu": group(), "cards": group(replicas=1), "data": SERVING}}
GROUPS_OF_A_CLUSTER = GROUPS | {"mode": "cluster"}
SCALING_GROUPS = with_key(GROUPS_OF_A_CLUSTER, "cluster.autoscaling", {"enabled": True, "options": {"version": "v2"}})
RESTRICTED = job("podSecurity", "restricted")
BASES = (
    job(), CPU, SUBMITTER, KUEUE, GIT, S3, VOLUME, RESTRICTED, CLUSTER, SCALING, ON_CLUSTER,
    GROUPS, GROUPS, GROUPS_OF_A_CLUSTER, SCALING_GROUPS,
)  # fmt: skip
PLACES = ("common", "head", "workerGroups.gpu", "workerGroups.data", "job.submitter")
CONTAINERS = [
    {
        "name": "beside", "image": "registry.example/beside:1", "command": ["serve"],
        "env": [{"name": "A", "value": "1"}], "ports": [{"name": "metrics-beside", "containerPort": 9000}],
        "livenessProbe": PROBE,
        "resources": {"limits": {"memory": "1Gi"}}, "securityContext": {"runAsNonRoot": True},
        "volumeMounts": [{"name": "scratch", "mountPath": "/logs"}],
    },
    {"name": "shipper", "image": "registry.example/shipper:1"},
]  # fmt: skip
# Values that the schema takes and that may or may not be right: limits, other modes, what KubeRay's rules are about.
BORDER: list[tuple[str, Any]] = [
    ("mode", "cluster"), ("mode", "jobOnCluster"), ("job.clusterName", "a" * 53), ("job.name", "a" * 47),
    ("job.name", "a" * 48), ("nameOverride", "a" * 53), ("job.backoffLimit", 0), ("job.backoffLimit", 2**31 - 1),
    ("job.ttlSecondsAfterFinished", 0), ("job.submissionMode", "SidecarMode"), ("job.submissionMode", "K8sJobMode"),
    ("common.restartPolicy", "Always"), ("head.restartPolicy", "OnFailure"), ("podSecurity", "restricted"),
    ("auth.mode", "disabled"), ("auth.secretName", "token"), ("auth.enableK8sTokenAuth", True),
    ("rayVersion", "2.52.0"), ("rayVersion", "2.51.0"), ("cluster.autoscaling.enabled", True),
    ("cluster.autoscaling.options", {"version": "v2"}), ("cluster.autoscaling.options", {"version": "v1"}),
    ("cluster.gcsFaultToleranceOptions", {"redisAddress": "redis:6379"}), ("cluster.upgradeStrategy", "None"),
    ("workerGroups.gpu.minReplicas", 5), ("workerGroups.gpu.maxReplicas", 1), ("workerGroups.gpu.replicas", 0),
    ("workerGroups.gpu.idleTimeoutSeconds", 60), ("workerGroups.gpu.numOfHosts", 4), ("workerGroups.gpu.gpus", 0),
    ("workerGroups.cpu", {"replicas": 1, "gpus": 0, "resources": {"cpu": "4", "memory": "8Gi"}}),
    ("workerGroups.head", {"replicas": 1, "gpus": 4, "efa": 1, "resources": {"cpu": "4", "memory": "8Gi"}}),
    ("common.rayResources", {"a": 1}), ("head.rayStartParams", {"num-cpus": 4}),
    ("head.rayStartParams", {"labels": "a=b"}),
    ("workerGroups.gpu.rayStartParams", {"resources": '{"a": 1}'}),
    ("workerGroups.gpu.rayStartParams", {"memory": 10**9}),
    ("common.rayLabels", {"a": "b"}), ("common.env", {"RAY_enable_autoscaler_v2": "1"}),
    ("common.env", {"RAY_REDIS_ADDRESS": "redis:6379"}), ("job.runtimeEnv", {"working_dir": "s3://bucket/a.zip"}),
    ("job.extraSpec", {"suspend": True}), ("cluster.extraSpec", {"upgradeStrategy": {"type": "Recreate"}}),
    ("scheduler", {"kind": "kueue", "queue": "a"}), ("scheduler", {"kind": "volcano"}),
    ("scheduler", {"kind": "kai", "queue": "a"}),
    ("workerGroups.data.numOfHosts", 2), ("workerGroups.data.maxReplicas", 8), ("workerGroups.data.minReplicas", 0),
    ("workerGroups.cards", None), ("workerGroups.data.rayLabels", {"tier": "slow"}),
    ("workerGroups.gpu.resources.memory", "163840Mi"),
    ("common.terminationGracePeriodSeconds", 40), ("common.env", {"A": None, "B": 1.5, "C": True}),
    ("common.sidecarContainers", CONTAINERS), ("head.sidecarContainers", CONTAINERS),
    ("workerGroups.gpu.initContainers", [CONTAINERS[0] | {"restartPolicy": "Always"}]),
    ("job.submitter.initContainers", CONTAINERS), ("workerGroups.data.sidecarContainers", CONTAINERS),
    ("common.startupProbe", {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 600}),
    ("head.readinessProbe", {"tcpSocket": {"port": 8265}}),
    ("head.ports", [{"name": "dashboard", "containerPort": 80}]),
    ("common.extraPodSpec", {"hostNetwork": True}), ("head.extraContainer", {"workingDir": "/tmp"}),  # noqa: S108
    ("head.service", {"metadata": {"annotations": {"a": "1"}}}),
    ("head.scratch", {"storageClassName": "a", "size": "1Gi"}),
    ("job.preRunningDeadlineSeconds", 1), ("job.activeDeadlineSeconds", 1), ("job.submitter.backoffLimit", 0),
    ("cluster.autoscaling.options", {"upscalingMode": "Aggressive"}),
    ("auth", {"mode": "token", "secretName": "token"}), ("serviceAccount", {"create": False, "name": ""}),
]  # fmt: skip


@cache
def changes() -> tuple[tuple[str, Any], ...]:
    """Every change of a value that the tests know, in every place."""
    known = FUNCTIONAL | NEUTRAL | OF_A_CLUSTER
    del known["cluster.extraSpec"]  # for fields of a later KubeRay than the one that judges here
    found = [(path.replace("<name>", "gpu"), value) for path, (_, value) in known.items()]
    for place in PLACES:
        fields = POD_FIELDS | NEUTRAL_POD_FIELDS | ({} if place == "job.submitter" else RAY_FIELDS)
        found += [(f"{place}.{path}", value) for path, value in fields.items()]
    return (*found, *BORDER * 3)


def values(seed: int) -> dict[str, Any]:
    """One set of values."""
    choice = random.Random(seed)  # noqa: S311 - not a secret
    made = copy.deepcopy(choice.choice(BASES))
    for path, value in choice.sample(changes(), choice.randint(0, 4)):
        if path.startswith("workerGroups.data.") and "data" not in made["workerGroups"]:
            made = with_key(made, "workerGroups.data", SERVING)
        made = with_key(made, path, value)
    return made
