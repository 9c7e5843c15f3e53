"""An S3 server on loopback, and a proxy before it that holds or refuses requests when a test asks for that."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

from tests.cluster.tools import build
from tests.training.processes import Process, Started, free_port, until

KEY, SECRET, REGION = "key", "a-secret-of-s3", "us-west-2"
HOP = ("connection", "expect", "transfer-encoding", "content-length")


@dataclass
class S3:
    """A running S3 server with one bucket."""

    server: Process
    port: int
    files: Path
    """The bucket's objects."""

    @property
    def env(self) -> dict[str, str]:
        """What a client needs."""
        return client(self.port)


def client(port: int) -> dict[str, str]:
    """Environment of a client of the server at `port`."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def start(folder: Path, started: Started) -> S3:
    """Start the S3 server of the test bench."""
    files, metadata, port = folder / "objects" / "bucket", folder / "metadata", free_port()
    files.mkdir(parents=True)
    metadata.mkdir()
    account = ("--access", KEY, "--secret", SECRET, "--region", REGION)
    store = ("--port", f"127.0.0.1:{port}", "posix", "--sidecar", str(metadata), str(files.parent))
    server = started.start((str(build.program("s3-server")), *account, *store), folder / "s3.log")
    until(lambda: "127.0.0.1" in server.output() or server.popen.poll() is not None, 30, "the S3 server")
    return S3(server, port, files)


@dataclass
class Proxy:
    """A way to an S3 server that a test can close for some objects."""

    port: int
    hold: str = ""
    """Writes of objects with this in their path wait until `release`; empty: none does."""
    refuse: str = ""
    """Writes of objects with this in their path are answered with 503."""
    held: list[str] = field(default_factory=list)
    """Paths of the writes that had to wait."""
    refused: list[str] = field(default_factory=list)
    _open: threading.Event = field(default_factory=threading.Event)

    @property
    def env(self) -> dict[str, str]:
        """What a client needs."""
        return client(self.port)

    def release(self) -> None:
        """Let everything pass from now on."""
        self._open.set()

    def passes(self, path: str) -> bool:
        """Whether a write may go on; returns when that is known."""
        if self.refuse and self.refuse in path:
            self.refused.append(path)
            return False
        if self.hold and self.hold in path and not self._open.is_set():
            self.held.append(path)
            self._open.wait()
        return True


@contextmanager
def proxy(server: S3) -> Iterator[Proxy]:
    """A proxy before `server`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Nothing."""

        def forward(self) -> None:
            chunked = self.headers.get("Transfer-Encoding", "").lower() == "chunked"
            body = _chunks(self.rfile) if chunked else self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.command in ("PUT", "POST") and not way.passes(self.path):
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            onward = http.client.HTTPConnection("127.0.0.1", server.port)
            try:
                onward.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in ("expect", "connection"):
                        onward.putheader(name, value)
                onward.endheaders(body)
                answer = onward.getresponse()
                content = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in HOP and name.lower() not in ("server", "date"):
                        self.send_header(name, value)
                length = answer.getheader("Content-Length", "0") if self.command == "HEAD" else str(len(content))
                self.send_header("Content-Length", length)
                self.end_headers()
                self.wfile.write(content)
            finally:
                onward.close()

    for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
        setattr(Handler, f"do_{method}", _quietly(Handler.forward))
    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    way = Proxy(listener.server_address[1])
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    try:
        yield way
    finally:
        way.release()
        listener.shutdown()
        listener.server_close()
        thread.join()


def _chunks(stream: IO[bytes]) -> bytes:
    """A body in chunks, as it came."""
    raw = b""
    while line := stream.readline():
        size = int(line.split(b";")[0], 16)
        raw += line + stream.read(size + 2)
        if size == 0:
            break
    return raw


def _quietly(action: Callable[[BaseHTTPRequestHandler], None]) -> Callable[[BaseHTTPRequestHandler], None]:
    def handle(self: BaseHTTPRequestHandler) -> None:
        try:
            action(self)
        except OSError:  # the client was killed, or the server ended
            self.close_connection = True

    return handle
