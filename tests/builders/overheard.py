"""A wiretap of zones: every byte of every answer to a parent, and every line of every log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests

from tests.builders.wsgi_transport import WsgiAdapter


@dataclass(frozen=True)
class Said:
    """One answer of the zone at `url`."""

    url: str
    method: str
    path: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def bytes(self) -> bytes:
        """All of it, as it went over the wire."""
        lines = [str(self.status), *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body


class RecordingNetwork(WsgiAdapter):
    """A network that keeps what was answered; and knows which zone is at work: `at_work` is its URL."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[Said] = []
        self._working: list[str] = []

    @property
    def at_work(self) -> str:
        return self._working[-1] if self._working else ""

    @contextmanager
    def working(self, url: str) -> Iterator[None]:
        """In this block the zone at `url` does something by itself."""
        self._working.append(url)
        try:
            yield
        finally:
            self._working.pop()

    def _deliver(self, app: Any, request: requests.PreparedRequest) -> requests.Response:
        parts = urlsplit(str(request.url))
        url = f"{parts.scheme}://{parts.netloc}"
        with self.working(url):
            response = super()._deliver(app, request)
        body = response.raw.read()
        response.raw.seek(0)
        headers = tuple(sorted(response.headers.items()))
        self.said.append(Said(url, str(request.method), parts.path, response.status_code, headers, body))
        return response


class LogsByZone(logging.Handler):
    """Every log record of the package, formatted with its trace, under the zone that was at work."""

    def __init__(self, network: RecordingNetwork) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[tuple[str, str]] = []
        self._network = network

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((self._network.at_work, self.format(record)))

    @contextmanager
    def listening(self) -> Iterator[LogsByZone]:
        """In this block all levels are heard."""
        logger = logging.getLogger("zonesched")
        level = logger.level
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self)
        try:
            yield self
        finally:
            logger.removeHandler(self)
            logger.setLevel(level)
