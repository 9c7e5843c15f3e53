"""Whatever the chart accepts, the operator accepts: random values, rendered by Helm, judged by KubeRay's functions.

The reverse does not hold, and need not: the chart refuses what the operator would strand, or run open or in silence.
"""

from __future__ import annotations

import copy
import os
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.chart.cases import job, with_key
from tests.chart.every_value import (
    CLUSTER,
    CPU,
    FUNCTIONAL,
    NEUTRAL,
    NEUTRAL_POD_FIELDS,
    OF_A_CLUSTER,
    ON_CLUSTER,
    POD_FIELDS,
    RAY_FIELDS,
    SCALING,
    SUBMITTER,
)
from tests.cluster.checkers import check_rayjobs, require_go, summary
from tests.helm import HelmError, template

SETS = 300
MANY = 10_000  # in `make test-full`
PLACES = ("common", "head", "workerGroups.gpu", "job.submitter")
BASES = (job(), CPU, SUBMITTER, CLUSTER, SCALING, ON_CLUSTER)
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
]  # fmt: skip


def changes() -> list[tuple[str, Any]]:
    """Every change of a value that the tests know, in every place."""
    known = FUNCTIONAL | NEUTRAL | OF_A_CLUSTER
    del known["cluster.extraSpec"]  # for fields of a later KubeRay than the one that judges here
    found = [(path.replace("<name>", "gpu"), value) for path, (_, value) in known.items()]
    for place in PLACES:
        fields = POD_FIELDS | NEUTRAL_POD_FIELDS | ({} if place == "job.submitter" else RAY_FIELDS)
        found += [(f"{place}.{path}", value) for path, value in fields.items()]
    return found + BORDER * 3


def values(seed: int) -> dict[str, Any]:
    """One set of values, always the same for a seed."""
    choice = random.Random(seed)  # noqa: S311 - not a secret
    made = copy.deepcopy(choice.choice(BASES))
    for path, value in choice.sample(changes(), choice.randint(0, 4)):
        made = with_key(made, path, value)
    return made


def rendered(seed: int) -> str:
    """The release's manifests; empty where the chart refuses the values."""
    try:
        return template(values(seed), name=f"set-{seed}")
    except HelmError as error:
        assert "ERROR: " in error.stderr or "don't meet the specifications of the schema" in error.stderr, error.stderr
        return ""


def judge(count: int) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = list(pool.map(rendered, range(count)))
    accepted = [text for text in texts if text]
    # Both sides of the chart's judgement are tried.
    assert count * 0.3 < len(accepted) < count * 0.9
    reports = check_rayjobs("".join(accepted))
    assert len(reports) == len(accepted)
    assert all(report.ok for report in reports), summary(reports)


def test_the_operator_takes_what_the_chart_takes() -> None:
    require_go()
    judge(SETS)


@pytest.mark.full
def test_the_operator_takes_what_the_chart_takes_many_times() -> None:
    require_go()
    judge(MANY)
