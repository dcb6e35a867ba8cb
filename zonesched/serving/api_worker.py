"""The process that serves a zone: gunicorn's worker of threads, of which none waits for a slow caller.

gunicorn gives each connection to a thread at once, which then waits for the request: as many callers as there
are threads, who send a byte now and then, would hold up everybody. Here the loop that accepts connections
gathers what they send, without waiting, and a thread gets a request once it is here: its head, and as much of
its body as GATHERED_BODY_BYTES says. A longer body is read by the thread, in `READ_S`, and once
it knows who sends it; half of the threads at most do that. Nothing waits for a thread without end: beyond
`WAITING_PER_THREAD` each the answer is 503 at once.

    accepted -> gathering -> a thread answers -> kept alive -> gathering ...
                   |                                  `-> leaving: closed once the other side is
                   `-> closed after REQUEST_S, or as the oldest when there are too many connections
"""

from __future__ import annotations

import errno
import selectors
import socket
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any

from gunicorn import util
from gunicorn.workers.gthread import TConn, ThreadWorker

from zonesched.errors import ZoneBusy
from zonesched.seams import SystemClock
from zonesched.serving.request_bytes import RequestBytes

REQUEST_S = 20.0
"""Seconds from a request's first byte, or from the connection, until a thread can have it."""

READ_S = 30.0
"""Seconds that a thread reads the rest of a body."""

WRITE_S = 30.0
"""Seconds that a thread writes an answer."""

DRAIN_S = 0.05
"""Seconds that a thread waits for what was not read of a body, so that the connection can be kept."""

LEAVING_S = 2.0
"""Seconds that the other side has to take the last answer and close."""

WAITING_PER_THREAD = 8
"""Requests that wait until a thread is free, per thread."""

RETRY_AFTER_S = 1

PIECE_BYTES = 64 * 1024


_BODY = (
    b'{"serviceUnavailable": {"code": 503, "message": "This zone has too much to do now.",'
    b' "error_code": "%s", "field": "", "retryAfter": %d}}' % (ZoneBusy.code.encode(), RETRY_AFTER_S)
)
TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b"Retry-After: %d\r\nContent-Length: %d\r\n\r\n" % (RETRY_AFTER_S, len(_BODY))
) + _BODY
"""The whole answer to who comes when no more can wait."""


class TimedSocket(socket.socket):
    """A connection whose reads and writes end by a deadline as soon as it is made to block."""

    def __init__(self, accepted: socket.socket, clock: SystemClock) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self._clock = clock
        self._reads_until = 0.0

    def setblocking(self, flag: bool) -> None:
        """A thread takes the connection (true), or gives it back to the loop."""
        super().settimeout(WRITE_S if flag else 0.0)
        self._reads_until = self._clock.monotonic() + READ_S

    def recv(self, *args: Any) -> bytes:
        if self.gettimeout() == 0.0:
            return super().recv(*args)
        left_s = self._reads_until - self._clock.monotonic()
        if left_s <= 0:
            raise TimeoutError("the request did not come in time")
        self.settimeout(min(left_s, self.gettimeout() or WRITE_S))
        try:
            return super().recv(*args)
        finally:
            self.settimeout(WRITE_S)


