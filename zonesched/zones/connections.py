"""Kept-alive connections to children, behind the adapter interface of requests.

requests' own pool takes more time than a small call itself, and resolves names again; this one connects only
to addresses that the guard has admitted in the look-up for the same connection.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import requests
from requests.adapters import DEFAULT_CA_BUNDLE_PATH, BaseAdapter
from requests.structures import CaseInsensitiveDict

from zonesched.conf import Conf
from zonesched.deadline_socket import Deadline, DeadlineTlsSocket, connect, secure
from zonesched.errors import ConfigError
from zonesched.model.work_deadline import always
from zonesched.seams import Clock
from zonesched.zones.address import AddressGuard, Endpoint, split_call_url
from zonesched.zones.channel import Body, Channel, request_bytes
from zonesched.zones.resolver import Resolver

MAX_IDLE = 8
"""Maximum of idle connections to one endpoint."""


@dataclass(frozen=True)
class TlsFiles:
    """PEM files: whom this zone trusts ("" for the usual authorities), and what it shows to its children."""

    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""

    @classmethod
    def from_conf(cls, conf: Conf) -> TlsFiles:
        return cls(conf.child_ca_file, conf.child_certificate_file, conf.child_key_file)

    def stamps(self) -> tuple[tuple[int, int], ...]:
        """Time and size of each file, which tell whether it has changed; (0, 0) for none."""
        return tuple(_stamp(path) for path in (self.ca_file, self.certificate_file, self.key_file))


class PreparedCall(requests.PreparedRequest):
    """A request whose exchange ends soon after `is_wanted` has become false."""

    is_wanted: Callable[[], bool] = staticmethod(always)


class CheckedAdapter(BaseAdapter):
    """Sends requests over connections to admitted addresses; `timeout` covers the whole exchange."""

    def __init__(self, guard: AddressGuard, resolver: Resolver, clock: Clock, *, tls: TlsFiles) -> None:
        super().__init__()
        self._guard = guard
        self._resolver = resolver
        self._clock = clock
        self._tls = _tls_context(tls, tls.stamps())
        self._lock = threading.Lock()
        self._idle: dict[Endpoint, list[Channel]] = defaultdict(list)

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """Status and headers; the body is then read from `raw`, within the same time.

        `timeout` is a number of seconds; `verify`, `cert` and `proxies` are not looked at. Raises
        AddressRefused, OSError and http.client.HTTPException.
        """
        deadline = _deadline(self._clock, request, timeout)
        endpoint, content = _content(request)
        kept = self._take_open(endpoint)
        if kept is not None:
            try:
                return self._exchange(kept, request, content, deadline)
            except OSError:
                # The child closed the idle connection without an answer: send again in the same time.
                if kept.sock.received:
                    raise
        return self._exchange(self._open(endpoint, deadline), request, content, deadline)

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            idle = [channel for kept in self._idle.values() for channel in kept]
            self._idle.clear()
        for channel in idle:
            channel.close()

    def resume(
        self, request: requests.PreparedRequest, channel: Channel, unsent: bytes, timeout_s: float
    ) -> requests.Response:
        """Variant of `send` for a request that was begun on an idle connection. Raises the same."""
        deadline = _deadline(self._clock, request, timeout_s)
        endpoint, content = _content(request)
        try:
            return self._finish(channel, request, unsent, deadline)
        except OSError:
            if channel.sock.received:
                raise
        return self._exchange(self._open(endpoint, deadline), request, content, deadline)

    def take_idle(self, endpoint: Endpoint) -> Channel | None:
        """Take an idle connection, None without one; the child may have closed it."""
        with self._lock:
            kept = self._idle.get(endpoint)
            return kept.pop() if kept else None

    def give(self, channel: Channel) -> None:
        """Keep a connection on which nothing is under way."""
        with self._lock:
            kept = self._idle[channel.endpoint]
            if len(kept) < MAX_IDLE:
                kept.append(channel)
                return
        channel.close()

    def _exchange(
        self, channel: Channel, request: requests.PreparedRequest, content: bytes, deadline: Deadline
    ) -> requests.Response:
        channel.sock.received = 0
        return self._finish(channel, request, content, deadline)

    def _finish(
        self, channel: Channel, request: requests.PreparedRequest, unsent: bytes, deadline: Deadline
    ) -> requests.Response:
        try:
            answer = channel.finish(str(request.method), unsent, deadline)
        except BaseException:
            channel.close()
            raise
        response = requests.Response()
        response.status_code = answer.status
        response.headers = CaseInsensitiveDict(answer.headers.items())
        response.raw = Body(answer, channel, self.give)
        response.request = request
        return response

    def _open(self, endpoint: Endpoint, deadline: Deadline) -> Channel:
        resolved = () if endpoint.literal else self._resolver(endpoint.host, deadline.left_s())
        addresses = self._guard.admit(endpoint, resolved)
        sock = connect(addresses, endpoint.port, deadline)
        if endpoint.scheme == "http":
            return Channel(endpoint, sock)
        return Channel(endpoint, secure(sock, self._tls, endpoint.host, deadline))

    def _take_open(self, endpoint: Endpoint) -> Channel | None:
        while True:
            channel = self.take_idle(endpoint)
            if channel is None or not channel.is_stale():
                return channel
            channel.close()


def _content(request: requests.PreparedRequest) -> tuple[Endpoint, bytes]:
    endpoint, path = split_call_url(str(request.url))
    body = request.body or b""
    assert isinstance(body, bytes)
    return endpoint, request_bytes(endpoint, str(request.method), path, request.headers, body)


def _deadline(clock: Clock, request: requests.PreparedRequest, timeout_s: float) -> Deadline:
    return Deadline(clock, timeout_s, request.is_wanted if isinstance(request, PreparedCall) else always)


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


# Zones of one process share it: to read the usual certificates takes a zone's start twice as long. A changed
# file has other stamps, so it is read again.
@cache
def _tls_context(files: TlsFiles, stamps: tuple[tuple[int, int], ...]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=files.ca_file or DEFAULT_CA_BUNDLE_PATH)
    except OSError as error:
        raise ConfigError(
            f"Option child_ca_file is {files.ca_file}; it must be a readable file of CA certificates in PEM"
            " form.",
            field="child_ca_file",
        ) from error
    if files.certificate_file:
        try:
            # A key with a passphrase is refused: nobody could type it at each start.
            context.load_cert_chain(files.certificate_file, files.key_file or None, password="")
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"Option child_certificate_file: {files.certificate_file} and its key cannot be used:"
                f" {error}. Accepted: PEM files of a certificate and of its key without a passphrase.",
                field="child_certificate_file",
            ) from error
    context.sslsocket_class = DeadlineTlsSocket
    return context
