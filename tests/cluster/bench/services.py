"""Servers that stand for what is outside of a cluster, on the control plane's address: S3, Git, an OCI registry.

    with_s3 = services.s3(bench)          # started on first use; ends with the bench
    pods reach with_s3.url, and so does bench.inside(…)

Their programs are built on first use too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.bench import layout
from tests.cluster.bench.bench import Bench
from tests.cluster.bench.layout import BenchError
from tests.cluster.bench.processes import last_lines, run, wait_for
from tests.cluster.tools import build

READY_S = 30
S3_PORT, GIT_PORT, REGISTRY_PORT = 9000, 8080, 5000
S3_KEY, S3_SECRET, S3_REGION = "bench", "bench-secret", "us-west-2"


@dataclass(frozen=True)
class Service:
    """A running server.

    Attributes:
        url: its address, for pods and for `Bench.inside`; nothing outside of the bench reaches it.
        folder: its files, as this process sees them.
    """

    url: str
    folder: Path


def s3(bench: Bench) -> Service:
    """An S3 server (versitygw) over plain HTTP; its buckets are the folders in `folder`.

    Key, secret and region are `S3_KEY`, `S3_SECRET` and `S3_REGION`.

    Raises:
        BenchError: it does not start.
        build.BuildError: it cannot be built.
    """
    folder = _folder(bench, "s3")
    meta = _folder(bench, "metadata")  # beside the objects, so that any file system will do
    account = ("--access", S3_KEY, "--secret", S3_SECRET, "--region", S3_REGION)
    listen = ("--port", f"{layout.CONTROL_PLANE_IP}:{S3_PORT}")
    command = (str(build.program("s3-server")), *account, *listen, "posix", "--sidecar", str(meta), str(folder))
    return _started(bench, "s3-server", command, S3_PORT, folder)


def git(bench: Bench) -> Service:
    """A Git server over plain HTTP that serves the bare repositories in `folder`, to read.

    Raises:
        BenchError: it does not start, or this machine has no git.
        build.BuildError: it cannot be built.
    """
    folder = _folder(bench, "git")
    listen = f"{layout.CONTROL_PLANE_IP}:{GIT_PORT}"
    command = (str(build.program("git-server")), "-root", str(folder), "-listen", listen)
    return _started(bench, "git-server", command, GIT_PORT, folder)


def registry(bench: Bench) -> Service:
    """An OCI registry (CNCF Distribution) over plain HTTP, empty at first; `url` is `oci://…`, as Helm takes it.

    Raises:
        BenchError: it does not start.
        build.BuildError: it cannot be built.
    """
    folder = _folder(bench, "registry")
    address = f"{layout.CONTROL_PLANE_IP}:{REGISTRY_PORT}"
    config = bench.files.run / "registry.json"
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder)}, "delete": {"enabled": True}},
        "http": {"addr": address, "secret": "bench"},
    }
    config.write_text(json.dumps(settings), encoding="utf-8")
    command = (str(build.program("oci-registry")), "serve", str(config))
    started = _started(bench, "oci-registry", command, REGISTRY_PORT, folder)
    return Service(f"oci://{address}", started.folder)


def _folder(bench: Bench, name: str) -> Path:
    folder = bench.files.run / name
    folder.mkdir(exist_ok=True)
    return folder


def _started(bench: Bench, name: str, command: tuple[str, ...], port: int, folder: Path) -> Service:
    """Start a server unless it runs already, and wait until it listens."""
    address = layout.CONTROL_PLANE_IP

    def listens() -> bool:
        table = run(*bench.inside("cat", "/proc/net/tcp"))  # the local address of each socket, in hexadecimal
        return f":{port:04X} 00000000:0000 0A" in table

    if not listens():
        process = bench.start_inside(name, *command)

        def up() -> bool:
            if process.poll() is not None:
                log = last_lines(bench.files.log(name))
                raise BenchError(f"{name} ended with {process.returncode}:\n{log}")
            return listens()

        wait_for(f"{name} to listen", up, timeout_s=READY_S)
    return Service(f"http://{address}:{port}", folder)
