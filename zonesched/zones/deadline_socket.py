"""Sockets with a deadline for the whole exchange, however slowly the peer sends.

A socket's own timeout starts anew with each byte. These set it, before each operation, to what is left of
their deadline, so that the whole exchange ends by then; TLS included.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from typing import Any

from zonesched.seams import Clock


class Deadline:
    """A point in monotonic time."""

    def __init__(self, clock: Clock, timeout_s: float) -> None:
        self._clock = clock
        self._ends_at = clock.monotonic() + timeout_s

    def left_s(self) -> float:
        """Return the seconds until then. Raises TimeoutError when it is past."""
        left_s = self._ends_at - self._clock.monotonic()
        if left_s <= 0:
            raise TimeoutError("the time is over")
        return left_s


class _Limited:
    """Base of both kinds of socket. `received` counts the bytes since it was last set to 0."""

    deadline: Deadline | None = None
    received = 0

    def _limit(self) -> None:
        if self.deadline is not None:
            self.settimeout(self.deadline.left_s())  # type: ignore[attr-defined]

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self._limit()
        count: int = super().recv_into(*args, **kwargs)  # type: ignore[misc]
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
            # Head and body go out in two writes; with Nagle's algorithm the second would wait for an ACK.
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
