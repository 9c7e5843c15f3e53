"""docs/upgrade.md and the README: what changes a standing cluster's spec, and what `job.onChange: keep` leaves."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.chart.cases import job, with_key
from tests.chart.every_value import COMMIT, DIGEST
from tests.docs.blocks import commands
from tests.helm import CHART, Object, one, render

CLUSTER = job("mode", "cluster")
SCALING = with_key(job("mode", "cluster", minReplicas=1, maxReplicas=4), "cluster.autoscaling.enabled", True)
GROUP = {"replicas": 1, "gpus": 0, "resources": {"cpu": "1", "memory": "2Gi"}}
GIT = {"module": "own", "git": {"url": "https://git.example/code.git", "revision": COMMIT}}

RECREATE = {
    "image.digest": DIGEST,
    "image.pullPolicy": "Always",
    "rayVersion": "2.57.0",
    "head.resources.cpu": "3",
    "common.env": {"A": "1"},
    "common.labels": {"a": "1"},
    "common.annotations": {"a": "1"},
    "podSecurity": "restricted",
    "serviceAccount.name": "other",
    "workerGroups.data": GROUP,
    "workerGroups.gpu.replicas": 3,
    "training.storage.subPath": "a",
    "training.code": GIT,
    "job.resumeFrom": "demo-01234567",
    "clusterName": "other",
    "auth.secretName": "token",
    "cluster.autoscaling.enabled": True,
    "cluster.gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
    "head.serviceType": "NodePort",
    "head.serviceAnnotations": {"a": "1"},
}
RUN_ON = {
    "workerGroups.gpu.tolerations": [{"key": "a", "operator": "Exists"}],
    "commonLabels": {"a": "1"},
    "commonAnnotations": {"a": "1"},
    "networkPolicy.limitEgress": True,
    "monitoring.podMonitor.enabled": True,
    "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}],
    "scheduler": {"kind": "kueue", "queue": "gpus"},
    "tests.enabled": False,
    "cluster.upgradeStrategy": "None",
    "serviceAccount.annotations": {"a": "1"},
    "training.preset": "qwen2.5-1.5b",
    "training.args": {"steps": 7},
    "training.code.module": "own",
    "job.runId": "2",
    "job.backoffLimit": 0,
}


def compared(values: dict[str, Any], chart: Path | None = None) -> Object:
    """The spec as the operator hashes it: `GenerateHashWithoutReplicasAndWorkersToDelete` of KubeRay 1.6."""
    given = render(values, chart=chart) if chart else render(values)
    (found,) = [item for item in given if item["kind"] == "RayCluster"]
    spec: Object = copy.deepcopy(found["spec"])
    del spec["upgradeStrategy"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        for key in ("replicas", "minReplicas", "maxReplicas"):
            group.pop(key, None)
        for key in ("tolerations", "schedulingGates"):
            group["template"]["spec"].pop(key, None)
    return spec


@pytest.mark.parametrize("key", RECREATE)
def test_it_recreates_the_pods(key: str) -> None:
    assert compared(with_key(CLUSTER, key, RECREATE[key])) != compared(CLUSTER)


@pytest.mark.parametrize("key", RUN_ON)
def test_it_leaves_the_pods(key: str) -> None:
    assert compared(with_key(CLUSTER, key, RUN_ON[key])) == compared(CLUSTER)


def test_limits_of_the_autoscaler_recreate_nothing_and_the_number_of_nodes_does() -> None:
    for key in ("minReplicas", "maxReplicas"):
        changed = with_key(SCALING, f"workerGroups.gpu.{key}", 2)
        assert compared(changed) == compared(SCALING)
        assert one("RayCluster", changed)["spec"]["workerGroupSpecs"][0][key] == 2
    assert compared(with_key(SCALING, "workerGroups.gpu.replicas", 3)) != compared(SCALING)


def test_the_size_of_a_group_without_ranks_recreates_nothing() -> None:
    before = with_key(CLUSTER, "workerGroups.data", GROUP)
    assert compared(with_key(before, "workerGroups.data.replicas", 2)) == compared(before)


def test_training_files_of_another_version_recreate_the_pods(tmp_path: Path) -> None:
    chart_copy = Path(shutil.copytree(CHART, tmp_path / CHART.name))
    about = chart_copy / "Chart.yaml"
    about.write_text(about.read_text(encoding="utf-8").replace("\nversion: ", "\nversion: 9"), encoding="utf-8")
    assert compared(CLUSTER, chart_copy) == compared(CLUSTER)
    file = chart_copy / "files/training/loop.py"
    file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert compared(CLUSTER, chart_copy) != compared(CLUSTER)


def test_the_commands_delete_all_that_is_kept() -> None:
    values = with_key(job("job.onChange", "keep"), "training.code", {"module": "own", "files": {"own.py": "a = 1"}})
    values |= {"monitoring": {"podMonitor": {"enabled": True}, "grafanaDashboard": {"enabled": True}}}
    kept = render(values)
    found = commands("upgrade.md", "kubectl delete", "-l ray-train-dlc/release=demo")
    assert {kind for command in found for kind in command.split()[2].split(",")} == {i["kind"].lower() for i in kept}
    for item in kept:
        assert item["metadata"]["labels"]["ray-train-dlc/release"] == "demo"
        assert item["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
