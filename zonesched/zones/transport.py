"""Calls between zones: one request, one whole answer, within one time budget.

`Transport` is a seam: tests and the simulator bring their own. `HttpTransport` is the real one, on requests.
"""

from __future__ import annotations

import http.client
import logging
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

import requests
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict

from zonesched import turns
from zonesched.conf import Conf
from zonesched.deadline_socket import Deadline
from zonesched.errors import ChildUnreachable
from zonesched.seams import Clock
from zonesched.zones.address import AddressGuard, AddressRefused, parse_api_url, split_call_url
from zonesched.zones.call import BoundCall, Call, Reply, Rest, invalid, late, not_secured, unreachable
from zonesched.zones.connections import CheckedAdapter, PreparedCall, TlsFiles
from zonesched.zones.ready_calls import Begun, ReadyCalls, Unsent
from zonesched.zones.refusal_lines import RefusalLines
from zonesched.zones.resolver import Resolver, SystemResolver

log = logging.getLogger(__name__)

_PIECE_BYTES = 2**20


class Transport(Protocol):
    """Transport of calls from a zone to another."""

    def send(self, call: Call, timeout_s: float, max_bytes: int) -> Reply:
        """Send the request and return the whole answer.

        `timeout_s` covers everything from looking up the name to the last byte; `max_bytes` is the largest
        body that is read. Raises ChildUnreachable: child_timeout, also for an answer that is no longer
        wanted, child_unreachable, child_tls_failed, or child_invalid_answer
        for an answer that is not HTTP, too large, compressed or a redirect.
        """

    def send_together(
        self, calls: Sequence[BoundCall], timeout_s: float, is_wanted: Callable[[], bool]
    ) -> Iterator[tuple[int, Reply | ChildUnreachable | Rest]]:
        """Send several requests at once; yield for each its number and its answer or fault, as they come.

        No child is waited for by itself: a call that needs that is yielded as a Rest, at once. The others end
        after `timeout_s`, or soon after `is_wanted` has become false. May wait for a turn.
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
        self._lines = RefusalLines(log, clock)

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
        request = _prepared(call)
        return self._receive(
            lambda: self._adapter.send(request, stream=True, timeout=timeout_s), call, timeout_s, max_bytes
        )

    def send_together(
        self, calls: Sequence[BoundCall], timeout_s: float, is_wanted: Callable[[], bool]
    ) -> Iterator[tuple[int, Reply | ChildUnreachable | Rest]]:
        """Implementation of `Transport`."""
        adapter = self._adapter
        if not isinstance(adapter, CheckedAdapter):
            yield from each_alone(self, calls)
            return
        deadline = Deadline(self._clock, timeout_s, is_wanted)
        for number, ended in ReadyCalls(adapter, deadline).send(calls):
            match ended:
                case Unsent():
                    yield number, _Whole(self, calls[number])
                case Begun():
                    yield number, _Resumed(partial(self._resume, adapter, calls[number]), ended)
                case _:
                    yield number, ended

    def _resume(self, adapter: CheckedAdapter, bound: BoundCall, begun: Begun, timeout_s: float) -> Reply:
        request = _prepared(bound.call)
        return self._receive(
            lambda: adapter.resume(request, begun.channel, begun.unsent, timeout_s),
            bound.call,
            timeout_s,
            bound.max_bytes,
        )

    def _receive(
        self, answer: Callable[[], requests.Response], call: Call, timeout_s: float, max_bytes: int
    ) -> Reply:
        ends_at = self._clock.monotonic() + timeout_s
        try:
            with turns.waiting():
                response = answer()
                try:
                    size = _size(response, max_bytes)
                    call.take(size, ends_at - self._clock.monotonic())
                    return _read(response, max_bytes)
                finally:
                    response.close()
        except (TimeoutError, requests.Timeout):
            raise late() from None
        except AddressRefused as refused:
            # It may be spelled wrongly: no more than the text before its path names the child.
            base = "/".join(call.url.split("/", 3)[:3])
            self._lines.warn(base, f"a child is not called: its URL cannot be used: {refused}")
            raise unreachable() from None
        except http.client.RemoteDisconnected:
            raise unreachable() from None
        except http.client.HTTPException:
            raise invalid("is not HTTP") from None
        except OSError as error:
            # Some layers report a timeout as another error; the clock decides.
            if self._clock.monotonic() >= ends_at:
                raise late() from None
            if (why := _why_not_secured(error)) is None:
                raise unreachable() from None
            endpoint, _ = split_call_url(call.url)
            line = f"the child zone at {endpoint.text} is not reached by TLS: {why}"
            self._lines.warn(endpoint.text, line)
            raise not_secured() from None

    def check_url(self, unverified: str, timeout_s: float) -> str:
        """Implementation of `Transport`."""
        url = parse_api_url(unverified)
        try:
            resolved = () if url.endpoint.literal else self._resolver(url.endpoint.host, timeout_s)
        except OSError:
            raise AddressRefused("its host cannot be resolved") from None
        self._guard.admit(url.endpoint, resolved)
        return url.text


def each_alone(
    transport: Transport, calls: Sequence[BoundCall]
) -> Iterator[tuple[int, Reply | ChildUnreachable | Rest]]:
    """Leave each call to a thread: `send_together` of a transport that has no open connections."""
    for number, bound in enumerate(calls):
        yield number, _Whole(transport, bound)


class _Whole:
    """A call of which nothing was sent."""

    def __init__(self, transport: Transport, bound: BoundCall) -> None:
        self._transport = transport
        self._bound = bound

    def finish(self, timeout_s: float) -> Reply:
        return self._transport.send(self._bound.call, timeout_s, self._bound.max_bytes)

    def drop(self) -> None:
        """Hold nothing."""


class _Resumed:
    """A call that was begun; either `finish` or `drop` has its connection."""

    def __init__(self, resume: Callable[[Begun, float], Reply], begun: Begun) -> None:
        self._resume = resume
        self._held = [begun]

    def finish(self, timeout_s: float) -> Reply:
        try:
            begun = self._held.pop()
        except IndexError:
            raise late() from None
        return self._resume(begun, timeout_s)

    def drop(self) -> None:
        with suppress(IndexError):
            self._held.pop().channel.close()


def _prepared(call: Call) -> requests.PreparedRequest:
    """Prepare the request by hand: `Request.prepare` takes a third of a call, and normalises the URL."""
    request = PreparedCall()
    request.is_wanted = call.is_wanted
    request.method = call.method
    request.url = call.url
    request.headers = CaseInsensitiveDict(call.headers)
    request.body = call.body or None
    return request


def _why_not_secured(error: OSError) -> str | None:
    """Return what TLS refused, in the words of this zone's own library; None for any other error."""
    match error:
        case ssl.SSLCertVerificationError(verify_message=why):
            return str(why)
        case ssl.SSLEOFError():
            # The child has ended the connection, as one does that stops.
            return None
        case ssl.SSLError(reason=why):
            return str(why)
        case _:
            return None


def _size(response: requests.Response, max_bytes: int) -> int:
    """Return the size of the body by the head, the largest one that is read if the head does not tell."""
    declared = response.headers.get("Content-Length", "")
    if "Transfer-Encoding" in response.headers or not (declared.isascii() and declared.isdigit()):
        return max_bytes
    return min(int(declared[:20]), max_bytes)


def _read(response: requests.Response, max_bytes: int) -> Reply:
    if 300 <= response.status_code < 400:
        raise invalid("is a redirect")
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise invalid("is compressed")
    pieces: list[bytes] = []
    left = max_bytes
    while piece := response.raw.read(min(left + 1, _PIECE_BYTES)):
        left -= len(piece)
        if left < 0:
            raise invalid("is too large")
        pieces.append(piece)
    return Reply(response.status_code, response.headers, b"".join(pieces))
