"""Answers that the serving process gives without the application, in the API's own form."""

from __future__ import annotations

from http import HTTPStatus

import orjson
from gunicorn.http import errors as http_errors

from zonesched.api.errors import answer_to
from zonesched.errors import (
    BadRequest,
    HeadersTooLarge,
    RequestTooSlow,
    UriTooLong,
    ZoneBusy,
    ZoneschedError,
)

RETRY_AFTER_S = 1


def fault_of(error: Exception) -> ZoneschedError:
    """The fault that stands for what gunicorn raised while it read a request."""
    match error:
        case http_errors.LimitRequestLine():
            return UriTooLong("The request line is too long.")
        case http_errors.LimitRequestHeaders():
            return HeadersTooLarge("The headers are too large.")
        case TimeoutError():
            return RequestTooSlow("The body did not come in time.", field="body")
        case _:
            return BadRequest("The request is not well-formed HTTP.", code="request_malformed")


def refusal(fault: ZoneschedError) -> bytes:
    """The whole answer that refuses a request and ends its connection."""
    answer = answer_to(fault)
    body = orjson.dumps(answer.body)
    headers = {
        "Connection": "close",
        "Content-Type": answer.media_type,
        "Content-Length": str(len(body)),
        **answer.headers,
    }
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body


LINE_TOO_LONG = refusal(UriTooLong("The request line is too long."))
HEAD_TOO_LARGE = refusal(HeadersTooLarge("The headers are too large."))
TOO_MANY = refusal(ZoneBusy("This zone has too much to do now.", RETRY_AFTER_S))
"""The answer to a request that can neither have a thread nor wait for one."""
