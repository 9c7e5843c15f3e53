"""Images pushed to a real registry by plain HTTP: a manifest, its configuration, and indexes of several of them."""

from __future__ import annotations

import hashlib
import json
import urllib.request
from typing import Any

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"


def digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def push(registry: str, repository: str, tag: str, os: str = "linux", arch: str = "amd64", build: str = "1") -> str:
    """An image without layers; its digest."""
    config = _json({"os": os, "architecture": arch, "rootfs": {"type": "layers", "diff_ids": []}, "author": build})
    _blob(registry, repository, config)
    described = {"mediaType": CONFIG, "digest": digest(config), "size": len(config)}
    manifest = _json({"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": []})
    _put(f"http://{registry}/v2/{repository}/manifests/{tag or digest(manifest)}", manifest, MANIFEST)
    return digest(manifest)


def push_index(registry: str, repository: str, tag: str, images: dict[str, tuple[str, str]]) -> str:
    """An index of pushed images, by digest with (os, architecture); its own digest."""
    entries = [
        {"mediaType": MANIFEST, "digest": name, "size": _size(registry, repository, name),
         "platform": {"os": os, "architecture": arch}}
        for name, (os, arch) in images.items()
    ]  # fmt: skip
    body = _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})
    _put(f"http://{registry}/v2/{repository}/manifests/{tag}", body, INDEX)
    return digest(body)


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()


def _blob(registry: str, repository: str, body: bytes) -> None:
    with _open(f"http://{registry}/v2/{repository}/blobs/uploads/", "POST", b"", "") as answer:
        place = answer.headers["Location"]
    _put(f"{place}{'&' if '?' in place else '?'}digest={digest(body)}", body, "application/octet-stream")


def _size(registry: str, repository: str, name: str) -> int:
    with _open(f"http://{registry}/v2/{repository}/manifests/{name}", "GET", None, MANIFEST) as answer:
        return len(answer.read())


def _put(url: str, body: bytes, kind: str) -> None:
    _open(url, "PUT", body, kind).close()


def _open(url: str, method: str, body: bytes | None, kind: str) -> Any:
    headers = {"Accept": kind} if method == "GET" else {"Content-Type": kind or "application/octet-stream"}
    request = urllib.request.Request(  # noqa: S310  (a registry of this test)
        url, data=body, method=method, headers=headers
    )
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30)
