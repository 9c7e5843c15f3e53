"""`local` runs the chart that `demo` installs: the keys in which their RayJobs differ are listed, no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from generator.project import Project
from generator.render import render, values_path
from tests.golden.tree import ROOT, objects

# The environments have other names, sizes, models and stores; nothing else may differ.
POD = "spec.rayClusterSpec.{}.template."
DIFFERENT = {
    "names": {
        "metadata.name", "metadata.labels[app.kubernetes.io/instance]", "metadata.labels[ray-train-dlc/cluster]",
        "metadata.labels[ray-train-dlc/release]", "metadata.annotations[ray-train-dlc/content-sha256]",
        "spec.rayClusterSpec.workerGroupSpecs[0].groupName",
    },
    "the training": {"spec.entrypoint"},
    "GPUs": {"spec.rayClusterSpec.workerGroupSpecs[0].rayStartParams.num-gpus"},
}  # fmt: skip
BOTH_PODS = {
    "metadata.labels[ray-train-dlc/release]", "metadata.labels[ray-train-dlc/run]", "spec.serviceAccountName",
    "spec.nodeSelector", "spec.containers[0].resources.limits.cpu", "spec.containers[0].resources.limits.memory",
    "spec.containers[0].resources.requests.cpu", "spec.containers[0].resources.requests.memory",
    "spec.containers[0].env[RTD_GPUS_PER_NODE]", "spec.containers[0].env[RTD_PROCESSES_PER_NODE]",
    "spec.containers[0].env[RTD_RUN_NAME]", "spec.containers[0].env[RTD_RUN_PATH]",
    "spec.containers[0].env[RTD_STORAGE_KIND]", "spec.containers[0].volumeMounts[storage]", "spec.volumes[storage]",
    "spec.volumes[training].projected.sources[].configMap.name",
}  # fmt: skip
WORKER_ONLY = {
    "spec.tolerations",
    "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchLabels"
    "[ray-train-dlc/release]",
    "spec.containers[0].resources.limits[nvidia.com/gpu]", "spec.containers[0].resources.requests[nvidia.com/gpu]",
    "spec.containers[0].resources.limits[vpc.amazonaws.com/efa]",
    "spec.containers[0].resources.requests[vpc.amazonaws.com/efa]",
    "spec.containers[0].env[NVIDIA_VISIBLE_DEVICES]",
    "spec.containers[0].env[FI_PROVIDER]", "spec.containers[0].env[NCCL_DEBUG]",
    "spec.containers[0].env[NCCL_DEBUG_FILE]", "spec.containers[0].env[NCCL_NET]",
    "spec.containers[0].env[NCCL_NET_PLUGIN]", "spec.containers[0].env[RTD_TRANSPORT_GDRDMA]",
    "spec.containers[0].env[RTD_TRANSPORT_INTERFACES]", "spec.containers[0].env[RTD_TRANSPORT_PROTOCOL]",
    "spec.containers[0].env[RTD_TRANSPORT_PROVIDER]",
}  # fmt: skip


def differing(a: Any, b: Any, path: str = "") -> Iterator[str]:
    """Paths at which two objects differ. Lists of named things are compared by name, as Kubernetes merges them."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b}):
            step = f"[{key}]" if "/" in key or path.endswith(NAMED) else f".{key}" if path else key
            if (key in a) != (key in b):
                yield path + step
            else:
                yield from differing(a[key], b[key], path + step)
    elif isinstance(a, list) and isinstance(b, list) and path.endswith(NAMED):
        yield from differing({i["name"]: i for i in a}, {i["name"]: i for i in b}, path)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for index, (left, right) in enumerate(zip(a, b, strict=True)):
            yield from differing(left, right, f"{path}[{index}]")
    elif a != b:
        yield path


NAMED = (".env", ".volumes", ".volumeMounts")


def rayjob(environment: str) -> dict[str, Any]:
    text = render(Project(ROOT).load(environment))[values_path(environment)]
    (job,) = [o for o in objects(environment, text) if o["kind"] == "RayJob"]
    return job


def test_every_key_in_which_local_differs_from_demo_is_listed() -> None:
    keys = differing(rayjob("demo"), rayjob("local"))
    found = {re.sub(r"sources\[\d+\]", "sources[]", key.removesuffix(".value")) for key in keys}
    head = {POD.format("headGroupSpec") + key for key in BOTH_PODS}
    worker = {POD.format("workerGroupSpecs[0]") + key for key in BOTH_PODS | WORKER_ONLY}
    assert found == set().union(*DIFFERENT.values()) | head | worker
