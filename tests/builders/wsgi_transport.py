"""A network in one process: requests goes to WSGI applications, and every edge can be told to fail.

    network = WsgiAdapter()
    network.mount("http://127.0.0.1:7001", app)
    network.fault("http://127.0.0.1:7001", LostReply(times=1, path="/servers"))

No time passes and nothing sleeps: an edge that is slower than its caller's timeout raises at once. How long a
call takes is reckoned, though: its own edge's delay and the longest of the calls that were made while it was
served, as if those went side by side.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import requests
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict

WsgiApp = Callable[[dict[str, Any], Any], Iterable[bytes]]


@dataclass(kw_only=True)
class Fault:
    """Fault of an edge, for the first `times` calls of this method whose path contains this text."""

    times: float = float("inf")
    method: str = ""
    path: str = ""

    def hits(self, method: str, path: str) -> bool:
        hit = self.times > 0 and self.method in ("", method) and self.path in path
        self.times -= hit
        return hit


@dataclass
class Slow(Fault):
    """The answer takes `delay_s` seconds."""

    delay_s: float = field(kw_only=False, default=0.0)


@dataclass
class Dead(Fault):
    """Nothing arrives, nothing is answered."""


@dataclass
class LostReply(Fault):
    """The call arrives and is carried out; its answer does not come back."""


@dataclass
class Duplicate(Fault):
    """The call arrives twice; the second answer comes back."""


@dataclass
class Tamper(Fault):
    """Someone on the way changes the answer's body."""

    change: Callable[[bytes], bytes] = field(kw_only=False, default=lambda body: body)


@dataclass
class Replace(Fault):
    """Someone else answers: this status, this body, these headers."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Refuse(Fault):
    """Someone on the way refuses the call with this status; nothing arrives."""

    status: int = 403


@dataclass(frozen=True)
class Sent:
    """A call that went out to an application."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


class WsgiAdapter(BaseAdapter):
    """An adapter of requests that finds each call's application by the URL it starts with."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Sent] = []
        self._apps: dict[str, WsgiApp] = {}
        self._faults: dict[str, list[Fault]] = {}
        self._served = threading.local()

    def mount(self, base_url: str, app: WsgiApp) -> None:
        """From now on this application answers below this URL (scheme, host and port)."""
        self._apps[base_url] = app

    def fault(self, base_url: str, fault: Fault) -> None:
        """From now on this goes wrong on the way there, besides what already does."""
        self._faults.setdefault(base_url, []).append(fault)

    def heal(self, base_url: str) -> None:
        """Nothing goes wrong any more on the way there."""
        self._faults.pop(base_url, None)

    def close(self) -> None:
        """Nothing is open."""

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        parts = urlsplit(str(request.url))
        base_url = f"{parts.scheme}://{parts.netloc}"
        faults = [f for f in self._faults.get(base_url, []) if f.hits(str(request.method), parts.path)]
        app = self._apps.get(base_url)
        if app is None or any(isinstance(fault, Dead) for fault in faults):
            raise requests.ConnectionError("nobody is there")
        for fault in faults:
            if isinstance(fault, Refuse):
                return _response(request, fault.status, {}, b"")
        took_s = sum(fault.delay_s for fault in faults if isinstance(fault, Slow))
        inner_s = self._start_serving()
        try:
            response = self._deliver(app, request)
            if any(isinstance(fault, Duplicate) for fault in faults):
                response = self._deliver(app, request)
        finally:
            took_s += self._stop_serving(inner_s, took_s, timeout)
        if took_s >= timeout or any(isinstance(fault, LostReply) for fault in faults):
            raise requests.ReadTimeout("no answer")
        for fault in faults:
            response = _changed(response, fault)
        return response

    def _start_serving(self) -> float:
        outer_s = getattr(self._served, "longest_s", 0.0)
        self._served.longest_s = 0.0
        return outer_s

    def _stop_serving(self, outer_s: float, own_s: float, timeout: float) -> float:
        inner_s: float = self._served.longest_s
        self._served.longest_s = max(outer_s, min(own_s + inner_s, timeout))
        return inner_s

    def _deliver(self, app: WsgiApp, request: requests.PreparedRequest) -> requests.Response:
        body = request.body or b""
        assert isinstance(body, bytes)
        self.sent.append(Sent(str(request.method), str(request.url), dict(request.headers), body))
        return deliver(app, request)


def deliver(app: WsgiApp, request: requests.PreparedRequest) -> requests.Response:
    """The application's answer to a request."""
    body = request.body or b""
    data = body.encode() if isinstance(body, str) else body
    status, headers, content = answer_of(
        app, environ_of(str(request.method), str(request.url), request.headers, data)
    )
    return _response(request, status, dict(headers), content)


def answer_of(app: WsgiApp, environ: dict[str, Any]) -> tuple[int, list[tuple[str, str]], bytes]:
    """The application's answer to a call: its status, headers and body."""
    answered: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], _error: Any = None) -> None:
        answered.append((status, headers))

    chunks = app(environ, start_response)
    try:
        body = b"".join(chunks)
    finally:
        # An iterable without a close needs none (PEP 3333).
        getattr(chunks, "close", lambda: None)()
    status, headers = answered[-1]
    return int(status[:3]), headers, body


def environ_of(method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Make the environment of a call as a server does, from whole bodies."""
    parts = urlsplit(url)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(parts.path).decode("latin-1"),
        "QUERY_STRING": parts.query.encode().decode("latin-1"),
        "REQUEST_URI": f"{parts.path}?{parts.query}" if parts.query else parts.path,
        "REMOTE_ADDR": "127.0.0.1",
        "SERVER_NAME": parts.hostname,
        "SERVER_PORT": str(parts.port or 80),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": parts.netloc,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": parts.scheme,
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in headers.items():
        environ[_key_of(name)] = value
    # Two headers that WSGI names otherwise; the length is that of the body as it is.
    environ["CONTENT_TYPE"] = environ.pop("HTTP_CONTENT_TYPE", "")
    environ["CONTENT_LENGTH"] = str(len(body))
    environ.pop("HTTP_CONTENT_LENGTH", None)
    return environ


@cache
def _key_of(header: str) -> str:
    return f"HTTP_{header.upper().replace('-', '_')}"


def _response(
    request: requests.PreparedRequest, status: int, headers: Mapping[str, str], body: bytes
) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    response.headers = CaseInsensitiveDict(headers)
    response.raw = io.BytesIO(body)
    response.request = request
    return response


def _changed(response: requests.Response, fault: Fault) -> requests.Response:
    request = response.request
    match fault:
        case Tamper(change=change):
            body = change(response.raw.read())
            return _response(request, response.status_code, response.headers, body)
        case Replace(status=status, body=body, headers=headers):
            return _response(request, status, headers, body)
        case _:
            return response
