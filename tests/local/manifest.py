"""A rendered RayJob in the shape of the chart's, with a miniature training; every test changes what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

NAMESPACE = "ray-train"
NAME = "tiny-0a1b2c3d"
CODE_PATH = "/opt/ray-train/training"
_TRAIN = (Path(__file__).parent / "fixtures" / "train.py").read_text(encoding="utf-8")


def config_map(**files: str) -> dict[str, Any]:
    """The training code; a file given as None-like empty text is left out."""
    data = {"__init__.py": "", "sizes.py": "PARAMETERS = 1\n", "train.py": _TRAIN}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "tiny-code-11223344", "namespace": NAMESPACE},
        "immutable": True,
        "data": {name: text for name, text in (data | files).items() if text is not None},
    }


def group(*, env: Mapping[str, str] | None = None, cpu: str = "2", gpus: int = 0) -> dict[str, Any]:
    """`template` and friends of one group, as the chart renders them."""
    variables = {
        "PYTHONPATH": "/opt/ray-train",
        "RTD_RUN_NAME": NAME,
        "RTD_RUN_PATH": f"/mnt/ray-train/cluster/{NAMESPACE}/{NAME}",
        "RTD_STORAGE_KIND": "pvc",
        "RTD_NODES": "2",
        **(env or {}),
    }
    resources: dict[str, Any] = {"cpu": cpu, "memory": "1Gi"}
    if gpus:
        resources["nvidia.com/gpu"] = gpus
    return {
        "rayStartParams": {},
        "template": {
            "spec": {
                "automountServiceAccountToken": False,
                "containers": [
                    {
                        "name": "ray",
                        "image": "registry.example/ray:1",
                        "env": [{"name": name, "value": value} for name, value in variables.items()],
                        "resources": {"limits": dict(resources), "requests": dict(resources)},
                        "volumeMounts": [
                            {"name": "code", "mountPath": CODE_PATH, "readOnly": True},
                            {"name": "storage", "mountPath": "/mnt/ray-train"},
                            {"name": "scratch", "mountPath": "/scratch/ray-train"},
                        ],
                    }
                ],
                "volumes": [
                    {"name": "code", "projected": {"sources": [{"configMap": {"name": "tiny-code-11223344"}}]}},
                    {"name": "storage", "persistentVolumeClaim": {"claimName": "shared"}},
                    {"name": "scratch", "emptyDir": {}},
                ],
            }
        },
    }


def rayjob(*, flags: str = "--steps=3", replicas: int = 2, gpus: int = 0) -> dict[str, Any]:
    """A RayJob with one head and `replicas` workers of the group `cpu`."""
    head = group()
    head["rayStartParams"] = {"num-cpus": "0", "num-gpus": "0"}
    worker = group(env={"RTD_GROUP_ONLY": "cpu", "NCCL_DEBUG_FILE": "/scratch/ray-train/nccl.%h.log"}, gpus=gpus)
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "entrypoint": f"python -m training.train {flags}",
            "submissionMode": "HTTPMode",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": {
                "rayVersion": "2.58.0",
                "authOptions": {"mode": "token"},
                "headGroupSpec": head,
                "workerGroupSpecs": [
                    {"groupName": "cpu", "replicas": replicas, "minReplicas": replicas, "maxReplicas": replicas}
                    | worker
                ],
            },
        },
    }


def manifests(*documents: Mapping[str, Any]) -> str:
    """The documents as `helm template` prints them."""
    return "---\n".join(yaml.safe_dump(document, sort_keys=False) for document in documents)
