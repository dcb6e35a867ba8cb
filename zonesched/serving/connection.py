"""One connection: the loop reads without blocking, a thread up to a deadline; writes never block."""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Iterator
from typing import Any

from gunicorn.workers.gthread import TConn

from zonesched.model.sender import Kind, Sender
from zonesched.seams import SystemClock
from zonesched.serving.request_bytes import RequestBytes

READ_S = 30.0
"""Time limit in seconds for a thread to read the rest of a body."""

WRITE_S = 30.0
"""Time limit in seconds for a caller to read an answer."""

LEAVING_S = 2.0
"""Time limit in seconds for the caller to read the last answer and close."""

LOOK_S = 0.1
"""Pause between two looks whether the caller of a running request is still connected."""

# Linux tells of a closed half also where unread bytes came before.
_CLOSED = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)

NOBODY = Sender(Kind.STRANGER, "")


class ConnectionSocket(socket.socket):
    """A socket that never blocks the loop; a thread that has it (`setblocking(True)`) waits READ_S to read.

    Writes are buffered until `flush`, which sends as much as the other side accepts.
    """

    is_secure = False
    has_client_certificate = False

    def __init__(self, accepted: socket.socket, clock: SystemClock) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        super().settimeout(0.0)
        self._clock = clock
        self._waits = False
        self._reads_until = 0.0
        self._unsent: deque[memoryview] = deque()

    @property
    def unsent_bytes(self) -> int:
        return sum(map(len, self._unsent))

    def setblocking(self, flag: bool) -> None:
        """Give the connection to a thread (true), or back to the loop."""
        self._waits = flag
        self.settimeout(READ_S)

    def settimeout(self, value: float | None) -> None:
        """Let a thread read for so many seconds from now."""
        self._reads_until = self._clock.monotonic() + (READ_S if value is None else value)

    def gettimeout(self) -> float:
        return max(0.0, self._reads_until - self._clock.monotonic()) if self._waits else 0.0

    def recv(self, *args: Any) -> bytes:
        while True:
            try:
                return self.receive(*args)
            except BlockingIOError:
                if not self._waits:
                    raise
                self._wait_readable()

    def receive(self, *args: Any) -> bytes:
        """Return what has arrived, b"" at the end. Raises BlockingIOError where nothing has."""
        return super().recv(*args)

    def _wait_readable(self) -> None:
        left_s = self._reads_until - self._clock.monotonic()
        if left_s <= 0:
            raise TimeoutError("the request did not come in time")
        poller = select.poll()
        poller.register(self, select.POLLIN)
        poller.poll(left_s * 1000)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Buffer bytes for `flush`."""
        self._unsent.append(memoryview(data))

    def send(self, data: Any, flags: int = 0) -> int:
        """Send as much as the other side accepts now; buffer the rest."""
        self.sendall(data)
        self.flush()
        return len(data)

    def flush(self) -> bool:
        """Send as much as the other side accepts; return true once nothing is left. Raises OSError."""
        while self._unsent:
            piece = self._unsent[0]
            try:
                sent = super().send(piece)
            except BlockingIOError:
                return False
            if sent == len(piece):
                self._unsent.popleft()
            else:
                self._unsent[0] = piece[sent:]
        return True

    def is_gone(self) -> bool:
        """Tell whether the other side has closed the connection, or its half of it.

        Requests that it has sent ahead do not matter.
        """
        if self.fileno() < 0:
            return True
        poller = select.poll()
        poller.register(self, _CLOSED)
        return bool(poller.poll(0))


class CallerPresence:
    """Tells whether the caller of one request is still connected; looks at most every LOOK_S seconds."""

    def __init__(self, sock: ConnectionSocket, clock: SystemClock) -> None:
        self._sock = sock
        self._clock = clock
        self._looks_at = clock.monotonic() + LOOK_S
        self._is_gone = False

    def __call__(self) -> bool:
        if not self._is_gone and self._clock.monotonic() >= self._looks_at:
            self._is_gone = self._sock.is_gone()
            self._looks_at = self._clock.monotonic() + LOOK_S
        return not self._is_gone


class Connection(TConn):  # type: ignore[misc]
    """One connection, and the received part of its next request.

    `is_read_by_thread`: a thread reads a part of the body. `has_waited`: the request had to wait for a
    thread. `body_bytes`, `answer_bytes`: taken from the worker's budgets. `is_kept`: open for a next request.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.gathered = RequestBytes()
        # The loop has waited for the first bytes.
        self.data_ready = True
        self.sender = NOBODY
        self.is_read_by_thread = False
        self.has_waited = False
        self.body_bytes = 0
        self.answer_bytes = 0
        self.is_kept = False


class Waiting:
    """Connections that wait for the same event, with the same time limit; oldest first."""

    def __init__(self, seconds: float, clock: SystemClock) -> None:
        self._seconds = seconds
        self._clock = clock
        self._waiting: dict[Connection, None] = {}

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._waiting))

    def add(self, conn: Connection) -> None:
        conn.timeout = self._clock.monotonic() + self._seconds
        self._waiting[conn] = None

    def remove(self, conn: Connection) -> bool:
        """Remove a connection; return whether it was there."""
        return conn in self._waiting and self._waiting.pop(conn) is None

    def oldest(self) -> list[Connection]:
        """Return the one that has waited longest, if any."""
        return [next(iter(self._waiting))] if self._waiting else []