class Connection(TConn):  # type: ignore[misc]
    """One connection, and what of its next request is here."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.gathered = RequestBytes()
        # What comes first has been waited for by the loop.
        self.data_ready = True
        self.is_long = False


class GatheringWorker(ThreadWorker):  # type: ignore[misc]
    """The worker that `zonesched.serving.run_zone` starts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._clock = SystemClock()
        # In the order of their deadlines, since each kind has one time for all.
        self._gathering: deque[Connection] = deque()
        self._leaving: deque[Connection] = deque()
        self._in_hand = 0
        self._long_in_hand = 0

    # -- a request comes in --------------------------------------------------------------------------------

    def accept(self, listener: socket.socket) -> None:
        """Take a connection; the one that has waited longest makes room where there are too many."""
        try:
            accepted, address = listener.accept()
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                raise
            return
        connection = Connection(self.cfg, TimedSocket(accepted, self._clock), address, listener.getsockname())
        self.nr_conns += 1
        if self.nr_conns >= self.worker_connections:
            self._make_room()
        self._gather(connection)

    def on_client_socket_readable(self, conn: Connection, client: socket.socket) -> None:
        """A connection that was kept alive says something."""
        self.poller.unregister(client)
        self.keepalived_conns.remove(conn)
        conn.gathered = RequestBytes()
        self._gather(conn)

    def _gather(self, conn: Connection) -> None:
        """Read what is here; wait for more without a thread, or give the request to one."""
        if self._read(conn):
            self._hand_over(conn)
        elif conn.sock.fileno() >= 0:
            conn.timeout = self._clock.monotonic() + REQUEST_S
            self._gathering.append(conn)
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_more, conn))

    def _on_more(self, conn: Connection, client: socket.socket) -> None:
        is_whole = self._read(conn)
        if is_whole:
            self.poller.unregister(client)
        if is_whole or conn.sock.fileno() < 0:
            self._gathering.remove(conn)
        if is_whole:
            self._hand_over(conn)

    def _hand_over(self, conn: Connection) -> None:
        """Give a request to a thread, or say that there are too many."""
        conn.is_long = conn.gathered.has_more
        is_full = self._in_hand >= self.cfg.threads * (1 + WAITING_PER_THREAD)
        if is_full or (conn.is_long and self._long_in_hand >= max(1, self.cfg.threads // 2)):
            with suppress(OSError):
                conn.sock.send(TOO_MANY)
            self._let_leave(conn)
        else:
            self.enqueue_req(conn)

    def enqueue_req(self, conn: Connection) -> None:
        """As the base class does, which also calls it for a request that came with the one before."""
        self._in_hand += 1
        self._long_in_hand += conn.is_long
        super().enqueue_req(conn)

    def _read(self, conn: Connection) -> bool:
        """Whether the request is here; a connection that has ended is closed."""
        try:
            piece = conn.sock.recv(PIECE_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            piece = b""
        if not piece:
            self._close(conn)
            return False
        return conn.gathered.add(piece)

    def handle(self, conn: Connection) -> Any:
        """Answer one request, in a thread."""
        conn.sock.setblocking(True)
        try:
            conn.init()
            conn.parser.unreader.unread(conn.gathered.take())
        except OSError:
            return False
        return super().handle(conn)

    def _keepalive_after(self, conn: Connection, keepalive: Any) -> bool:
        if not keepalive:
            return False
        return bool(conn.parser.finish_body(deadline=self._clock.monotonic() + DRAIN_S))

    # -- a connection ends ---------------------------------------------------------------------------------

    def finish_request(self, conn: Connection, fs: Any) -> None:
        """After an answer: kept alive by the base class; else the loop lets it go without waiting for it."""
        self._in_hand -= 1
        self._long_in_hand -= conn.is_long
        conn.is_long = False
        if not fs.cancelled() and fs.exception() is None and fs.result():
            super().finish_request(conn, fs)
        else:
            self._let_leave(conn)

    def _let_leave(self, conn: Connection) -> None:
        """Nothing more is said; the other side has to close, which nobody waits for."""
        try:
            conn.sock.setblocking(False)
            conn.sock.shutdown(socket.SHUT_WR)
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_leaving, conn))
        except (OSError, ValueError, KeyError):
            self._close(conn)
            return
        conn.timeout = self._clock.monotonic() + LEAVING_S
        self._leaving.append(conn)

    def _on_leaving(self, conn: Connection, client: socket.socket) -> None:
        """Nothing that is still sent is looked at; without reading it the answer would be cut off."""
        try:
            piece = conn.sock.recv(PIECE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            piece = b""
        if not piece:
            self._leaving.remove(conn)
            self._close(conn)

    def murder_pending(self) -> None:
        """Close what has taken too long; of a worker that stops, also what has not said anything yet."""
        now = self._clock.monotonic()
        if not self.alive:
            for conn in [c for c in self._gathering if not c.gathered]:
                self._gathering.remove(conn)
                self._close(conn)
        for waiting in (self._gathering, self._leaving):
            while waiting and waiting[0].timeout <= now:
                self._close(waiting.popleft())
        super().murder_pending()

    def _make_room(self) -> None:
        oldest = [waiting[0] for waiting in self._lanes() if waiting]
        if oldest:
            first = min(oldest, key=lambda conn: float(conn.timeout))
            next(w for w in self._lanes() if w and w[0] is first).popleft()
            self._close(first)

    def _lanes(self) -> tuple[deque[Connection], ...]:
        return (self._leaving, self._gathering, self.keepalived_conns)

    def _close(self, conn: Connection) -> None:
        # It may not be waiting.
        with suppress(OSError, KeyError, ValueError):
            self.poller.unregister(conn.sock)
        self.nr_conns -= 1
        util.close(conn.sock)
