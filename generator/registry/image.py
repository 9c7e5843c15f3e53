"""The image behind a tag. What the registry sends counts only where its SHA-256 is the digest that was asked for."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from generator.registry.client import Client
from generator.registry.errors import RegistryError
from generator.registry.names import Repository

PLATFORM = ("linux", "amd64")  # of every node type in the catalogue
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Found:
    """Digest of the linux/amd64 image, and of the index of several platforms that the tag names, if it names one."""

    digest: str
    index: str | None


def look_up(repository: str, tag: str, client: Client | None = None) -> Found:
    """Ask the registry what `tag` stands for today.

    Raises:
        RegistryError: there is no such image for linux/amd64, or the registry cannot be asked.
    """
    client = client or Client(Repository.parse(repository))
    name = f"{repository}:{tag}"
    body, headers = client.get(f"manifests/{tag}", _INDEXES + _MANIFESTS)
    digest = _digest(body)
    said = headers.get("Docker-Content-Digest")
    if said is not None and said.startswith("sha256:") and said != digest:
        raise RegistryError(f"the manifest of {name} is not what its digest {said} says: it is {digest}")
    content = _json(body, name)
    kind = str(content.get("mediaType") or headers.get_content_type())
    if kind in _INDEXES or "manifests" in content:
        chosen = _for_platform(content, name)
        body = _by_digest(client, "manifests", chosen, _MANIFESTS)
        _check_platform(client, _json(body, name), name)
        return Found(chosen, digest)
    if kind not in _MANIFESTS:
        raise RegistryError(f"{name} is of a kind that is not known here: {kind}")
    _check_platform(client, content, name)
    return Found(digest, None)


def _for_platform(index: dict[str, Any], name: str) -> str:
    offered = []
    entries = index.get("manifests")
    for entry in entries if isinstance(entries, list) else ():
        platform = entry.get("platform") if isinstance(entry, dict) else None
        if not isinstance(platform, dict):
            continue
        here = (str(platform.get("os")), str(platform.get("architecture")))
        if here == PLATFORM:
            return str(entry.get("digest"))
        if "unknown" not in here:  # attestations are listed so
            offered.append("/".join(here))
    raise RegistryError(f"{name} has no image for {'/'.join(PLATFORM)}; it is for {', '.join(offered) or 'none'}")


def _check_platform(client: Client, manifest: dict[str, Any], name: str) -> None:
    """The configuration says what machine the image is for: the manifest itself does not."""
    described = manifest.get("config")
    digest = described.get("digest") if isinstance(described, dict) else None
    config = _json(_by_digest(client, "blobs", str(digest), ()), f"the configuration of {name}")
    here = (config.get("os"), config.get("architecture"))
    if here == (None, None):
        raise RegistryError(f"{name} is not a container image")
    if here != PLATFORM:
        raise RegistryError(f"{name} is for {here[0]}/{here[1]}, but the nodes are {'/'.join(PLATFORM)}")


def _by_digest(client: Client, kind: str, digest: str, accept: tuple[str, ...]) -> bytes:
    if not _DIGEST.fullmatch(digest):
        raise RegistryError(f"the registry names `{digest}`, which is not a sha256 digest")
    body, _ = client.get(f"{kind}/{digest}", accept)
    if _digest(body) != digest:
        raise RegistryError(f"the registry sent something else for {digest}: it is {_digest(body)}")
    return body


def _digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _json(body: bytes, name: str) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except ValueError as error:
        raise RegistryError(f"{name} is not JSON") from error
    if not isinstance(content, dict):
        raise RegistryError(f"{name} is not a JSON object")
    return content
