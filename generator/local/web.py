"""HTTP to a local Ray dashboard: no proxy, a token, bounded waits."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

# A proxy of the user's environment must never see a loopback address or the token.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class WebError(Exception):
    """A request that was not answered with 2xx; `status` is None when there was no answer at all."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


def request(
    url: str, *, method: str = "GET", body: object = None, token: str | None = None, timeout: float = 10
) -> bytes:
    """One request; returns the body.

    Args:
        url: address.
        method: HTTP method.
        body: sent as JSON when not None.
        token: Ray's authentication token, sent in the header that KubeRay uses.
        timeout: seconds for each socket operation.

    Raises:
        WebError: no answer, or a status other than 2xx.
    """
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if token is not None:
        headers["x-ray-authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    call = urllib.request.Request(url, data=data, method=method, headers=headers)  # noqa: S310  # http to loopback
    try:
        with _OPENER.open(call, timeout=timeout) as answer:
            content = answer.read()
            assert isinstance(content, bytes)  # noqa: S101
            return content
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace").strip()
        raise WebError(f"{method} {url}: {error.code} {text}", error.code) from error
    except (OSError, http.client.HTTPException) as error:
        raise WebError(f"{method} {url}: {error}") from error


def request_json(url: str, **options: Any) -> Any:
    """`request`, with the body read as JSON.

    Raises:
        WebError: also when the body is not JSON.
    """
    content = request(url, **options)
    try:
        return json.loads(content)
    except ValueError as error:
        raise WebError(f"{url} did not answer with JSON: {content[:200]!r}") from error
