"""Read the cluster's API without starting a program: tests poll it, and kubectl costs a tenth of a CPU second.

`kubectl proxy` answers on a socket in the working folder, which needs neither a port nor a way into the network.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import urllib.parse
from pathlib import Path
from typing import Any

from tests.cluster.bench.layout import BenchError

TIMEOUT_S = 30
NOT_FOUND = 404
# Plural name of a kind, and the part of the API that it is in.
GROUPS = {
    "configmaps": "api/v1",
    "namespaces": "api/v1",
    "nodes": "api/v1",
    "pods": "api/v1",
    "secrets": "api/v1",
    "serviceaccounts": "api/v1",
    "services": "api/v1",
    "daemonsets": "apis/apps/v1",
    "deployments": "apis/apps/v1",
    "jobs": "apis/batch/v1",
    "networkpolicies": "apis/networking.k8s.io/v1",
    "rayclusters": "apis/ray.io/v1",
    "rayjobs": "apis/ray.io/v1",
}


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        # The path of a socket may have 107 bytes, that of a working folder more.
        folder = os.open(self._path.parent, os.O_PATH)
        try:
            self.sock.connect(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)


def get(path: Path, kind: str, namespace: str = "", name: str = "", selector: str = "") -> dict[str, Any] | None:
    """An object, or the list of a kind; None when there is no such object.

    Args:
        path: of the proxy's socket.
        kind: a key of `GROUPS`.

    Raises:
        BenchError: the API does not answer, or refuses.
    """
    parts = [GROUPS[kind], *(["namespaces", namespace] if namespace else []), kind, *([name] if name else [])]
    query = "?" + urllib.parse.urlencode({"labelSelector": selector}) if selector else ""
    connection = _Connection(path)
    try:
        connection.request("GET", "/" + "/".join(parts) + query)
        answer = connection.getresponse()
        body = answer.read()
    except OSError as error:
        raise BenchError(f"the API does not answer: {error}") from error
    finally:
        connection.close()
    if answer.status == NOT_FOUND and name:
        return None
    if answer.status != http.client.OK:
        raise BenchError(f"the API answered {answer.status} to {'/'.join(parts)}: {body[:500].decode()}")
    found: dict[str, Any] = json.loads(body)
    return found
