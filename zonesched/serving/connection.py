"""One connection: the loop reads it without waiting, a thread by a deadline; nobody waits to write it."""

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
"""Seconds that a thread reads the rest of a body."""

NOBODY = Sender(Kind.STRANGER, "")


class ConnectionSocket(socket.socket):
    """A socket that never blocks the loop; a thread that has it (`setblocking(True)`) waits READ_S to read.

    What is written is kept until `flush` and sent as far as the other side takes it.
    """

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
        """A thread takes the connection (true), or gives it back to the loop."""
        self._waits = flag
        self.settimeout(READ_S)

    def settimeout(self, value: float | None) -> None:
        """Seconds from now that a thread may go on reading."""
        self._reads_until = self._clock.monotonic() + (READ_S if value is None else value)

    def gettimeout(self) -> float:
        return max(0.0, self._reads_until - self._clock.monotonic()) if self._waits else 0.0

    def recv(self, *args: Any) -> bytes:
        while True:
            try:
                return super().recv(*args)
            except BlockingIOError:
                if not self._waits:
                    raise
                self._wait_readable()

    def _wait_readable(self) -> None:
        left_s = self._reads_until - self._clock.monotonic()
        if left_s <= 0:
            raise TimeoutError("the request did not come in time")
        poller = select.poll()
        poller.register(self, select.POLLIN)
        poller.poll(left_s * 1000)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Keep it for `flush`."""
        self._unsent.append(memoryview(data))

    def send(self, data: Any, flags: int = 0) -> int:
        """Send it now, as far as the other side takes it; keep the rest."""
        self.sendall(data)
        self.flush()
        return len(data)

    def flush(self) -> bool:
        """Send what the other side takes; true once nothing is left. Raises OSError."""
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
        """Tell whether the other side has closed the connection."""
        try:
            return not super().recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True


class Connection(TConn):  # type: ignore[misc]
    """One connection, and what of its next request is here.

    `is_read_by_thread`: a thread reads a part of the body. `has_waited`: the request had to wait for a
    thread. `body_bytes`, `answer_bytes`: held in the worker's budgets. `is_kept`: for a next request.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.gathered = RequestBytes()
        # What comes first has been waited for by the loop.
        self.data_ready = True
        self.sender = NOBODY
        self.is_read_by_thread = False
        self.has_waited = False
        self.body_bytes = 0
        self.answer_bytes = 0
        self.is_kept = False


class Lane:
    """Connections that wait for one thing, each for the same number of seconds; the oldest comes first."""

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
        """Take a connection out; whether it was there."""
        return conn in self._waiting and self._waiting.pop(conn) is None

    def oldest(self) -> list[Connection]:
        """The one that has waited longest, if any."""
        return [next(iter(self._waiting))] if self._waiting else []
