"""Target of the HTTP process: bytes on a connection, through the worker's loop and parser to a real zone."""

from __future__ import annotations

import base64
import re
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from gunicorn.config import Config
from gunicorn.glogging import Logger
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from benchmarks.fuzzing import hostile
from benchmarks.fuzzing.api_calls import KINDS, crashes_told
from benchmarks.fuzzing.site import Site, a_site
from benchmarks.fuzzing.target import Check, Target, Work
from zonesched.conf import Conf
from zonesched.serving.api_worker import GatheringWorker
from zonesched.serving.request_bytes import RequestBytes

CONNECTIONS_OF_A_SITE = 1000
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2}) ")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: ([0-9]+)")


@dataclass(frozen=True)
class Stream:
    """The bytes of a connection, in the pieces that arrive together."""

    pieces: tuple[bytes, ...]


# -- inputs ------------------------------------------------------------------------------------------------

CREDENTIALS = b"@credentials@"
"""Stands for the header's value of the site's admin, which differs from site to site."""

_line_ends = st.sampled_from((b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\r\r\n", b"", b"\0\r\n"))
_methods = st.sampled_from(
    (b"GET", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"get", b"PRI", b"", b"G\0T", b"CONNECT")
)
_targets = st.sampled_from(
    (
        b"/health",
        b"/servers",
        b"/flavors",
        b"/v2.1/zones",
        b"*",
        b"http://other/health",
        b"//other/health",
        b"/%",
        b"/%00",
        b"/\xff",
        b"/a b",
        b"/?a=%ff&&=",
        b"/" + b"a" * 9000,
        b"",
    )
) | st.binary(max_size=20)
_versions = st.sampled_from(
    (b"HTTP/1.1", b"HTTP/1.0", b"HTTP/1.1", b"HTTP/2.0", b"HTTP/9.9", b"HTTP/1.1 x", b"")
)
_names = st.sampled_from(
    (
        b"Host",
        b"Content-Length",
        b"content-length ",
        b"Transfer-Encoding",
        b"Expect",
        b"Connection",
        b"Authorization",
        b"Content-Type",
        b"X-Forwarded-Proto",
        b"Upgrade",
        b"X_Y",
        b" folded",
        b"",
    )
) | st.binary(max_size=8)
_values = st.sampled_from(
    (
        b"0",
        b"5",
        b"-1",
        b"+5",
        b"0x5",
        b"5, 5",
        b"9" * 19,
        b"9" * 5000,
        b"chunked",
        b"Chunked",
        b"chunked, gzip",
        b"identity",
        b"100-continue",
        b"close",
        b"keep-alive",
        b"Basic " + CREDENTIALS,
        b"application/json",
        b"h2c",
        b"a" * 9000,
        b"\xff\xfe",
        b"",
    )
) | st.binary(max_size=16)
_chunks = st.sampled_from(
    (
        b"5\r\nhello\r\n0\r\n\r\n",
        b"0\r\n\r\n",
        b"0x5\r\nhello\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"5\nhello\n0\n\n",
        b"5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
        b"FFFFFFFFFFFFFFFFF\r\n",
        b"5\r\nhel",
        b"0\r\n" + b"X: y\r\n" * 500 + b"\r\n",
    )
)
_FLAVOR = b'{"flavor": {"name": "x", "vcpus": 1, "ram": 1, "disk": 1}}'
_bodies = st.sampled_from((b"", b"hello", _FLAVOR)) | st.binary(max_size=60)
_USUAL = (
    (b"Host", b"zone"),
    (b"Authorization", b"Basic " + CREDENTIALS),
    (b"Content-Type", b"application/json"),
)


@st.composite
def _requests(draw: DrawFn) -> bytes:
    """One request of which a few things may be wrong."""

    def mostly(usual: Sequence[bytes], odd: SearchStrategy[bytes]) -> bytes:
        return draw(st.sampled_from(usual)) if draw(st.integers(0, 9)) else draw(odd)

    end = mostly([b"\r\n"], _line_ends)
    method = mostly([b"GET", b"POST", b"POST", b"HEAD"], _methods)
    target = mostly([b"/health", b"/flavors", b"/v2.1/flavors", b"/servers?limit=1"], _targets)
    first = b" ".join((method, target, mostly([b"HTTP/1.1"], _versions)))
    headers = [*_USUAL] if draw(st.integers(0, 9)) else []
    body = mostly([b"", _FLAVOR], _bodies)
    match draw(st.integers(0, 3)) if method == b"POST" or not draw(st.integers(0, 9)) else 9:
        case 0:
            headers.append((b"Transfer-Encoding", b"chunked"))
            whole = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
            body = mostly([whole], _chunks)
        case 1 | 2 | 3:
            headers.append((b"Content-Length", str(len(body)).encode()))
        case _:
            body = b""
    if not draw(st.integers(0, 2)):
        headers.append((draw(_names), draw(_values)))
    if not draw(st.integers(0, 40)):
        headers *= draw(st.sampled_from((40, 200)))
    lines = [first, *(name + b": " + value for name, value in headers), b"", b""]
    return draw(hostile.changed_bytes(end.join(lines) + body))


@st.composite
def streams(draw: DrawFn) -> Stream:
    """One to three requests on a connection, cut anywhere."""
    data = b"".join(draw(st.lists(_requests(), min_size=1, max_size=3)))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=3)))
    return Stream(tuple(data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b))


