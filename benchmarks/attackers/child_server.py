"""A child zone that is played: honest until it is told to behave otherwise."""

from __future__ import annotations

import json
import re
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PREFIX = "/v2.1"
CONTROL = "/control/"
"""Path of the benchmark's own calls: PUT /control/MOOD sets the behaviour and answers what was heard."""

MAX_HEAD = 65_536
TLS_RECORD = b"\x16"
"""First byte of a handshake."""


@dataclass(frozen=True)
class Question:
    """A call of the parent zone."""

    method: str
    path: str
    body: Any

    @property
    def kind(self) -> str:
        """The call by a short name: info, select, build, confirm, cancel, changes, audit, server."""
        path = self.path.partition("?")[0]
        match self.method, path.strip("/").split("/"):
            case _, ["zones", kind]:
                return kind
            case _, ["servers"]:
                return "build"
            case _, ["reservations"]:
                return "changes"
            case _, ["reservations", _, step]:
                return step
            case _, ["audit"]:
                return "audit"
        return "server"


Answering = Callable[[str, Question, threading.Event], Iterable[bytes]]
"""Returns the pieces of an answer by mood and question; the event ends it."""


def http_answer(content: object, status: str = "200 OK", *headers: str) -> bytes:
    """A whole answer; content that is not bytes is sent as JSON."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class PlayedChild(socketserver.ThreadingTCPServer):
    """Listens on a port of loopback and answers as its mood says; with a certificate it serves https too."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self, port: int, forbidden: Sequence[str], answering: Answering, certificate: Path | None = None
    ) -> None:
        super().__init__(("127.0.0.1", port), _Conversation)
        self.tls: ssl.SSLContext | None = None
        if certificate is not None:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(certificate)
        self.answering = answering
        self.mood = "honest"
        self.asked: dict[str, int] = {}
        self.leaks: set[str] = set()
        self.over = threading.Event()
        self._forbidden = [one.encode() for one in forbidden if one]

    def set_mood(self, mood: str) -> None:
        """Behave differently from now on; answers under way end."""
        self.over.set()
        self.over = threading.Event()
        self.mood = mood
        self.asked = {}

    def look_at(self, text: bytes) -> None:
        self.leaks |= {one.decode() for one in self._forbidden if one in text}


class _Conversation(socketserver.BaseRequestHandler):
    server: PlayedChild

    def handle(self) -> None:
        self.request.settimeout(30)
        with suppress(OSError):
            # The benchmark's own calls are plain HTTP.
            if self.server.tls is not None and self.request.recv(1, socket.MSG_PEEK) == TLS_RECORD:
                self.request = self.server.tls.wrap_socket(self.request, server_side=True)
            while question := self._read():
                self._answer(question)

    def _read(self) -> Question | None:
        received = b""
        while b"\r\n\r\n" not in received:
            piece = self.request.recv(65536)
            if not piece or len(received) > MAX_HEAD:
                return None
            received += piece
        head, _, body = received.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        while len(body) < int(length[1] if length else 0):
            piece = self.request.recv(65536)
            if not piece:
                return None
            body += piece
        method, path = head.split(b" ", 2)[:2]
        if not path.startswith(CONTROL.encode()):
            self.server.look_at(head + body)
        return Question(method.decode(), path.decode().removeprefix(PREFIX), json.loads(body) if body else {})

    def _answer(self, question: Question) -> None:
        if question.path.startswith(CONTROL):
            if question.method == "PUT":
                self.server.set_mood(question.path.removeprefix(CONTROL))
            self.request.sendall(
                http_answer({"leaks": sorted(self.server.leaks), "asked": self.server.asked})
            )
            return
        self.server.asked[question.kind] = self.server.asked.get(question.kind, 0) + 1
        over = self.server.over
        for piece in self.server.answering(self.server.mood, question, over):
            if over.is_set():
                break
            self.request.sendall(piece)
        if over.is_set():
            # Its caller would wait for the rest of the answer as long as it may.
            raise ConnectionAbortedError
