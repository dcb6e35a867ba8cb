"""Worker process that serves a zone: gunicorn's threads, without any that waits for a slow caller.

gunicorn gives each connection to a thread at once, which then waits for the request and for the answer to be
read: as many slow callers as there are threads would block all others. Here the loop that accepts connections
reads the requests, and a thread gets a request once it is complete. The loop also sends the rest of an answer
that the caller does not read at once (`connection_loop`).

    accepted -> gathering -> queued -> a thread answers -> writing -> kept alive -> gathering ...
                   |  `-> receiving -^                        `-> leaving: closed once the other side is
                   `-> closed after REQUEST_S, or as the oldest when there are too many connections

A body above 32 KiB is received by the loop where its sender is known (`senders`), within a budget of bytes.
That of a stranger, or of unknown length, is read by the thread that authenticates it first; few do that.
`fair_queue` shares the threads between senders; a request that can neither run nor wait gets 503 at once.
"""

from __future__ import annotations

import errno
import logging
import selectors
import signal
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from gunicorn.http.errors import ParseException

from zonesched import turns
from zonesched.api.app import METRICS
from zonesched.errors import ZoneschedError
from zonesched.serving.connection import Connection
from zonesched.serving.connection_loop import PIECE_BYTES, ConnectionLoop
from zonesched.serving.fair_queue import FairQueue
from zonesched.serving.gauges import Load, ServerGauges
from zonesched.serving.master import CONNECTIONS_S, Progress, release_signals
from zonesched.serving.open_files import OUT_OF_FILES
from zonesched.serving.reading_threads import ReadingThreads
from zonesched.serving.refusals import HEAD_TOO_LARGE, LINE_TOO_LONG, TOO_MANY, fault_of, refusal
from zonesched.serving.request_bytes import RequestBytes
from zonesched.serving.request_context import RequestContext
from zonesched.serving.senders import Senders
from zonesched.serving.state_report import report
from zonesched.serving.tls import socket_maker

log = logging.getLogger(__name__)

DRAIN_S = 0.05
"""Time limit in seconds for the unread rest of a body, so that the connection can be kept."""