# -- the check ---------------------------------------------------------------------------------------------


class _OneThread:
    """A pool of threads that runs each job at once on the caller's own."""

    def submit(self, job: Callable[[Any], Any], conn: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(job(conn))
        except Exception as fault:
            done.set_exception(fault)
        return done


class SteppedWorker(GatheringWorker):
    """The worker of an application; its loop is stepped by hand, and its jobs run on the caller's thread."""

    def __init__(self, app: Callable[..., Any], conf: Conf) -> None:
        cfg = Config()
        for name, value in (("threads", 8), ("worker_connections", 100), ("loglevel", "critical")):
            cfg.set(name, value)
        self._application, self.conf = app, conf
        super().__init__(0, 0, [], self, 30, cfg, Logger(cfg))
        self.tpool = _OneThread()
        self.poller = selectors.DefaultSelector()
        self.method_queue.init()
        self.poller.register(
            self.method_queue.fileno(), selectors.EVENT_READ, self.method_queue.run_callbacks
        )
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.load_wsgi()

    def load_wsgi(self) -> None:
        # gunicorn asks its application for the WSGI callable by this method.
        application = self._application
        self.app = type("App", (), {"wsgi": lambda _: application, "conf": self.conf})()
        super().load_wsgi()

    def step(self) -> bool:
        """Handle the events that are there; tell whether there was one."""
        events = self.poller.select(0.0)
        for key, _ in events:
            key.data(key.fileobj)
        return bool(events)

    def is_idle(self) -> bool:
        """Tell whether nothing of any connection is left: no thread, no memory, no place in a queue."""
        waiting = any(list(waiting) for waiting in self._all_waiting)
        held = self._memory.held
        return not (self.nr_conns or waiting or held or self._reading.taken)

    def close(self) -> None:
        self.poller.close()
        self.method_queue.close()
        self.listener.close()
        self.tmp.close()


class HttpCheck:
    """Sends streams to a worker and judges what comes back."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._begin()

    def __call__(self, stream: Stream) -> Work:
        if self._count % CONNECTIONS_OF_A_SITE == 0 and self._count:
            self.close()
            self._begin()
        self._count += 1
        _check_cuts(stream)
        data = b"".join(stream.pieces).replace(CREDENTIALS, self._credentials)
        with crashes_told():
            answers = self._talk(data)
        _judge(answers)
        assert self._worker.is_idle(), "something of the connection is left"
        return Work(len(data) + len(answers))

    def close(self) -> None:
        self._worker.close()
        for node in self._site.tree.nodes.values():
            node.zone.store.close()

    def _talk(self, data: bytes) -> bytes:
        """Send all, then nothing more; what comes back until the worker closes."""
        with socket.create_connection(self._worker.listener.getsockname()) as client:
            client.setblocking(False)
            self._worker.accept(self._worker.listener)
            answers = bytearray()
            unsent = memoryview(data)
            is_shut = False
            while True:
                with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                    unsent = unsent[client.send(unsent) :] if unsent else unsent
                if not unsent and not is_shut:
                    client.shutdown(socket.SHUT_WR)
                    is_shut = True
                worked = self._worker.step()
                try:
                    piece = client.recv(2**20)
                except BlockingIOError:
                    if not worked:
                        time.sleep(0.0002)
                    continue
                except ConnectionResetError:
                    piece = b""
                if not piece:
                    break
                answers += piece
        while self._worker.step():
            pass
        return bytes(answers)

    def _begin(self) -> None:
        self._site: Site = a_site(self._folder / f"site-{self._count}")
        node = self._site.tree.nodes["zone"]
        self._credentials = base64.b64encode(f"admin:{node.secrets['admin']}".encode())
        self._worker = SteppedWorker(node.app, node.zone.conf)


def _check_cuts(stream: Stream) -> None:
    """However a request is cut, it is complete with the same byte, and reads the same."""
    cut, whole = RequestBytes(), RequestBytes()
    is_complete = False
    for piece in stream.pieces:
        is_complete = cut.add(piece)
        if is_complete:
            break
    given = b"".join(stream.pieces)
    if whole.add(given) and not is_complete:
        raise AssertionError("a request that is cut is never complete")


def _judge(answers: bytes) -> None:
    """Every answer is HTTP, and a fault has the form of the API."""
    rest = answers
    while rest:
        head, end, rest = rest.partition(b"\r\n\r\n")
        assert end, f"an answer has no end: {head[:200]!r}"
        found = _STATUS.match(head)
        assert found, f"no status line: {head[:200]!r}"
        status = int(found[1])
        assert b"\r\nx-openstack-request-id: req-" in head or status == 100, f"no request id: {head[:300]!r}"
        length = int(found[1]) if (found := _LENGTH.search(head)) else 0
        # The answer to HEAD has a length and no body.
        body, rest = (b"", rest) if not rest or rest.startswith(b"HTTP/") else (rest[:length], rest[length:])
        if status >= 400 and body:
            ((name, fault),) = orjson.loads(body).items()
            assert (name, status) in KINDS and status == fault["code"], f"{status}: {body[:200]!r}"
        assert status < 500 or status == 503, f"{status}: {body[:200]!r}"


@contextmanager
def opened(folder: Path) -> Iterator[Check]:
    check = HttpCheck(folder)
    try:
        yield check
    finally:
        check.close()


TARGETS = (Target("http", "bytes on a connection to the HTTP process", streams, opened),)
