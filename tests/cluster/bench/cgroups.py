"""Control groups of the nodes, version 1 or 2. Standard library only: the nodes' first processes use it too.

Every node has one group, `ray-train-bench/<bench>/<node>`, in each hierarchy of version 1 or in the one of version 2.
Its kubelet makes the groups of the pods below it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
PARENT = "ray-train-bench"
TRIES = 5


def version() -> int:
    """1 or 2: which one this machine's controllers are on (`hybrid` counts as 1, where the controllers are)."""
    return 2 if (MOUNT / "cgroup.controllers").exists() else 1


def hierarchies() -> list[Path]:
    """Mount points that hold the groups: one for version 2, one for each controller for version 1."""
    if version() == 2:
        return [MOUNT]
    found = []
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup":
            found.append(Path(where))
    return found


def _with_hybrid() -> list[Path]:
    """All hierarchies: on a machine with both versions, runc makes groups in the second one too."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    second = [Path(where) for _, where, kind, *_ in mounts if kind == "cgroup2"]
    return list(dict.fromkeys([*hierarchies(), *second]))


def make(bench: str, node: str) -> str:
    """Make a node's group everywhere; the path of it as the kubelet's `cgroupRoot`."""
    below = (PARENT, bench, node)
    for hierarchy in hierarchies():
        for _ in range(TRIES):
            with contextlib.suppress(FileNotFoundError):  # a bench that ends at this moment removed the empty parent
                _make(hierarchy, below)
                break
        else:
            _make(hierarchy, below)
    return "/" + "/".join(below)


def _make(hierarchy: Path, below: Sequence[str]) -> None:
    group = hierarchy
    for name in below:
        parent, group = group, group / name
        if version() == 2:
            # A group may pass on only the controllers that it got, so from the top down.
            controllers = (parent / "cgroup.controllers").read_text(encoding="utf-8").split()
            _write(parent / "cgroup.subtree_control", " ".join(f"+{c}" for c in controllers))
        group.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if version() == 1 and (group / file).exists():  # empty in a new group, which then can hold no process
                _write(group / file, (parent / file).read_text(encoding="utf-8").strip())


def remove(bench: str, *, timeout_s: float = 20) -> list[Path]:
    """Remove all groups of a bench whose processes have ended; those that could not be removed."""
    deadline = time.monotonic() + timeout_s
    while True:
        left = []
        for hierarchy in _with_hybrid():
            top = hierarchy / PARENT / bench
            if not top.is_dir():
                continue
            for group in [*sorted((p for p in top.rglob("*") if p.is_dir()), reverse=True), top]:
                try:
                    group.rmdir()
                except OSError:  # a process is still ending
                    left.append(group)
            with contextlib.suppress(OSError):  # another bench has groups there
                (hierarchy / PARENT).rmdir()
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.2)


def _write(path: Path, text: str) -> None:
    path.write_text(text + "\n", encoding="utf-8")