class GatheringWorker(ConnectionLoop):
    """Worker that `zonesched.serving.run_zone` starts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._senders = Senders()
        self._queue: FairQueue[Connection] = FairQueue(self.cfg.threads)
        self._reading = ReadingThreads(self.cfg.threads)
        self.progress = Progress(self.app.conf)

    def run(self) -> None:
        """Serve until a signal ends it."""
        self.progress.serves = True
        # Of this process alone: the first process kills it after the time that is configured.
        self.cfg.set("graceful_timeout", CONNECTIONS_S)
        super().run()

    def load_wsgi(self) -> None:
        """Load the application, which reads bodies from BodyInput, reports senders and looks for callers."""
        super().load_wsgi()
        self._new_socket = socket_maker(self.app.conf)
        app: Any = self.wsgi
        app.extensions[METRICS].registry.register(ServerGauges(self.load))
        context = RequestContext(self._senders, self._clock)

        def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            context.complete(environ)
            answer: Iterable[bytes] = app(environ, start_response)
            return answer

        self.wsgi: Callable[..., Iterable[bytes]] = serve

    def is_parent_alive(self) -> bool:
        """Tell whether the first process is there; without it, keep no connection alive, as after SIGTERM."""
        # SIGTERM may come meanwhile and end `alive`, which nothing begins again.
        if not super().is_parent_alive():
            self.alive: bool = False
        return self.alive

    def init_signals(self) -> None:
        """Set up gunicorn's signals, and SIGUSR2 for a report; SIGHUP is for the first process."""
        super().init_signals()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGUSR2, lambda number, frame: self.method_queue.defer(self._report))
        release_signals()

    def _report(self) -> None:
        log.info("%s", report(self.app.zone, self.load()))

    def load(self) -> Load:
        """Return how much this process has to do now."""
        return Load(self.nr_conns, self._queue.running, self._queue.waiting, self.cfg.threads)

    # -- a request comes in --------------------------------------------------------------------------------

    def accept(self, listener: socket.socket) -> None:
        """Accept a connection; where there are too many, the one that has waited longest is closed."""
        try:
            accepted, address = listener.accept()
        except OSError as error:
            if error.errno in OUT_OF_FILES:
                # The caller waits in the queue of the socket, and is accepted in the next round.
                self._make_room()
            elif error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                raise
            return
        sock = self._new_socket(accepted, self._clock)
        connection = Connection(self.cfg, sock, address, listener.getsockname())
        self.nr_conns += 1
        if self.nr_conns >= self.worker_connections:
            self._make_room()
        self._gather(connection)

    def on_client_socket_readable(self, conn: Connection, client: socket.socket) -> None:
        """Read the next request of a connection that was kept alive, unless it has made room since."""
        if conn.sock.fileno() < 0:
            return
        self.poller.unregister(client)
        self.keepalived_conns.remove(conn)
        conn.gathered = RequestBytes()
        self._gather(conn)

    def _gather(self, conn: Connection) -> None:
        """Read the received bytes; wait for more without a thread, or continue with the request."""
        if self._read(conn):
            self._on_gathered(conn)
        elif conn.sock.fileno() >= 0:
            self._wait(conn, self._gathering, selectors.EVENT_READ, self._on_more)

    def _on_more(self, conn: Connection, client: socket.socket) -> None:
        if self._read(conn):
            self._wait_no_more(conn)
            self._on_gathered(conn)

    def _on_gathered(self, conn: Connection) -> None:
        """Continue with a request that is complete up to a long body, whose wait depends on the sender."""
        gathered = conn.gathered
        if gathered.is_too_long:
            self._refuse(conn, LINE_TOO_LONG if gathered.has_long_request_line else HEAD_TOO_LARGE)
            return
        conn.sender = self._senders.of(gathered.authorization, str(conn.client[0]))
        if gathered.has_more and self._memory.may_hold_body(conn, gathered.body_bytes):
            self._receive(conn)
        else:
            self.enqueue_req(conn)

    def _receive(self, conn: Connection) -> None:
        """Receive the rest of a known sender's long body in the loop."""
        size = conn.gathered.body_bytes
        if not self._memory.hold_body(conn, size):
            self._refuse(conn, TOO_MANY)
            return
        if size:
            conn.gathered.await_whole_body()
        if conn.gathered.is_complete:
            self.enqueue_req(conn)
        else:
            self._wait(conn, self._receiving, selectors.EVENT_READ, self._on_body)

    def _on_body(self, conn: Connection, client: socket.socket) -> None:
        if self._read(conn):
            self._wait_no_more(conn)
            self.enqueue_req(conn)

    def _read(self, conn: Connection) -> bool:
        """Read a piece; return true once the request is complete. Closes a connection that has ended."""
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

    # -- a thread answers ----------------------------------------------------------------------------------

    def enqueue_req(self, conn: Connection) -> None:
        """Give a request to a thread, queue it, or refuse it because there are too many."""
        if conn.gathered.has_more and not self._reading.take(conn.sender):
            self._refuse(conn, TOO_MANY)
            return
        conn.is_read_by_thread = conn.gathered.has_more
        conn.has_waited = False
        if not self._queue.put(conn.sender, conn):
            self._give_reading_back(conn)
            self._refuse(conn, TOO_MANY)
            return
        self._start_requests()
        conn.has_waited = True

    def _start_requests(self) -> None:
        while found := self._queue.next():
            _, conn = found
            if conn.has_waited and conn.sock.is_gone():
                self._end_request(conn)
                self._close(conn)
                continue
            super().enqueue_req(conn)

    def handle(self, conn: Connection) -> Any:
        """Answer one request, in a thread."""
        conn.sock.setblocking(True)
        try:
            conn.init()
            conn.parser.unreader.unread(conn.gathered.take())
            is_kept = super().handle(conn)
            conn.sock.flush()
        except OSError:
            return False
        finally:
            # Begun by SenderLog, once the caller was authenticated.
            turns.end()
        return is_kept

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Exception) -> None:
        """Answer malformed HTTP, and errors outside the application."""
        if isinstance(exc, ParseException):
            fault = fault_of(exc)
        else:
            self.log.exception("a request failed outside the application")
            fault = ZoneschedError("The zone failed to answer this request.")
        with suppress(OSError):
            client.sendall(refusal(fault, self._clock))

    def _keepalive_after(self, conn: Connection, keepalive: Any) -> bool:
        if not keepalive:
            return False
        return bool(conn.parser.finish_body(deadline=self._clock.monotonic() + DRAIN_S))

    def finish_request(self, conn: Connection, fs: Any) -> None:
        """Send what is left of an answer, then wait for the next request or let the caller leave."""
        self._end_request(conn)
        conn.is_kept = not fs.cancelled() and fs.exception() is None and bool(fs.result())
        conn.sock.setblocking(False)
        if conn.sock.unsent_bytes:
            self._await_taking(conn)
        else:
            self._after_answer(conn)
        self._start_requests()

    def _end_request(self, conn: Connection) -> None:
        """Release the thread and the memory of a request."""
        self._queue.done(conn.sender)
        self._give_reading_back(conn)
        self._memory.release_body(conn)

    def _give_reading_back(self, conn: Connection) -> None:
        if conn.is_read_by_thread:
            self._reading.give_back(conn.sender)
            conn.is_read_by_thread = False

    # -- the answer is taken -------------------------------------------------------------------------------

    def _await_taking(self, conn: Connection) -> None:
        """Wait until the caller reads the rest; its sender's oldest answers are dropped for it if needed."""
        size = conn.sock.unsent_bytes
        while not self._memory.hold_answer(conn, size):
            oldest = next((other for other in self._writing if other.sender == conn.sender), conn)
            self._close(oldest)
            if oldest is conn:
                return
        self._wait(conn, self._writing, selectors.EVENT_WRITE, self._on_writable)

    def _on_writable(self, conn: Connection, client: socket.socket) -> None:
        try:
            is_sent = conn.sock.flush()
        except OSError:
            self._close(conn)
            return
        if is_sent:
            self._wait_no_more(conn)
            self._memory.release_answer(conn)
            self._after_answer(conn)

    def _after_answer(self, conn: Connection) -> None:
        if not conn.is_kept:
            self._let_leave(conn)
            return
        conn.gathered = RequestBytes()
        # The next request may already have arrived with this one.
        rest = conn.parser.unreader.take_buffered()
        if not rest:
            self._keep_alive(conn)
        elif conn.gathered.add(rest):
            self._on_gathered(conn)
        else:
            self._wait(conn, self._gathering, selectors.EVENT_READ, self._on_more)
