"""Connections that no thread has: they wait in the worker's loop, each under a time limit.

    gathering   the first bytes of a request, up to a long body
    receiving   the rest of a long body
    writing     the caller, which has not read its answer yet
    leaving     the other side, which has been told that nothing more comes
    kept alive  the next request; gunicorn's own list

Where there are too many connections, the one that has waited longest is closed.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from gunicorn import util
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, ThreadWorker

from zonesched.errors import ZoneschedError
from zonesched.seams import SystemClock
from zonesched.serving.connection import LEAVING_S, READ_S, WRITE_S, Connection, Waiting
from zonesched.serving.connection_memory import ConnectionMemory
from zonesched.serving.refusals import refusal

REQUEST_S = 20.0
"""Time limit in seconds for a request without a long body, from its first byte or the connection."""

PIECE_BYTES = 64 * 1024
"""Most bytes that are read from a connection at once."""


class ConnectionLoop(ThreadWorker):  # type: ignore[misc]
    """gunicorn's worker of threads, with a loop that waits for callers in place of the threads."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._clock = clock = SystemClock()
        self._memory = ConnectionMemory()
        self._gathering = Waiting(REQUEST_S, clock)
        self._receiving = Waiting(READ_S, clock)
        self._writing = Waiting(WRITE_S, clock)
        self._leaving = Waiting(LEAVING_S, clock)
        self._all_waiting = (self._leaving, self._gathering, self._receiving, self._writing)

    # -- waiting -------------------------------------------------------------------------------------------

    def _wait(
        self,
        conn: Connection,
        waiting: Waiting,
        event: int,
        then: Callable[[Connection, socket.socket], None],
    ) -> None:
        self.poller.register(conn.sock, event, partial(then, conn))
        waiting.add(conn)

    def _wait_no_more(self, conn: Connection) -> None:
        for waiting in self._all_waiting:
            waiting.remove(conn)
        # It may not be registered.
        with suppress(OSError, KeyError, ValueError):
            self.poller.unregister(conn.sock)

    def _keep_alive(self, conn: Connection) -> None:
        conn.set_timeout()
        if not self.alive:
            conn.timeout = min(conn.timeout, self._clock.monotonic() + STOP_KEEPALIVE_LINGER)
        self.keepalived_conns.append(conn)
        readable = partial(self.on_client_socket_readable, conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, readable)

    # -- ending --------------------------------------------------------------------------------------------

    def _refuse(self, conn: Connection, fault: ZoneschedError) -> None:
        with suppress(OSError):
            conn.sock.send(refusal(fault, self._clock))
        self._memory.release_body(conn)
        self._let_leave(conn)

    def _let_leave(self, conn: Connection) -> None:
        """Send nothing more, and wait up to LEAVING_S for the other side to close."""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
            self._wait(conn, self._leaving, selectors.EVENT_READ, self._on_leaving)
        except (OSError, ValueError, KeyError):
            self._close(conn)

    def _on_leaving(self, conn: Connection, client: socket.socket) -> None:
        """Read and drop further bytes: unread ones would make the kernel cut off the answer."""
        try:
            piece = conn.sock.recv(PIECE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            piece = b""
        if not piece:
            self._close(conn)

    def murder_pending(self) -> None:
        """Close connections past their deadline; when the worker stops, also those without a request."""
        now = self._clock.monotonic()
        for waiting in self._all_waiting:
            for conn in waiting:
                # A caller that has just connected may be sending its request, or shaking hands.
                lingers_until = conn.timeout - REQUEST_S + STOP_KEEPALIVE_LINGER
                is_over = waiting is self._gathering and not self.alive and now >= lingers_until
                is_silent = is_over and not conn.gathered
                if is_silent or conn.timeout <= now:
                    self._close(conn)
                elif self.alive:
                    break
        super().murder_pending()

    def _make_room(self) -> None:
        oldest = [conn for waiting in self._all_waiting for conn in waiting.oldest()]
        oldest += [self.keepalived_conns[0]] if self.keepalived_conns else []
        if oldest:
            self._close(min(oldest, key=lambda conn: float(conn.timeout)))

    def _close(self, conn: Connection) -> None:
        """Close a connection; one that made room in this round of the loop may still be told of its bytes."""
        if conn.sock.fileno() < 0:
            return
        self._wait_no_more(conn)
        with suppress(ValueError):
            self.keepalived_conns.remove(conn)
        self._memory.release_body(conn)
        self._memory.release_answer(conn)
        self.nr_conns -= 1
        util.close(conn.sock)
