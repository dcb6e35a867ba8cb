"""Convert faults to answers; no other module knows OpenStack's error bodies.

{"badRequest": {"code": 400, "message": "...", "error_code": "invalid_value", "field": "server.name"}}
"""

from __future__ import annotations

import logging
from typing import Any

from werkzeug.exceptions import HTTPException

from zonesched.api.answer import Answer
from zonesched.errors import BlobRefused, Kind, OverLimit, ZoneBusy, ZoneschedError
from zonesched.store.outages import database_fault, summary

log = logging.getLogger(__name__)

CHALLENGE = 'Basic realm="zonesched", charset="UTF-8"'

_KIND_OF_STATUS = {
    400: (Kind.BAD_REQUEST, "request_invalid", "The request cannot be understood."),
    404: (Kind.ITEM_NOT_FOUND, "url_unknown", "There is no such URL."),
    405: (Kind.BAD_METHOD, "method_unknown", "This URL does not take that method."),
    413: (Kind.TOO_LARGE, "body_too_large", "The body is too large."),
}


def answer_to(fault: ZoneschedError) -> Answer:
    """Return the answer for a fault. The reason of a refused blob goes to the log only."""
    if isinstance(fault, BlobRefused):
        log.warning("a build plan entry was refused: %s", fault.reason)
    answer = _answer(fault.kind, fault.message, fault.code, fault.field)
    if isinstance(fault, OverLimit | ZoneBusy):
        answer.body[fault.kind.body_name]["retryAfter"] = fault.retry_after_s
        answer.headers["Retry-After"] = str(fault.retry_after_s)
    return answer


def answer_to_http(error: HTTPException, request_id: str) -> Answer:
    """Return the answer to a request that the router refused; nothing of the request is repeated in it."""
    status = error.code or 500
    if status not in _KIND_OF_STATUS:
        return answer_to_crash(error, request_id)
    kind, code, message = _KIND_OF_STATUS[status]
    answer = _answer(kind, message, code)
    allowed = getattr(error, "valid_methods", None)
    if allowed:
        answer.headers["Allow"] = ", ".join(sorted(allowed))
    return answer


def answer_to_crash(error: Exception, request_id: str) -> Answer:
    """Return the answer to an unforeseen error; its text is only in the log, under the request id."""
    return answer_to(fault_of(error, request_id))


def fault_of(error: Exception, request_id: str) -> ZoneschedError:
    """Log an unforeseen error under the request id, and return the fault to answer with.

    While the database is down or its schema wrong, each request has one line in the log, not a traceback.
    """
    if fault := database_fault(error):
        log.error("%s failed: %s", request_id, summary(error))
        return fault
    log.error("%s failed: %s", request_id, type(error).__name__, exc_info=error)
    return ZoneschedError("The zone failed to answer this request.")


def _answer(kind: Kind, message: str, code: str, field: str = "") -> Answer:
    content: dict[str, Any] = {"code": kind.status, "message": message, "error_code": code, "field": field}
    headers: dict[str, str] = {}
    if kind is Kind.UNAUTHORIZED:
        headers["WWW-Authenticate"] = CHALLENGE
    return Answer(kind.status, {kind.body_name: content}, headers)
