"""A server that answers as it is told to and keeps what it was asked: for what only calls a zone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    method: str
    path: str
    params: dict[str, list[str]]
    authorization: str | None
    headers: dict[str, str]
    body: Any


@dataclass
class StubZone:
    """`answers` by method and path below /v2.1: (status, JSON or bytes), the last of them again and again."""

    url: str = ""
    answers: dict[tuple[str, str], Any] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def answer(self, method: str, path: str, *answers: tuple[int, Any]) -> None:
        self.answers[method, path] = list(answers)

    def next_answer(self, method: str, path: str) -> tuple[int, Any]:
        listed = self.answers.get((method, path))
        if not listed:
            return 404, {"itemNotFound": {"code": 404, "message": f"no {path}", "error_code": "url_unknown"}}
        found: tuple[int, Any] = listed.pop(0) if len(listed) > 1 else listed[0]
        return found


def fault(status: int, code: str, message: str = "It cannot be done.") -> tuple[int, Any]:
    """An answer in the form of OpenStack's errors."""
    return status, {"badRequest": {"code": status, "message": message, "error_code": code, "field": ""}}


@contextmanager
def running_stub() -> Iterator[StubZone]:
    """A stub that listens on loopback until the block ends."""
    stub = StubZone()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            url = urlsplit(self.path)
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = url.path.removeprefix("/v2.1")
            stub.asked.append(
                Asked(
                    self.command,
                    path,
                    parse_qs(url.query),
                    self.headers.get("Authorization"),
                    dict(self.headers),
                    json.loads(raw) if raw else None,
                )
            )
            status, content = stub.next_answer(self.command, path)
            sent = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            if status in (301, 302):
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(0 if status == 204 else len(sent)))
            self.end_headers()
            if status != 204:
                self.wfile.write(sent)

        do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Nothing: standard error is what the tests look at."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
