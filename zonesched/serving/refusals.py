"""Answers of the serving process itself, without the application, in the API's form."""

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
    """Map an exception of gunicorn's parser to the API's error."""
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
    """Build the answer that refuses a request and ends its connection."""
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
"""Build the answer to a request that can neither have a thread nor wait for one."""
