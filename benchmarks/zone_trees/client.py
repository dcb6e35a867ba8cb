"""One user's calls to one zone, over one kept connection."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 60.0
FRESH_S = 20.0
"""A connection that rested longer may be closed by the zone just as it is used again."""


class ZoneFault(Exception):
    """A zone refused a call, or could not be called; `code` is its stable code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class ZoneClient:
    """Calls below /v2.1; for one thread. `ca_file`: whom it trusts, of an https URL."""

    def __init__(
        self, url: str, username: str, password: str, timeout_s: float = TIMEOUT_S, ca_file: str = ""
    ) -> None:
        where = urlsplit(url)
        self._url = url
        self._credentials = (username, password)
        self._ca_file = ca_file
        host, port = str(where.hostname), int(where.port or 80)
        self._connection: http.client.HTTPConnection
        if where.scheme == "https":
            trusted = ssl.create_default_context(cafile=ca_file)
            self._connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=trusted)
        else:
            self._connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        self._used_at = 0.0
        pair = base64.b64encode(f"{username}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {pair}", "Content-Type": "application/json"}

    @classmethod
    def like(cls, other: ZoneClient, url: str = "", timeout_s: float = TIMEOUT_S) -> ZoneClient:
        """The same user, over a connection of its own, at another URL of the zone if one is given."""
        return cls(url or other._url, *other._credentials, timeout_s, other._ca_file)

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """The answer's JSON, None for an empty one; `headers` come on top. Raises ZoneFault."""
        raw = self._send(method, path, body, headers or {})
        return json.loads(raw) if raw else None

    def text(self, path: str) -> str:
        """Read an answer that is no JSON. Raises ZoneFault."""
        return self._send("GET", path, None, {}).decode()

    def close(self) -> None:
        self._connection.close()

    def _send(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> bytes:
        now = time.monotonic()
        if now - self._used_at > FRESH_S:
            self._connection.close()
        self._used_at = now
        content = None if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, f"/v2.1{path}", content, {**self._headers, **headers})
            answer = self._connection.getresponse()
            raw = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ZoneFault(0, "zone_unreachable", f"{method} {self._url}{path}: {error!r}") from error
        if answer.status >= 300:
            raise _fault(method, self._url + path, answer.status, raw)
        return raw


def _fault(method: str, url: str, status: int, raw: bytes) -> ZoneFault:
    try:
        (told,) = json.loads(raw).values()
        code, message = str(told["error_code"]), str(told["message"])
    except (ValueError, KeyError, TypeError, AttributeError):
        code, message = "", raw[:200].decode(errors="replace")
    return ZoneFault(status, code, f"{method} {url}: {status} {code}: {message}")
