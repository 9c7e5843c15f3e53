"""Requests to a registry: tokens, redirects, retries. It reads, and never writes."""

from __future__ import annotations

import contextlib
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPException
from typing import IO, Any
from urllib.parse import urlencode, urlsplit

from generator.registry.credentials import authorization
from generator.registry.errors import RegistryError
from generator.registry.names import Repository, is_loopback

TIMEOUT_S = 20
MAX_BYTES = 4 << 20  # the specification's limit of a manifest; a configuration has some KiB
ATTEMPTS = 4
MAX_PAUSE_S = 10.0
_TRY_LATER = (429, 500, 502, 503, 504)
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


@dataclass(slots=True)
class Client:
    """Asks one repository. A token is fetched when the registry wants one, and used from then on."""

    repository: Repository
    pause: Callable[[float], None] = time.sleep
    _token: str | None = field(default=None, init=False)

    def get(self, path: str, accept: tuple[str, ...] = ()) -> tuple[bytes, Message]:
        """Content and headers of a path in the repository, such as `manifests/v1`.

        Raises:
            RegistryError: it is not there, access is refused, or the registry cannot be asked.
        """
        url = f"{self.repository.url}/{path}"
        headers = {"Accept": ", ".join(accept)} if accept else {}
        for asked_for_token in (False, True):
            try:
                return self._send(url, headers | ({"Authorization": self._token} if self._token else {}))
            except urllib.error.HTTPError as error:
                with error:
                    if error.code == 401 and not asked_for_token:
                        self._token = self._authorization(error.headers.get("WWW-Authenticate") or "")
                        continue
                    raise self._refused(error.code, path) from error
        raise AssertionError("the second round returns or raises")

    def _authorization(self, challenge: str) -> str:
        """What a 401 asks for: a token from the address that it names, or the credentials themselves."""
        scheme, _, rest = challenge.partition(" ")
        credentials = authorization(self.repository)
        if scheme.lower() == "basic" and credentials:
            return credentials
        asked = dict(_PARAMETER.findall(rest))
        if scheme.lower() != "bearer" or "realm" not in asked:
            raise self._refused(401, "")
        realm = urlsplit(asked["realm"])
        if realm.scheme != "https" and not (realm.scheme == "http" and is_loopback(realm.netloc)):
            raise RegistryError(f"{self.repository.host} names {asked['realm']} for tokens, which is not https")
        scope = asked.get("scope") or f"repository:{self.repository.path}:pull"
        query = urlencode({"service": asked.get("service", self.repository.host), "scope": scope})
        url = f"{asked['realm']}{'&' if realm.query else '?'}{query}"
        try:
            body, _ = self._send(url, {"Authorization": credentials} if credentials else {})
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error.code, "") from error
        answer = _object(body, url)
        token = answer.get("token") or answer.get("access_token")
        if not isinstance(token, str):
            raise RegistryError(f"{url} gave no token", unreachable=True)
        return f"Bearer {token}"

    def _send(self, url: str, headers: Mapping[str, str]) -> tuple[bytes, Message]:
        """One GET; repeated while the registry is busy or out of reach."""
        for attempt in range(1, ATTEMPTS + 1):
            wait = min(MAX_PAUSE_S, 2.0 ** (attempt - 2))
            try:
                request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310  (http or https, see `url`)
                with _opener(url).open(request, timeout=TIMEOUT_S) as answer:
                    body = answer.read(MAX_BYTES + 1)
                    if len(body) > MAX_BYTES:
                        raise RegistryError(f"{url} is larger than {MAX_BYTES:,} bytes")
                    return body, answer.headers
            except urllib.error.HTTPError as error:
                if error.code not in _TRY_LATER or attempt == ATTEMPTS:
                    raise
                with error, contextlib.suppress(TypeError, ValueError):
                    wait = min(MAX_PAUSE_S, max(0.0, float(error.headers.get("Retry-After") or wait)))
            except (OSError, HTTPException) as error:  # URLError and timeouts are OSErrors
                if attempt == ATTEMPTS:
                    reason = getattr(error, "reason", None) or error
                    raise RegistryError(
                        f"{urlsplit(url).netloc} cannot be reached: {reason}. Check the network, the proxy "
                        "(HTTPS_PROXY) and the repository's name, or set image.digest by hand",
                        unreachable=True,
                    ) from error
            self.pause(wait)
        raise AssertionError("the last attempt returns or raises")

    def _refused(self, status: int, path: str) -> RegistryError:
        name = f"{self.repository.host}/{self.repository.path}"
        if status in (401, 403):
            return RegistryError(
                f"{self.repository.host} refuses access to {self.repository.path} (HTTP {status}): log in with "
                f"`docker login {self.repository.host}`; a login that a credential helper keeps is not read"
            )
        if status == 404:
            return RegistryError(f"{name} has no {path.replace('/', ' ', 1).replace('manifests', 'image')}")
        return RegistryError(f"{self.repository.host} answers HTTP {status} for {name}; try later", unreachable=True)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects as far as that is safe: credentials stay with their host, and https does not become http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.scheme != "https" and not (old.scheme == new.scheme == "http" and is_loopback(new.netloc)):
            raise RegistryError(f"{old.netloc} redirects to {newurl}, which is not https")
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and (new.scheme, new.netloc) != (old.scheme, old.netloc):
            request.remove_header("Authorization")
        return request


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Through the user's proxy, but not to this machine."""
    direct = (urllib.request.ProxyHandler({}),) if is_loopback(urlsplit(url).netloc) else ()
    return urllib.request.build_opener(_Redirects, *direct)


def _object(body: bytes, what: str) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise RegistryError(f"{what} is not JSON", unreachable=True) from error
    if not isinstance(answer, dict):
        raise RegistryError(f"{what} is not a JSON object", unreachable=True)
    return answer
