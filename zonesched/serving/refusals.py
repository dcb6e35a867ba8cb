"""Answers of the serving process itself, without the application, in the API's form."""

from __future__ import annotations

import logging
from http import HTTPStatus

import orjson
from gunicorn.http import errors as http_errors

from zonesched.api.errors import answer_to
from zonesched.errors import (
    BadRequest,
    ExpectationUnknown,
    HeadersTooLarge,
    RequestTooSlow,
    UriTooLong,
    ZoneBusy,
    ZoneschedError,
)
from zonesched.seams import Clock

log = logging.getLogger(__name__)

RETRY_AFTER_S = 1

LINE_TOO_LONG = UriTooLong("The request line is too long.")
HEAD_TOO_LARGE = HeadersTooLarge("The headers are too large.")
TOO_MANY = ZoneBusy("This zone has too much to do now.", RETRY_AFTER_S)
"""Fault of a request that can neither have a thread nor wait for one."""


def fault_of(error: Exception) -> ZoneschedError:
    """Map an exception of gunicorn's parser to the API's error."""
    match error:
        case http_errors.LimitRequestLine():
            return UriTooLong("The request line is too long.")
        case http_errors.LimitRequestHeaders():
            return HeadersTooLarge("The headers are too large.")
        case http_errors.ExpectationFailed():
            return ExpectationUnknown("Expect: this zone knows only 100-continue.", field="Expect")
        case TimeoutError():
            return RequestTooSlow("The body did not come in time.", field="body")
        case _:
            return BadRequest("The request is not well-formed HTTP.", code="request_malformed")


def refusal(fault: ZoneschedError, clock: Clock) -> bytes:
    """Build the answer that refuses a request and ends its connection; its request id goes to the log."""
    answer = answer_to(fault)
    request_id = f"req-{clock.new_uuid()}"
    log.info("%s refused before it was read: %s", request_id, fault.code)
    body = orjson.dumps(answer.body)
    headers = {
        "Connection": "close",
        "Content-Type": answer.media_type,
        "Content-Length": str(len(body)),
        "x-openstack-request-id": request_id,
        "x-compute-request-id": request_id,
        **answer.headers,
    }
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body
