"""Calls of one attacker: many at once, until its time is over, with a look into each answer."""

from __future__ import annotations

import base64
import http.client
import json
import random
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from .scene import Scene

Socket = socket.socket

ADDRESS = "127.0.0.66"
"""Address of attackers; other callers have another one, unless a proxy stands before the zones."""

SERVER_FAULT = 500
MAX_NOTES = 20


@dataclass(frozen=True)
class Answer:
    """Status and body; status 0 without an answer. `cookie`: the one that a browser sends back, or ""."""

    status: int
    body: bytes
    cookie: str = ""

    def json(self) -> Any:
        """The body as JSON, {} where it is none."""
        with suppress(ValueError):
            return json.loads(self.body)
        return {}


class Attacker:
    """An attacker of one role against one zone; thread-safe."""

    def __init__(self, scene: Scene, role: str, zone: str, seconds: float, seed: int) -> None:
        self.scene = scene
        self.role = role
        self.zone = zone
        self.rng = random.Random(seed)
        self.statuses: Counter[int] = Counter()
        self.leaks: set[str] = set()
        self.broken: list[str] = []
        self._ends_at = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._own = threading.local()
        self._forbidden = [text.encode() for text in scene.forbidden.get(role, ()) if text]

    # -- time ----------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends_at

    @property
    def left_s(self) -> float:
        return max(0.0, self._ends_at - time.monotonic())

    def pause(self, seconds: float) -> None:
        time.sleep(min(seconds, self.left_s))

    def at_once(self, threads: int, step: Callable[[int], object]) -> None:
        """Repeat `step` in so many threads until the time is over; it gets the thread's number."""

        def run(number: int) -> None:
            while not self.is_over:
                with suppress(OSError, http.client.HTTPException):
                    step(number)

        started = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(threads)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()

    # -- calls ---------------------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        zone: str = "",
        login: str | None = None,
        password: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 15.0,
        base: str = "/v2.1",
    ) -> Answer:
        """One call below `base`; a body of bytes is sent as it is. `login` names a role, "" for none.

        Without an answer the status is 0.
        """
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **self.credentials(login, password), **(headers or {})}
        connection = self._connection(zone or self.zone, timeout_s)
        try:
            connection.request(method, f"{base}{path}", content, sent)
            got = connection.getresponse()
            cookie = got.headers.get("Set-Cookie", "").partition(";")[0]
            answer = Answer(got.status, got.read(), cookie)
            self.look_at(answer.body, str(got.headers).encode())
        except (OSError, http.client.HTTPException):
            connection.close()
            answer = Answer(0, b"")
        self.count(answer, f"{method} {path.partition('?')[0]}")
        return answer

    def credentials(self, login: str | None = None, password: str | None = None) -> Mapping[str, str]:
        """The header of a role's user; of the attacker's own where none is named."""
        role = self.role if login is None else login
        if role not in self.scene.logins:
            return {}
        name, secret = self.scene.logins[role]
        return basic(name, secret if password is None else password)

    def socket(self, zone: str = "", timeout_s: float = 5.0) -> Socket:
        """A new connection for bytes of one's own, with TLS where the zone serves https."""
        where = urlsplit(self.scene.urls[zone or self.zone])
        made = self.raw_socket(zone, timeout_s)
        if where.scheme == "http":
            return made
        return self.tls().wrap_socket(made, server_hostname=where.hostname)

    def raw_socket(self, zone: str = "", timeout_s: float = 5.0) -> Socket:
        """A new connection before any handshake."""
        where = urlsplit(self.scene.urls[zone or self.zone])
        return socket.create_connection(
            (str(where.hostname), int(where.port or 0)), timeout_s, source_address=(ADDRESS, 0)
        )

    def head(self, method: str, path: str, *lines: str) -> bytes:
        """The head of a request with the attacker's credentials, ready to be sent."""
        own = [f"{name}: {value}" for name, value in self.credentials().items()]
        return "\r\n".join([f"{method} /v2.1{path} HTTP/1.1", "Host: zone", *own, *lines, "", ""]).encode()

    def _connection(self, zone: str, timeout_s: float) -> http.client.HTTPConnection:
        kept: dict[str, http.client.HTTPConnection] = self._own.__dict__.setdefault("connections", {})
        if zone not in kept:
            where = urlsplit(self.scene.urls[zone])
            given: dict[str, Any] = {"timeout": timeout_s, "source_address": (ADDRESS, 0)}
            if where.scheme == "https":
                kept[zone] = http.client.HTTPSConnection(
                    str(where.hostname), where.port, context=self.tls(), **given
                )
            else:
                kept[zone] = http.client.HTTPConnection(str(where.hostname), where.port, **given)
        return kept[zone]

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context of a client that trusts the zones."""
        return ssl.create_default_context(cafile=self.scene.ca_file)

    # -- findings ------------------------------------------------------------------------------------------

    def count(self, answer: Answer, what: str) -> None:
        """Count an answer; a fault of the zone is a broken promise."""
        with self._lock:
            self.statuses[answer.status] += 1
        if answer.status == SERVER_FAULT:
            self.broke(f"{what} is a 500")

    def look_at(self, *texts: bytes) -> None:
        """Search what the attacker received for what it must not read."""
        # One search for each is much faster than one expression for all.
        found = {one.decode() for text in texts for one in self._forbidden if one in text}
        with self._lock:
            self.leaks |= found

    def broke(self, what: str) -> None:
        """Note a promise that did not hold."""
        with self._lock:
            if what not in self.broken and len(self.broken) < MAX_NOTES:
                self.broken.append(what)

    def expect(self, is_so: bool, otherwise: str) -> None:
        if not is_so:
            self.broke(otherwise)


def basic(name: str, secret: str) -> Mapping[str, str]:
    """The header of these credentials."""
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()}
