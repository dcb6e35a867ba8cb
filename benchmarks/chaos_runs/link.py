"""The way from a parent to a child, through a proxy that spoils what passes."""

from __future__ import annotations

import enum
import socket
import threading
from contextlib import suppress

PIECE = 65_536
CONNECT_S = 5.0


class Way(enum.Enum):
    """PASS: all goes through. CUT: connections are closed, new ones at once. HANG: nothing goes through, and
    nobody is told. TRUNCATE: of each answer the first bytes go through, then the connection is closed."""

    PASS = "pass"
    CUT = "cut"
    HANG = "hang"
    TRUNCATE = "truncate"


class Link:
    """Listens on a port of loopback for one child's."""

    def __init__(self, child_port: int) -> None:
        self._child_port = child_port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self._way = Way.PASS
        self._truncate_after = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, way: Way, truncate_after: int = 0) -> None:
        """Set the fault, for open connections too; `truncate_after` counts bytes of an answer."""
        with self._lock:
            self._way, self._truncate_after = way, truncate_after
            kept = list(self._open)
        if way is not Way.HANG:
            # What hung has been lost, and what was kept alive is a new connection's.
            for sock in kept:
                _close(sock)

    def close(self) -> None:
        with suppress(OSError):
            # Wakes the thread that accepts; to close the socket does not.
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.set(Way.CUT)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        far: socket.socket | None = None
        try:
            if self._way is Way.CUT:
                return
            far = socket.create_connection(("127.0.0.1", self._child_port), CONNECT_S)
            far.settimeout(None)
            with self._lock:
                self._open |= {near, far}
            back = threading.Thread(target=self._pump, args=(far, near, True), daemon=True)
            back.start()
            self._pump(near, far, False)
            back.join()
        except OSError:
            pass
        finally:
            for sock in (near, far):
                if sock is not None:
                    with self._lock:
                        self._open.discard(sock)
                    _close(sock)

    def _pump(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while piece := source.recv(PIECE):
                if self._way is Way.HANG:
                    continue
                if self._way is Way.TRUNCATE and is_answer:
                    sink.sendall(piece[: self._truncate_after])
                    break
                sink.sendall(piece)
        for sock in (source, sink):
            _shut(sock)


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _close(sock: socket.socket) -> None:
    _shut(sock)
    sock.close()
