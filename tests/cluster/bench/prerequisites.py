"""What a machine needs for the bench, looked for before anything is built or started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from generator.tools import cache_dir
from tests.cluster.bench import cgroups
from tests.cluster.bench.images import BUSYBOX_PROGRAM
from tests.cluster.bench.layout import ROOT, BenchError, Layout
from tests.cluster.bench.machine import HIDDEN
from tests.cluster.bench.node_config import CNI_PLUGINS
from tests.cluster.bench.processes import search_path
from tests.cluster.tools import build

PACKAGES = ROOT / "tests" / "cluster" / "debian-packages.txt"
# Debian package: programs of it that the bench runs.
PROGRAMS = {
    "containerd": ("containerd", "ctr"),
    "runc": ("runc",),
    "iproute2": ("ip",),
    "util-linux": ("unshare", "nsenter", "mount"),
    "nftables": ("nft",),
    "iptables": ("iptables",),
    "conntrack": ("conntrack",),
}
CNI_NEEDED = ("ptp", "host-local", "portmap", "loopback")
FREE_GIB = 5


class PrerequisiteError(BenchError):
    """This machine lacks something; the text says what, why, and the command that mends it."""


def check(files: Layout) -> None:
    """Look for everything at once.

    Raises:
        PrerequisiteError: with one line for each thing that is missing.
    """
    missing = [*_machine(files), *_packages()]
    try:
        build.find_go()
    except build.GoMissingError as problem:
        missing.append(str(problem))
    if missing:
        raise PrerequisiteError("the test bench needs more than this machine has:\n  " + "\n  ".join(missing))


def runc() -> str:
    """Path of runc: containerd's own search path is not this process's."""
    return shutil.which("runc", path=search_path()) or "runc"


def _machine(files: Layout) -> list[str]:
    if os.uname().sysname != "Linux":
        return ["Linux: nodes are made of its namespaces"]
    if os.geteuid() != 0:
        return ["root, to make namespaces and control groups: run it with sudo, or in a machine of its own"]
    found = []
    tried = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "true")
    if shutil.which("unshare") and _fails(*tried):  # without unshare itself, util-linux is named below
        found.append("the right to make namespaces; a container needs --privileged")
    if "overlay" not in Path("/proc/filesystems").read_text(encoding="utf-8") and _fails("modprobe", "overlay"):
        found.append("overlayfs in the kernel: modprobe overlay")
    found += _control_groups()
    if ":" in str(files.folder):
        found.append(
            f"a working folder without a colon, which separates paths in KUBECONFIG: set BENCH_DIR, not {files.folder}"
        )
    for what, place, mend in (
        ("the working folder", files.folder, "set BENCH_DIR to it"),
        ("the checkout", ROOT, "move it"),
        ("the built programs", cache_dir(), "set XDG_CACHE_HOME to it"),
        ("the virtual environment", Path(sys.prefix), "make it there"),
        ("Python", Path(sys.base_prefix), "install one there"),
    ):
        if hidden := next((hidden for hidden in HIDDEN if place.resolve().is_relative_to(hidden)), ""):
            found.append(f"a place for {what} outside of {hidden}, which is hidden inside the bench: {mend}")
    parent = next(p for p in [files.folder, *files.folder.parents] if p.exists())
    if not parent.is_dir():
        return [*found, f"a folder at {parent}, which is a file: set BENCH_DIR to another place"]
    if not os.access(parent, os.W_OK):  # also of root: a file system may be read-only
        found.append(f"a folder that can be written, {parent} cannot: set BENCH_DIR to another place")
    free = shutil.disk_usage(parent).free / 2**30
    if free < FREE_GIB:
        found.append(f"{FREE_GIB} GiB free in {parent}, there are {free:.1f}: set BENCH_DIR to another place")
    return found


def _control_groups() -> list[str]:
    if cgroups.version() == 2:
        have = set((cgroups.MOUNT / "cgroup.controllers").read_text(encoding="utf-8").split())
    else:
        have = {path.name for path in cgroups.hierarchies()}
        have |= {name for path in cgroups.hierarchies() for name in path.name.split(",")}
    lacking = {"cpu", "cpuset", "memory", "pids"} - have
    return [f"the cgroup controllers {', '.join(sorted(lacking))} at {cgroups.MOUNT}"] if lacking else []


def _packages() -> list[str]:
    lacking = {
        package
        for package, programs in PROGRAMS.items()
        if any(shutil.which(program, path=search_path()) is None for program in programs)
    }
    if any(not Path(CNI_PLUGINS, plugin).is_file() for plugin in CNI_NEEDED):
        lacking.add("containernetworking-plugins")
    if not BUSYBOX_PROGRAM.is_file() or not _is_static(BUSYBOX_PROGRAM):
        lacking.add("busybox-static")
    if not lacking:
        return []
    names = " ".join(sorted(lacking))
    return [f"Debian packages: apt-get install --no-install-recommends {names}"]


def _is_static(program: Path) -> bool:
    """Whether an ELF program names no loader, and so runs in an image without libraries."""
    head = program.read_bytes()[:4096]
    return b"/ld-linux" not in head and b"/ld-musl" not in head


def _fails(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode != 0
    except (OSError, subprocess.TimeoutExpired):
        return True
