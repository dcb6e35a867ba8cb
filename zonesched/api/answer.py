"""The answer of a handler, before it becomes an HTTP response."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
from flask import Response
from werkzeug.datastructures import Headers

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

NO_CONTENT, NOT_MODIFIED = 204, 304
URLS = ("Location", "Content-Location")
"""Headers that werkzeug makes absolute."""


class _Complete(Response):
    """Response with all its headers: werkzeug copies and looks through those of each answer otherwise."""

    def get_wsgi_headers(self, environ: WSGIEnvironment) -> Headers:
        if self.status_code in (NO_CONTENT, NOT_MODIFIED) or any(name in self.headers for name in URLS):
            return super().get_wsgi_headers(environ)
        return self.headers


@dataclass
class Answer:
    """A status, a JSON body (bytes go out as they are) and headers."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    media_type: str = "application/json"

    def to_response(self) -> Response:
        match self.body:
            case None:
                data = b""
            case bytes():
                data = self.body
            case _:
                data = orjson.dumps(self.body)
        response = _Complete(data, status=self.status, content_type=self.media_type if data else None)
        response.headers.update(self.headers)
        if not data:
            response.headers.pop("Content-Type", None)
        return response


def ok(body: Any) -> Answer:
    return Answer(200, body)


def accepted(body: Any, **headers: str) -> Answer:
    return Answer(202, body, dict(headers))


def no_content() -> Answer:
    return Answer(NO_CONTENT)
