"""From an image's repository to the registry that holds it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

_DOCKER_HUB = "docker.io"
_DOCKER_HUB_API = "registry-1.docker.io"
DOCKER_HUB_LOGIN = "https://index.docker.io/v1/"  # under which `docker login` keeps its credentials


@dataclass(frozen=True, slots=True)
class Repository:
    """A registry's host, with port where one is given, and the path of the repository in it."""

    host: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Repository:
        """As container runtimes read it: without a host it is Docker Hub's."""
        first, slash, rest = text.partition("/")
        if slash and ("." in first or ":" in first or first == "localhost"):
            return cls(_DOCKER_HUB_API if first == _DOCKER_HUB else first, rest)
        return cls(_DOCKER_HUB_API, text if slash else f"library/{text}")

    @property
    def url(self) -> str:
        """Of the repository in the registry's API. Plain HTTP is for this machine only, as Docker has it."""
        return f"{'http' if is_loopback(self.host) else 'https'}://{self.host}/v2/{self.path}"

    @property
    def logins(self) -> tuple[str, ...]:
        """Names under which credentials of this registry may be kept."""
        hub = (DOCKER_HUB_LOGIN, _DOCKER_HUB) if self.host == _DOCKER_HUB_API else ()
        return (self.host, f"https://{self.host}", *hub)


def is_loopback(host: str) -> bool:
    """Whether a host, with or without a port, is this machine."""
    name = urlsplit(f"//{host}").hostname or ""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
