"""Sockets with a deadline for the whole exchange, however slowly the peer sends.

A socket's own timeout starts again with each byte. These sockets set it before each operation to the rest of
their deadline, so that the whole exchange ends by then, TLS included. A wait for bytes also ends once nobody
wants the answer any more.
"""

from __future__ import annotations

import math
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from zonesched.model.work_deadline import always
from zonesched.seams import Clock

LOOK_S = 0.25
"""Pause between two looks whether an awaited answer is still wanted."""


class Deadline:
    """A point in monotonic time, or earlier: the moment from which `is_wanted` is false."""

    def __init__(self, clock: Clock, timeout_s: float, is_wanted: Callable[[], bool] = always) -> None:
        self._clock = clock
        self._ends_at = clock.monotonic() + timeout_s
        self._is_wanted = is_wanted

    def left_s(self) -> float:
        """Return the seconds until then. Raises TimeoutError when it is past."""
        left_s = self._ends_at - self._clock.monotonic()
        if left_s <= 0 or not self._is_wanted():
            raise TimeoutError("the time is over")
        return left_s


class _Limited:
    """Base of both kinds of socket. `received` counts the bytes since it was last set to 0."""

    deadline: Deadline | None = None
    received = 0
    _unread = b""

    def unread(self, data: bytes | bytearray) -> None:
        """Put bytes that were read by `recv` back before those that follow."""
        self._unread = bytes(data)
        self.received = len(data)

    def _limit(self, most_s: float = math.inf) -> None:
        if self.deadline is not None:
            self.settimeout(min(self.deadline.left_s(), most_s))  # type: ignore[attr-defined]

    def recv_into(self, buffer: Any, *args: Any, **kwargs: Any) -> int:
        if self._unread:
            piece = self._unread[: len(buffer)]
            buffer[: len(piece)], self._unread = piece, self._unread[len(piece) :]
            return len(piece)
        while True:
            self._limit(LOOK_S)
            try:
                count: int = super().recv_into(buffer, *args, **kwargs)  # type: ignore[misc]
            except TimeoutError:
                if self.deadline is None:
                    raise
                continue
            self.received += count
            return count

    def send(self, *args: Any, **kwargs: Any) -> int:
        self._limit()
        return super().send(*args, **kwargs)  # type: ignore[misc, no-any-return]

    def sendall(self, *args: Any, **kwargs: Any) -> None:
        self._limit()
        super().sendall(*args, **kwargs)  # type: ignore[misc]


class DeadlineSocket(_Limited, socket.socket):
    """A TCP socket with a deadline."""


class DeadlineTlsSocket(_Limited, ssl.SSLSocket):
    """A TLS socket with a deadline; its handshake takes the time that the TCP socket has left."""


def connect(addresses: Sequence[str], port: int, deadline: Deadline) -> DeadlineSocket:
    """Connect to the first of these addresses (as numbers) that accepts within its share of the time.

    Raises OSError, TimeoutError included.
    """
    error: OSError = TimeoutError("there is no address")
    for tried, address in enumerate(addresses):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = DeadlineSocket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(deadline.left_s() / (len(addresses) - tried))
            sock.connect((address, port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as raised:
            sock.close()
            error = raised
    raise error


def secure(sock: DeadlineSocket, context: ssl.SSLContext, name: str, deadline: Deadline) -> DeadlineTlsSocket:
    """Start TLS on a connection; the certificate must be for `name`. Raises OSError (ssl.SSLError is one)."""
    try:
        sock.settimeout(deadline.left_s())
        tls = context.wrap_socket(sock, server_hostname=name)
    except BaseException:
        sock.close()
        raise
    assert isinstance(tls, DeadlineTlsSocket)
    return tls
