"""Servers in front of a real registry: one asks for tokens and sends readers of blobs on to another, its storage."""

from __future__ import annotations

import contextlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-token"  # noqa: S105  (of this test)


@dataclass(slots=True)
class Front:
    """What the servers do, and what they saw."""

    registry: str
    address: str = ""
    storage: str = ""
    basic: str | None = None
    """Credentials without which no token is given; None: everybody gets one."""
    busy: list[int] = field(default_factory=list)
    """Answers of the next requests, before any that succeeds."""
    realm: str = ""
    swapped: bytes | None = None
    """What the storage sends in place of any blob."""
    seen: list[tuple[str, str, str | None]] = field(default_factory=list)
    """(server, path, Authorization) of each request."""


@contextlib.contextmanager
def front(registry: str) -> Iterator[Front]:
    """The two servers before `registry`, while a test runs."""
    state = Front(registry)
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), _handler(name, state)) for name in ("front", "storage")]
    state.address, state.storage = (f"127.0.0.1:{server.server_address[1]}" for server in servers)
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,)) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield state
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()


def _handler(name: str, state: Front) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            authorization = self.headers.get("Authorization")
            state.seen.append((name, self.path, authorization))
            if state.busy:
                self.reply(state.busy.pop(0), b"", {"Retry-After": "0"})
            elif name == "storage":
                self.pass_on() if state.swapped is None else self.reply(200, state.swapped, {})
            elif self.path.startswith("/token"):
                self.token(authorization)
            elif authorization != f"Bearer {TOKEN}":
                realm = state.realm or f"http://{state.address}/token"
                challenge = f'Bearer realm="{realm}",service="front",scope="repository:team/ray:pull"'
                self.reply(401, b"", {"WWW-Authenticate": challenge})
            elif "/blobs/" in self.path:
                self.reply(307, b"", {"Location": f"http://{state.storage}{self.path}"})
            else:
                self.pass_on()

        def token(self, authorization: str | None) -> None:
            asked = parse_qs(urlsplit(self.path).query)
            assert asked == {"service": ["front"], "scope": ["repository:team/ray:pull"]}
            if state.basic is not None and authorization != f"Basic {state.basic}":
                self.reply(401, b"", {})
            else:
                self.reply(200, json.dumps({"token": TOKEN}).encode(), {})

        def pass_on(self) -> None:
            request = urllib.request.Request(f"http://{state.registry}{self.path}", headers=self.accept())
            try:
                with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
                    kept = ("Content-Type", "Docker-Content-Digest")
                    headers = {key: answer.headers[key] for key in kept if key in answer.headers}
                    self.reply(200, answer.read(), headers)
            except urllib.error.HTTPError as error:
                with error:
                    self.reply(error.code, error.read(), {})

        def accept(self) -> dict[str, str]:
            return {"Accept": self.headers["Accept"]} if "Accept" in self.headers else {}

        def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for key, value in (headers | {"Content-Length": str(len(body))}).items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
