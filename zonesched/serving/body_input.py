"""WSGI input of the application, and the log of the senders that it authenticates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gunicorn.http.errors import ParseException

from zonesched.model.caller import Caller
from zonesched.model.sender import Kind, sender_of
from zonesched.serving.refusals import fault_of
from zonesched.serving.senders import Senders
from zonesched.turns import Turns, waiting


class BodyInput:
    """`wsgi.input` that raises the API's own errors.

    Raises BadRequest for a malformed or incomplete body, RequestTooSlow for a late one.
    """

    def __init__(self, body: Any) -> None:
        self._body = body

    def read(self, size: int = -1) -> bytes:
        try:
            with waiting():
                return bytes(self._body.read(size))
        except (ParseException, OSError) as error:
            raise fault_of(error) from error


class SenderLog:
    """The `zonesched.api.auth.SenderLog` of one request, which also begins its turn."""

    def __init__(self, senders: Senders, turns: Mapping[Kind, Turns], authorization: str) -> None:
        self._senders = senders
        self._turns = turns
        self._authorization = authorization.encode("latin-1")

    def accept(self, caller: Caller) -> None:
        """Record that the credentials are this user's, and wait for the user's turn."""
        sender = sender_of(caller)
        if self._authorization:
            self._senders.accept(self._authorization, sender)
        self._turns[sender.kind].begin(sender)

    def refuse(self) -> None:
        """Record that the credentials are invalid."""
        if self._authorization:
            self._senders.refuse(self._authorization)
