"""Values that several test files start from."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any

from tests.helm import Object, one
from tests.project_pods import environment, project


def group(**fields: Any) -> dict[str, Any]:
    """A worker group of two g6.12xlarge, with `fields` over it."""
    return {"replicas": 2, "gpus": 4, "efa": 1, "resources": {"cpu": "46", "memory": "160Gi"}, **fields}


def job(path: str = "", value: Any = None, **group_fields: Any) -> dict[str, Any]:
    """Values of a two-node job on a shared claim, with one key (`a.b.c`) set over them."""
    values: dict[str, Any] = {
        "workerGroups": {"gpu": group(**group_fields)},
        "training": {"storage": {"kind": "pvc", "claimName": "runs"}},
    }
    return with_key(values, path, value) if path else values


def with_key(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of `values` with the key at `path` set; maps on the way are made."""
    changed = copy.deepcopy(values)
    at = changed
    *parents, last = path.split(".")
    for key in parents:
        at = at.setdefault(key, {})
    at[last] = value
    return changed


def job_name(values: Any = None, **options: Any) -> str:
    """Name of the RayJob that the values give."""
    return one("RayJob", values, **options)["metadata"]["name"]


def pods(values: Any = None, kind: str = "RayJob", **options: Any) -> list[Object]:
    """The head and one pod of each worker group."""
    return project(one(kind, values, **options))


def environments(values: Any = None, **options: Any) -> list[dict[str, Any]]:
    """Environment of the head and of one pod of each worker group."""
    return [environment(pod) for pod in pods(values, **options)]


def enlarge(chart: Path, size: int) -> Path:
    """Make the package of a chart `size` bytes large, of the project's own kind of text, and return its folder.

    The files come again under other names; between two of the same lies more than gzip looks back.
    """
    folder = chart / "files" / "training"
    originals = {file.name: file.read_bytes() for file in sorted(folder.glob("*.py"))}
    left = size - sum(map(len, originals.values()))
    for turn in itertools.count():
        for name, text in originals.items():
            if left <= 0:
                return folder
            (folder / f"more_{turn}_{name}").write_bytes(text[:left])
            left -= len(text[:left])
    raise AssertionError
