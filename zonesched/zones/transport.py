"""Calls between zones: one request, one whole answer, within one time budget.

`Transport` is a seam: tests and the simulator bring their own. `HttpTransport` is the real one, on requests.
"""

from __future__ import annotations

import http.client
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import requests
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict

from zonesched import turns
from zonesched.conf import Conf
from zonesched.errors import ChildUnreachable
from zonesched.model.work_deadline import always
from zonesched.seams import Clock
from zonesched.zones.address import AddressGuard, AddressRefused, parse_api_url
from zonesched.zones.connections import CheckedAdapter, PreparedCall, TlsFiles
from zonesched.zones.resolver import Resolver, SystemResolver

log = logging.getLogger(__name__)

_PIECE_BYTES = 2**20


@dataclass(frozen=True)
class Call:
    """One request. `headers` may hold credentials; `body` is empty where there is none.

    `is_wanted` tells whether somebody still waits for the answer. `take` is called with the size of the
    answer and the seconds left, before it is read; it may wait, and raises ChildUnreachable.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""
    is_wanted: Callable[[], bool] = always
    take: Callable[[int, float], None] = lambda size, timeout_s: None

    def __repr__(self) -> str:
        return f"Call({self.method} {self.url})"


@dataclass(frozen=True)
class Reply:
    """One whole answer, not validated in any way."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """Transport of calls from a zone to another."""

    def send(self, call: Call, timeout_s: float, max_bytes: int) -> Reply:
        """Send the request and return the whole answer.

        `timeout_s` covers everything from looking up the name to the last byte; `max_bytes` is the largest
        body that is read. Raises ChildUnreachable: child_timeout, also for an answer that is no longer
        wanted, child_unreachable, or child_invalid_answer
        for an answer that is not HTTP, too large, compressed or a redirect.
        """

    def check_url(self, unverified: str, timeout_s: float) -> str:
        """Return the canonical spelling of a URL that a child may be registered with.

        Raises AddressRefused for a wrong spelling, a forbidden address, and a name that cannot
        be resolved now. Nothing is sent there.
        """


class HttpTransport:
    """HTTP/1.1 with kept-alive connections: no redirects, no proxies, no cookies, nothing of the environment.

    An `adapter` takes the place of real connections in tests.
    """

    def __init__(self, adapter: BaseAdapter, clock: Clock, guard: AddressGuard, resolver: Resolver) -> None:
        self._adapter = adapter
        self._clock = clock
        self._guard = guard
        self._resolver = resolver

    @classmethod
    def from_conf(
        cls, conf: Conf, clock: Clock, *, adapter: BaseAdapter | None = None, resolver: Resolver | None = None
    ) -> HttpTransport:
        """Make a transport for addresses that `child_networks` allows. Raises ConfigError."""
        guard = AddressGuard.from_conf(conf)
        resolver = resolver or SystemResolver()
        adapter = adapter or CheckedAdapter(guard, resolver, clock, tls=TlsFiles.from_conf(conf))
        return cls(adapter, clock, guard, resolver)

    def close(self) -> None:
        """Close all idle connections."""
        self._adapter.close()

    def send(self, call: Call, timeout_s: float, max_bytes: int) -> Reply:
        """Implementation of `Transport`."""
        ends_at = self._clock.monotonic() + timeout_s
        try:
            with turns.waiting():
                response = self._adapter.send(_prepared(call), stream=True, timeout=timeout_s)
                try:
                    size = _size(response, max_bytes)
                    call.take(size, ends_at - self._clock.monotonic())
                    return _read(response, max_bytes)
                finally:
                    response.close()
        except (TimeoutError, requests.Timeout):
            raise _late() from None
        except AddressRefused as refused:
            log.warning("a child is not called: its URL cannot be used: %s", refused)
            raise _unreachable() from None
        except http.client.RemoteDisconnected:
            raise _unreachable() from None
        except http.client.HTTPException:
            raise _invalid("is not HTTP") from None
        except OSError:
            # Some layers report a timeout as another error; the clock decides.
            raise (_late() if self._clock.monotonic() >= ends_at else _unreachable()) from None

    def check_url(self, unverified: str, timeout_s: float) -> str:
        """Implementation of `Transport`."""
        url = parse_api_url(unverified)
        try:
            resolved = () if url.endpoint.literal else self._resolver(url.endpoint.host, timeout_s)
        except OSError:
            raise AddressRefused("its host cannot be resolved") from None
        self._guard.admit(url.endpoint, resolved)
        return url.text


def _prepared(call: Call) -> requests.PreparedRequest:
    """Prepare the request by hand: `Request.prepare` takes a third of a call, and normalises the URL."""
    request = PreparedCall()
    request.is_wanted = call.is_wanted
    request.method = call.method
    request.url = call.url
    request.headers = CaseInsensitiveDict(call.headers)
    request.body = call.body or None
    return request


def _size(response: requests.Response, max_bytes: int) -> int:
    """Return the size of the body by the head, the largest one that is read if the head does not tell."""
    declared = response.headers.get("Content-Length", "")
    if "Transfer-Encoding" in response.headers or not (declared.isascii() and declared.isdigit()):
        return max_bytes
    return min(int(declared[:20]), max_bytes)


def _read(response: requests.Response, max_bytes: int) -> Reply:
    if 300 <= response.status_code < 400:
        raise _invalid("is a redirect")
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise _invalid("is compressed")
    pieces: list[bytes] = []
    left = max_bytes
    while piece := response.raw.read(min(left + 1, _PIECE_BYTES)):
        left -= len(piece)
        if left < 0:
            raise _invalid("is too large")
        pieces.append(piece)
    return Reply(response.status_code, response.headers, b"".join(pieces))


def _late() -> ChildUnreachable:
    return ChildUnreachable("The child zone did not answer in time.", code="child_timeout")


def _unreachable() -> ChildUnreachable:
    return ChildUnreachable("The child zone cannot be reached.", code="child_unreachable")


def _invalid(why: str) -> ChildUnreachable:
    return ChildUnreachable(f"The answer of the child zone {why}.", code="child_invalid_answer")
