"""WSGI input of the application, and the log of the senders that it authenticates."""

from __future__ import annotations

from typing import Any

from gunicorn.http.errors import ParseException

from zonesched.model.caller import Caller
from zonesched.model.sender import sender_of
from zonesched.serving.refusals import fault_of
from zonesched.serving.senders import Senders


class BodyInput:
    """`wsgi.input` that raises the API's own errors.

    Raises BadRequest for a malformed or incomplete body, RequestTooSlow for a late one.
    """

    def __init__(self, body: Any) -> None:
        self._body = body

    def read(self, size: int = -1) -> bytes:
        try:
            return bytes(self._body.read(size))
        except (ParseException, OSError) as error:
            raise fault_of(error) from error


class SenderLog:
    """The `zonesched.api.auth.SenderLog` of one request."""

    def __init__(self, senders: Senders, authorization: str) -> None:
        self._senders = senders
        self._authorization = authorization.encode("latin-1")

    def accept(self, caller: Caller) -> None:
        """Record that the credentials are this user's."""
        if self._authorization:
            self._senders.accept(self._authorization, sender_of(caller))

    def refuse(self) -> None:
        """Record that the credentials are invalid."""
        if self._authorization:
            self._senders.refuse(self._authorization)
