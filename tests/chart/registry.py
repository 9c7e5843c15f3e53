"""A real OCI registry (CNCF Distribution) over plain HTTP on a free port of this machine, while a test runs."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cluster.tools import build

READY_S = 30
END_S = 10
ATTEMPTS = 3  # another process may take the port before the registry does
# Where what Helm pushes is described; the registry must be asked for the very type.
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@contextlib.contextmanager
def registry(folder: Path) -> Iterator[str]:
    """`127.0.0.1:<port>` of a registry that keeps its files in `folder`; it ends with the block, however that ends.

    Raises:
        build.BuildError: it cannot be built.
    """
    program = build.program("oci-registry")
    folder.mkdir(parents=True)
    for _ in range(ATTEMPTS):
        address = f"127.0.0.1:{_free_port()}"
        config = folder / "config.json"
        config.write_text(json.dumps(_settings(address, folder / "data")), encoding="utf-8")
        with (folder / "log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen([program, "serve", config], stdout=log, stderr=subprocess.STDOUT)
        try:
            if _answers(address, process):
                yield address
                return
        finally:
            _end(process)
    raise RuntimeError(f"the registry did not start in {ATTEMPTS} attempts:\n{(folder / 'log').read_text('utf-8')}")


def manifest(address: str, repository: str, reference: str) -> tuple[str, dict[str, Any]]:
    """Digest and content of what a tag or digest stands for."""
    request = urllib.request.Request(
        f"http://{address}/v2/{repository}/manifests/{reference}", headers={"Accept": MANIFEST}
    )
    with _direct().open(request, timeout=READY_S) as answer:
        return answer.headers["Docker-Content-Digest"], json.loads(answer.read())


def _settings(address: str, data: Path) -> dict[str, object]:
    storage = {"filesystem": {"rootdirectory": str(data)}}
    return {"version": 0.1, "storage": storage, "http": {"addr": address, "secret": "test"}}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _direct() -> urllib.request.OpenerDirector:
    """Never through a proxy of the person who runs the tests."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _answers(address: str, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the registry answers; False when it has ended, for example because its port is taken."""
    until = time.monotonic() + READY_S
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), _direct().open(f"http://{address}/v2/", timeout=5):
            return process.poll() is None
        time.sleep(0.1)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(END_S)
