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
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict
from werkzeug.test import EnvironBuilder, run_wsgi_app

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
    parts = urlsplit(str(request.url))
    builder = EnvironBuilder(
        path=parts.path,
        query_string=parts.query,
        base_url=f"{parts.scheme}://{parts.netloc}",
        method=str(request.method),
        headers=list(request.headers.items()),
        data=request.body or b"",
    )
    chunks, status, headers = run_wsgi_app(app, builder.get_environ(), buffered=True)
    return _response(request, int(status.split()[0]), dict(headers), b"".join(chunks))


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
