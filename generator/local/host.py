"""What this machine gives: Ray, loopback addresses, ports, shared memory and a neutral environment."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from generator.local.errors import TOOL_FAILED, LocalError
from generator.tools import ToolMissingError

OBJECT_STORE_BYTES = 100 * 1024**2  # Ray's minimum is 75 MiB; its default is 30 % of this machine, per node
_PORTS = range(20000, 32000)  # below the ports that the kernel hands out for outgoing connections
_PORT_BLOCK = 64
_SOCKET_PATH_BYTES = 107 if sys.platform.startswith("linux") else 103
# `/<node>/session_2026-12-01_21-28-00_123456_1234567/sockets/plasma_store` is what Ray adds to its folder.
_SOCKET_SUFFIX_BYTES = 75
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # where Ray puts its object stores
# The rest of the shell's environment stays out: in a pod it does not exist, and a RAY_ADDRESS, PYTHONPATH,
# CUDA_VISIBLE_DEVICES or proxy in it would reach into the run.
_INHERITED = (
    *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_CACHE_HOME"),
    *("VIRTUAL_ENV", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
)


def require_ray(wanted: str) -> tuple[Path, str]:
    """Path of this Python's `ray` program, and its version.

    Args:
        wanted: `rayVersion` of the RayJob, for the message.

    Raises:
        ToolMissingError: Ray, or its dashboard with the Jobs API, is not installed in this Python.
    """
    program = Path(sys.executable).parent / "ray"
    remedy = f"install it with `{sys.executable} -m pip install 'ray[default,train]=={wanted or '2.58.0'}'`"
    try:
        version = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        raise ToolMissingError(f"Ray is not installed in this Python; {remedy}") from None
    if not program.exists():
        raise ToolMissingError(f"{program} does not exist, although Ray {version} is installed; {remedy}")
    if importlib.util.find_spec("aiohttp_cors") is None:
        # Ray then starts a dashboard without the Jobs API and without the health endpoint.
        raise ToolMissingError(f"Ray {version} is installed without its dashboard (`ray[default]`); {remedy}")
    if shutil.which("python", path=search_path()) is None:
        raise ToolMissingError(
            "there is no program called python beside this one, and the RayJob's entrypoint needs it; "
            "run from a virtual environment"
        )
    return program, version


def search_path() -> str:
    """PATH with this Python's folder first, so that `python` and `ray` are the ones of its environment."""
    own = str(Path(sys.executable).parent)
    return os.pathsep.join([own, *os.environ.get("PATH", os.defpath).split(os.pathsep)])


def base_environment() -> dict[str, str]:
    """What stands for the image's environment: the few variables that a process on this machine needs."""
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    kept |= {name: value for name, value in os.environ.items() if name.startswith("LC_")}
    return {**kept, "PATH": search_path()}


def require_addresses(addresses: Iterable[str]) -> None:
    """Check that this machine answers on each loopback address.

    Raises:
        LocalError: it does not; on macOS only 127.0.0.1 exists until the others are added.
    """
    missing: list[str] = []
    for address in addresses:
        with socket.socket() as probe:
            try:
                probe.bind((address, 0))
            except OSError:
                missing.append(address)
    if missing:
        remedy = "; ".join(f"sudo ifconfig lo0 alias {address} up" for address in missing)
        if sys.platform.startswith("linux"):
            remedy = "; ".join(f"sudo ip addr add {address}/8 dev lo" for address in missing)
        raise LocalError(
            f"each Ray node needs its own loopback address, and this machine has no {', '.join(missing)}; "
            f"add: {remedy}",
            exit_code=TOOL_FAILED,
        )


class Ports:
    """Free TCP ports for one cluster.

    Each cluster has its own block: it keeps the block's first port for as long as it lives, so that two that start in
    the same moment do not pick the same port between the check and Ray's own use of it.
    """

    def __init__(self, pid: int) -> None:
        """Args:
        pid: where to look first; different for each cluster, so that blocks seldom meet.

        Raises:
            LocalError: every block is taken.
        """
        for block in range(len(_PORTS) // _PORT_BLOCK):
            first = _PORTS.start + ((pid + block) * _PORT_BLOCK) % (len(_PORTS) // _PORT_BLOCK * _PORT_BLOCK)
            self._guard = socket.socket()
            try:
                self._guard.bind(("", first))
            except OSError:
                self._guard.close()
                continue
            self._next, self._tried = first + 1, 0
            return
        raise LocalError(f"no free block of TCP ports from {_PORTS.start} to {_PORTS.stop - 1}", exit_code=TOOL_FAILED)

    def take(self) -> int:
        """The next free port.

        Raises:
            LocalError: none is free.
        """
        while self._tried < len(_PORTS):
            port = self._next
            self._tried += 1
            self._next = port + 1 if port + 1 in _PORTS else _PORTS.start
            with socket.socket() as probe:
                try:
                    probe.bind(("", port))
                except OSError:
                    continue
            return port
        raise LocalError(f"no free TCP port from {_PORTS.start} to {_PORTS.stop - 1}", exit_code=TOOL_FAILED)


def make_scratch() -> Path:
    """A new short folder for Ray's sessions: the sockets in it must fit into a Unix socket address."""
    for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108  # macOS: gettempdir() is too long
        path = Path(tempfile.mkdtemp(prefix="rtd-", dir=parent))
        # Canonical, because Ray compares paths and /tmp is a link on macOS.
        path = path.resolve()
        if len(os.fsencode(path)) + _SOCKET_SUFFIX_BYTES <= _SOCKET_PATH_BYTES:
            return path
        path.rmdir()
    raise LocalError("no temporary folder with a short enough path; set TMPDIR to one", exit_code=TOOL_FAILED)


def object_store_folder(nodes: int, scratch: Path) -> Path | None:
    """Where the object stores go when /dev/shm is too small for all of them, else None."""
    try:
        status = os.statvfs(_SHARED_MEMORY)
    except OSError:
        return None  # Ray's own choice, as on macOS
    room = status.f_bavail * status.f_frsize
    return None if room >= nodes * OBJECT_STORE_BYTES + 64 * 1024**2 else scratch
