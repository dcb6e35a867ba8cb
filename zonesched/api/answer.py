"""The answer of a handler, before it becomes an HTTP response."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson
from flask import Response


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
        response = Response(data, status=self.status, content_type=self.media_type if data else None)
        response.headers.update(self.headers)
        if not data:
            response.headers.pop("Content-Type", None)
        return response


NO_CONTENT = 204


def ok(body: Any) -> Answer:
    return Answer(200, body)


def accepted(body: Any, **headers: str) -> Answer:
    return Answer(202, body, dict(headers))


def no_content() -> Answer:
    return Answer(NO_CONTENT)
