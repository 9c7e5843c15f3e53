"""templates/_requirements.tpl: every rule, by its key and with what to do, all in one run.

Always with `helm template`: `helm lint` lets `fail` pass.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.cases import group, job, with_key
from tests.chart.every_value import SUBMITTER
from tests.helm import HelmError, render, template

CPU = {"gpus": 0, "efa": 0}


def problems(values: dict[str, Any]) -> list[str]:
    """What the chart says against the values."""
    with pytest.raises(HelmError) as caught:
        template(values)
    assert caught.value.problems, caught.value.stderr
    return caught.value.problems


def refused(values: dict[str, Any], words: list[str]) -> None:
    """The values break one rule, whose message holds the words and what to do."""
    (problem,) = problems(values)
    for word in words:
        assert word in problem
    assert ";" in problem, "and what to do"


def groups(**named: Any) -> dict[str, Any]:
    return job() | {"workerGroups": named}


def stored(**storage: str) -> dict[str, Any]:
    return job("training.storage", storage)


# (values, words that the one message must hold)
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "base name with a dot": (job("nameOverride", "a.b"), ["nameOverride", '"a.b"']),
    "base name with 54 characters": (job("nameOverride", "a" * 54), ["nameOverride", "53"]),
    "job name with 48 characters": (job("job.name", "a" * 48), ["job.name", "48 characters", "47"]),
    "job name with a leading digit": (job("job.name", "1a"), ["job.name", '"1a"']),
    "job name with a trailing dash": (job("job.name", "a-"), ["job.name"]),
    "cluster name with a slash": (job("clusterName", "a/b"), ["clusterName"]),
    "cluster name that climbs": (job("clusterName", ".."), ["clusterName"]),
    "service account name": (job("serviceAccount.name", "A_b"), ["serviceAccount.name"]),
    "label of the operator": (job("commonLabels", {"ray.io/cluster": "a"}), ["commonLabels", "ray.io/cluster"]),
    "label of Helm": (job("commonLabels", {"app.kubernetes.io/name": "a"}), ["app.kubernetes.io/name"]),
    "label that passes for the operator": (
        job("commonLabels", {"app.kubernetes.io/component": "kuberay-operator"}),
        ["commonLabels", "app.kubernetes.io/component"],
    ),
    "label of the chart": (job("commonLabels", {"ray-train-dlc/role": "a"}), ["commonLabels", "ray-train-dlc/role"]),
    "resume from a shell": (job("job.resumeFrom", "$(id)"), ["job.resumeFrom"]),
    "no tag and no digest": (job("image.tag", ""), ["image.tag", "image.digest"]),
    "tag latest": (job("image.tag", "latest"), ["image.tag", "latest"]),
    "digest as tag": (job("image.tag", "sha256:" + "a" * 64), ["image.tag", "image.digest"]),
    "short digest": (job("image.digest", "sha256:abc"), ["image.digest", "64"]),
    "digest without its algorithm": (job("image.digest", "a" * 64), ["image.digest", "sha256:"]),
    "tag in the repository": (job("image.repository", "r.example/ray:1"), ["image.repository", "tag and digest"]),
    "numeric tag in a short repository": (job("image.repository", "ray:2"), ["image.repository"]),
    "digest in the repository": (job("image.repository", "r.example/ray@sha256:" + "a" * 64), ["image.repository"]),
    "ray without token authentication": (job("rayVersion", "2.51.9"), ["rayVersion", "2.52.0"]),
    "ray version with leading zeros": (job("rayVersion", "02.058.00"), ["rayVersion", '"02.058.00"', "leading zeros"]),
    "ray version with a zero before a zero": (job("rayVersion", "2.58.00"), ["rayVersion", '"2.58.00"']),
    "ray version with two numbers": (job("rayVersion", "2.58"), ["rayVersion", '"2.58"']),
    "the only group removed": (groups(gpu=None), ["workerGroups", "every group is null (gpu)"]),
    "all groups removed": (groups(b=None, a=None), ["workerGroups", "(a, b)"]),
    "no nodes": (job(replicas=0), ["workerGroups.gpu.replicas", "1 or more"]),
    "fewer than no nodes": (job(replicas=-1), ["workerGroups.gpu.replicas", "-1"]),
    "processes next to GPUs": (job(processesPerNode=2), ["workerGroups.gpu.processesPerNode", "4 GPUs"]),
    "no ranks": (job(**CPU), ["workerGroups", "no group has ranks (gpu)"]),
    "EFA without GPUs": (job(gpus=0, processesPerNode=1), ["workerGroups.gpu.efa"]),
    "group named head": (groups(head=group()), ["workerGroups.head"]),
    "group with an underscore": (groups(a_b=group()), ["workerGroups", '"a_b"']),
    "group with 31 characters": (groups(**{"a" * 31: group()}), ["workerGroups", "30"]),
    "groups with other ranks": (groups(a=group(), b=group(gpus=8)), ["ranks per node", "a has 4", "b has 8"]),
    "groups with and without EFA": (groups(a=group(), b=group(efa=0)), ["EFA", "a is with EFA", "b is without EFA"]),
    "groups with and without GPUs": (
        groups(a=group(efa=0), b=group(**CPU, processesPerNode=4)),
        ["GPUs", "a is with GPUs", "b is without GPUs"],
    ),
    "num-gpus of a worker": (job(rayStartParams={"num-gpus": 8}), ["workerGroups.gpu.rayStartParams", "num-gpus"]),
    "num-gpus of the head": (job("head.rayStartParams", {"num-gpus": "1"}), ["head.rayStartParams", "num-gpus"]),
    "num-cpus of the head": (job("head.rayStartParams", {"num-cpus": "1"}), ["head.rayStartParams", "num-cpus"]),
    "labels parameter": (job("head.rayStartParams", {"labels": "a=b"}), ["head.rayStartParams", "labels"]),
    "preset among the arguments": (job("training.args", {"preset": "a"}), ["training.args", "training.preset"]),
    "ranks among the arguments": (job("training.args", {"num_workers": 8}), ["training.args", "replicas × gpus"]),
    "run path among the arguments": (job("training.args", {"run_path": "/a"}), ["training.args", "training.storage"]),
    "model among the arguments": (job("training.args", {"model": "/a"}), ["training.args", "set training.model"]),
    "data's commit among the arguments": (
        job("training.args", {"data_revision": "a"}),
        ["training.args", "set training.data"],
    ),
    "resume among the arguments": (job("training.args", {"resume_from": "a"}), ["training.args", "job.resumeFrom"]),
    "help among the arguments": (job("training.args", {"help": True}), ["training.args", "help"]),
    "several nodes without storage": (stored(kind="none"), ["training.storage.kind", "2 nodes"]),
    "s3 without uri": (stored(kind="s3"), ["training.storage.uri", "s3://"]),
    "s3 with another scheme": (stored(kind="s3", uri="gs://b/p"), ["training.storage.uri"]),
    "s3 with a variable": (stored(kind="s3", uri="s3://bucket/$(A)"), ["training.storage.uri"]),
    "s3 with a double slash": (stored(kind="s3", uri="s3://bucket//p"), ["training.storage.uri"]),
    "uri without s3": (job("training.storage.uri", "s3://bucket"), ["training.storage.uri", "no effect"]),
    "fsx without claim": (stored(kind="fsx"), ["training.storage.claimName"]),
    "claim with a wrong name": (job("training.storage.claimName", "A_b"), ["training.storage.claimName"]),
    "claim without fsx or pvc": (
        stored(kind="s3", uri="s3://bucket", claimName="c"),
        ["training.storage.claimName", "no effect"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    values, words = REFUSED[case]
    (problem,) = problems(values)
    assert re.match(r"ERROR: [\w.-]+: \S.*; [^;]+$|ERROR: [\w.-]+: .+ is .+; .+$", problem), problem
    for word in words:
        assert word in problem


OWNED = [
    "RTD_RUN_NAME", "RTD_ANYTHING", "NCCL_NET", "NCCL_NET_PLUGIN", "FI_PROVIDER", "NCCL_DEBUG", "NCCL_DEBUG_FILE",
    "NCCL_SOCKET_IFNAME", "RAY_ADDRESS", "RAY_CLUSTER_NAME", "FQ_RAY_IP", "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN", "RAY_enable_autoscaler_v2", "RAY_JOB_STOP_WAIT_TIME_S",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", "PYTHONPATH", "NVIDIA_VISIBLE_DEVICES",
]  # fmt: skip


@pytest.mark.parametrize(
    "key", ["common.env", "head.env", "workerGroups.gpu.env", "job.submitter.env", "job.runtimeEnv.env_vars"]
)
def test_owned_variables(key: str) -> None:
    before = SUBMITTER if "submitter" in key else job()
    found = problems(with_key(before, key, dict.fromkeys([*OWNED, "FREE"], "x")))
    assert sorted(problem.split(" is ")[0] for problem in found) == sorted(f"ERROR: {key}: {name}" for name in OWNED)
    assert all(";" in problem for problem in found)


def test_owned_variable_that_a_later_layer_removed() -> None:
    assert render(job("common.env", {"NCCL_NET": None})) == render(job())


OPERATORS = [
    "address", "block", "dashboard-agent-listen-port", "dashboard-host", "dashboard-port", "head", "include-dashboard",
    "metrics-export-port", "node-ip-address", "port",
]  # fmt: skip


@pytest.mark.parametrize("key", ["head.rayStartParams", "workerGroups.gpu.rayStartParams"])
def test_parameters_of_the_operator(key: str) -> None:
    found = problems(with_key(job(), key, dict.fromkeys([*OPERATORS, "num-gpus", "object-store-memory"], "1")))
    names = [*OPERATORS, "num-gpus"]
    assert sorted(problem.split(" is ")[0] for problem in found) == sorted(f"ERROR: {key}: {name}" for name in names)
    assert all(problem.endswith("; remove it") for problem in found)


def test_owned_parameters_and_flags_that_a_later_layer_removed() -> None:
    assert render(job("head.rayStartParams", {"port": None})) == render(job())
    assert render(job("training.args", {"run_path": None})) == render(job())


def test_a_later_file_that_removes_the_only_group(tmp_path: Path) -> None:
    """Not the default group in its place, on hardware that nobody chose."""
    for number, values in enumerate((job(), {"workerGroups": {"gpu": None}})):
        (tmp_path / f"{number}.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    with pytest.raises(HelmError) as caught:
        template([tmp_path / "0.yaml", tmp_path / "1.yaml"])
    (problem,) = caught.value.problems
    assert "every group is null (gpu)" in problem


@pytest.mark.parametrize("path", ["head.tolerations", "workerGroups.gpu.tolerations"])
@pytest.mark.parametrize(
    ("toleration", "word"),
    [
        ({}, "without a key"),
        ({"operator": "Equal", "value": "a"}, "without a key"),
        ({"effect": "NoSchedule"}, "without a key"),
        ({"key": "a b", "operator": "Exists"}, "with a key"),
        ({"key": "a/b/c", "operator": "Exists"}, "with a key"),
        ({"key": "a", "operator": "Exists", "value": "b"}, "Exists and a value"),
        ({"key": "a", "value": "b c"}, "with a value"),
        ({"key": "a", "operator": "Exists", "tolerationSeconds": 60}, "tolerationSeconds"),
        ({"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 0}, "tolerationSeconds"),
        ({"operator": "Exists"}, None),
        ({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}, None),
        ({"key": "a"}, None),
        ({"key": "a.example/b_c", "value": "d", "effect": "NoSchedule"}, None),
    ],
)
def test_tolerations_as_the_api_server_takes_them(path: str, toleration: dict[str, Any], word: str | None) -> None:
    values = with_key(job(), path, [{"key": "fine", "operator": "Exists"}, toleration])
    if word is None:
        assert render(values)
    else:
        (problem,) = problems(values)
        assert problem.startswith(f"ERROR: {path}: {{")
        assert word in problem


@pytest.mark.parametrize(
    ("resource", "given", "better"),
    [
        ("cpu", "1000m", "1"), ("cpu", "46000m", "46"), ("cpu", "007", "7"), ("cpu", "1000", "1k"),
        ("memory", "1024Mi", "1Gi"),
        ("memory", "163840Mi", "160Gi"), ("memory", "1048576Ki", "1Gi"), ("memory", "2048Gi", "2Ti"),
        ("memory", "1000M", "1G"),
        ("memory", "8000000000", "8G"), ("memory", 8000000000, "8G"), ("hugepages-2Mi", "5120Mi", "5Gi"),
        ("ephemeral-storage", "1000Gi", None),
        ("cpu", "46", None), ("cpu", 46, None), ("cpu", "1500m", None), ("cpu", "100m", None),
        ("memory", "1536Mi", None), ("memory", "160Gi", None),
        ("memory", "1024", None), ("memory", "1500M", None), ("memory", "1Ti", None),
    ],
)  # fmt: skip
def test_quantities_are_canonical(resource: str, given: Any, better: str | None) -> None:
    for path in ("head.resources", "workerGroups.gpu.resources"):
        values = with_key(job(), path, {"cpu": "2", "memory": "8Gi"} | {resource: given})
        if better is None:
            assert str(given) in template(values)
        else:
            (problem,) = problems(values)
            assert f'{path}.{resource}: "{given}"' in problem
            assert problem.endswith(f'write "{better}"')


@pytest.mark.parametrize(
    ("resource", "given"),
    [("cpu", "0.5"), ("cpu", "0"), ("cpu", 0), ("cpu", "4 cores"), ("cpu", "-1"), ("cpu", ""), ("memory", "1.5Gi"),
    ("memory", "8GB"),
     ("memory", "8gi"), ("memory", "1e9"), ("memory", "500m"), ("memory", "0Gi"), ("memory", "8Gi "),
     ("memory", "9" * 20)],
)  # fmt: skip
def test_quantities_are_whole(resource: str, given: Any) -> None:
    (problem,) = problems(job("head.resources", {"cpu": "2", "memory": "8Gi"} | {resource: given}))
    assert f"head.resources.{resource}" in problem
    assert "write " in problem


def test_all_problems_at_once() -> None:
    values = job("job.name", "A" * 60, replicas=0, processesPerNode=1, resources={"cpu": "1000m", "memory": "1.5Gi"})
    values |= {"image": {"tag": "latest"}, "rayVersion": "2.9.0", "common": {"env": {"NCCL_NET": "Socket"}}}
    values["training"] = {"storage": {"kind": "s3"}}
    found = problems(values)
    assert len(found) == 9
    keys = ["job.name", "image.tag", "rayVersion", "workerGroups.gpu.replicas", "workerGroups.gpu.processesPerNode"]
    keys += [
        "workerGroups.gpu.resources.cpu",
        "workerGroups.gpu.resources.memory",
        "common.env",
        "training.storage.uri",
    ]
    assert [problem.split(": ")[1] for problem in found] == keys


@pytest.mark.parametrize(
    "values",
    [
        with_key(job("mode", "cluster"), "training.storage", {"kind": "none"}),
        job("image.digest", "sha256:" + "0" * 64),
        with_key(job("image.tag", ""), "image.digest", "sha256:" + "0" * 64),
        with_key(job("image.tag", "latest"), "image.digest", "sha256:" + "0" * 64),
        job("rayVersion", "10.0.20"),
        groups(gpu=group(), gone=None),
        job("image.repository", "localhost:5000/a/b_c/d-e"),
        job("image.repository", "ray"),
        job("rayVersion", "2.52.0"),
        job("job.name", "a" * 47),
        job("nameOverride", "a" * 53),
        job("job.resumeFrom", "s3://bucket/ray-train/demo/ns/demo-0a1b2c3d"),
        stored(kind="s3", uri="s3://my.bucket-1/a/b_c/d=1/"),
        job(**CPU, processesPerNode=8),
        groups(a=group(replicas=1), b=group(replicas=5)),
    ],
    ids=repr,
)
def test_accepted(values: dict[str, Any]) -> None:
    assert render(values)
