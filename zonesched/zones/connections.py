"""Kept-alive connections to children, behind the adapter interface of requests.

requests' own pool takes more time than a small call itself, and resolves names again; this one connects only
to addresses that the guard has admitted in the look-up for the same connection.
"""

from __future__ import annotations

import http.client
import os
import select
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
from zonesched.errors import ConfigError
from zonesched.model.work_deadline import always
from zonesched.seams import Clock
from zonesched.zones.address import AddressGuard, Endpoint, split_call_url
from zonesched.zones.deadline_socket import Deadline, DeadlineSocket, DeadlineTlsSocket, connect, secure
from zonesched.zones.resolver import Resolver

MAX_IDLE = 8
"""Maximum of idle connections to one endpoint."""

MAX_INTERIM = 8
"""Maximum of interim answers (100 Continue) before the answer itself; no request asks for any."""


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
        self._idle: dict[Endpoint, list[_Channel]] = defaultdict(list)

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
        is_wanted = request.is_wanted if isinstance(request, PreparedCall) else always
        deadline = Deadline(self._clock, timeout, is_wanted)
        endpoint, path = split_call_url(str(request.url))
        kept = self._take(endpoint)
        if kept is not None:
            try:
                return self._exchange(kept, request, path, deadline)
            except OSError:
                # The child closed the idle connection without an answer: send again in the same time.
                if kept.sock.received:
                    raise
        return self._exchange(self._open(endpoint, deadline), request, path, deadline)

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            idle = [channel for kept in self._idle.values() for channel in kept]
            self._idle.clear()
        for channel in idle:
            channel.close()

    def _exchange(
        self, channel: _Channel, request: requests.PreparedRequest, path: str, deadline: Deadline
    ) -> requests.Response:
        try:
            answer = channel.ask(request, path, deadline)
        except BaseException:
            channel.close()
            raise
        response = requests.Response()
        response.status_code = answer.status
        response.headers = CaseInsensitiveDict(answer.headers.items())
        response.raw = _Body(answer, channel, self._give)
        response.request = request
        return response

    def _open(self, endpoint: Endpoint, deadline: Deadline) -> _Channel:
        resolved = () if endpoint.literal else self._resolver(endpoint.host, deadline.left_s())
        addresses = self._guard.admit(endpoint, resolved)
        sock = connect(addresses, endpoint.port, deadline)
        if endpoint.scheme == "http":
            return _Channel(endpoint, sock)
        return _Channel(endpoint, secure(sock, self._tls, endpoint.host, deadline))

    def _take(self, endpoint: Endpoint) -> _Channel | None:
        while True:
            with self._lock:
                kept = self._idle.get(endpoint)
                channel = kept.pop() if kept else None
            if channel is None or not channel.is_stale():
                return channel
            channel.close()

    def _give(self, channel: _Channel) -> None:
        with self._lock:
            kept = self._idle[channel.endpoint]
            if len(kept) < MAX_IDLE:
                kept.append(channel)
                return
        channel.close()


class _Answer(http.client.HTTPResponse):
    """An answer behind a few interim ones at most: a child may not keep a thread busy with more."""

    _statuses = 0

    def _read_status(self) -> Any:
        self._statuses += 1
        if self._statuses > MAX_INTERIM + 1:
            raise http.client.HTTPException("more interim answers than a child may send")
        return super()._read_status()  # type: ignore[misc]


class _Channel:
    """One open connection to an endpoint."""

    def __init__(self, endpoint: Endpoint, sock: DeadlineSocket | DeadlineTlsSocket) -> None:
        self.endpoint = endpoint
        self.sock = sock
        self._http = http.client.HTTPConnection(endpoint.host, endpoint.port)
        self._http.response_class = _Answer
        self._http.default_port = 443 if endpoint.scheme == "https" else 80
        self._http.auto_open = 0
        self._http.sock = sock

    def ask(
        self, request: requests.PreparedRequest, path: str, deadline: Deadline
    ) -> http.client.HTTPResponse:
        self.sock.deadline = deadline
        self.sock.received = 0
        self._http.request(str(request.method), path, request.body, dict(request.headers))
        return self._http.getresponse()

    def is_stale(self) -> bool:
        """Tell whether the child has closed the connection, or sent unrequested bytes."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        self._http.close()
        self.sock.close()


class _Body:
    """Body of an answer; its connection is reused once all of it was read."""

    def __init__(
        self, answer: http.client.HTTPResponse, channel: _Channel, give: Callable[[_Channel], None]
    ) -> None:
        self._answer = answer
        self._channel = channel
        self._give = give

    def read(self, amount: int) -> bytes:
        """Read at most `amount` bytes, none at the end. Raises IncompleteRead for an incomplete body."""
        piece = self._answer.read(amount)
        if not piece and self._answer.length:
            raise http.client.IncompleteRead(b"", self._answer.length)
        return piece

    def close(self) -> None:
        if self._answer.isclosed() and not self._answer.will_close:
            self._give(self._channel)
            return
        self._answer.close()
        self._channel.close()


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
