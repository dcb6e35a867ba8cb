"""Tells the application about a request: its sender, its connection, whether its caller is still there."""

from __future__ import annotations

from typing import Any

from zonesched import turns
from zonesched.api.auth import CLIENT_CERTIFICATE, SENDER_LOG
from zonesched.api.call import IS_WANTED
from zonesched.model.sender import Kind
from zonesched.seams import SystemClock
from zonesched.serving.body_input import BodyInput, SenderLog
from zonesched.serving.connection import CallerPresence, ConnectionSocket
from zonesched.serving.senders import Senders

COMPUTING = {Kind.PERSON: 2, Kind.MACHINE: 3}
"""Requests of one sender that compute at the same time, by its kind. A parent zone has three calls of its
users under way, two of any one user: the third never waits for these."""

LARGE_COMPUTING = 1
"""Large requests of one sender that compute at the same time, beside the others."""


class RequestContext:
    """Completes the WSGI environments of one process."""

    def __init__(self, senders: Senders, clock: SystemClock) -> None:
        self._senders = senders
        self._clock = clock
        self._turns = {
            kind: turns.Turns(at_once, large=turns.Turns(LARGE_COMPUTING))
            for kind, at_once in COMPUTING.items()
        }

    def complete(self, environ: dict[str, Any]) -> None:
        """Add to the environment of a request what the application looks for."""
        sock: ConnectionSocket = environ["gunicorn.socket"]
        environ["wsgi.input"] = BodyInput(environ["wsgi.input"])
        if sock.is_secure:
            environ["wsgi.url_scheme"] = "https"
        environ[CLIENT_CERTIFICATE] = sock.has_client_certificate
        environ[IS_WANTED] = CallerPresence(sock, self._clock)
        authorization = environ.get("HTTP_AUTHORIZATION", "")
        environ[SENDER_LOG] = SenderLog(self._senders, self._turns, authorization)
