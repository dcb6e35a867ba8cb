"""Faults that a caller of a zone can meet, each with a stable code.

A fault has a kind (OpenStack's name of the error body, which decides the HTTP status) and a code of this
project that never changes. "No host fits" and "a child is late" are results with reasons, not faults.
"""

from __future__ import annotations

import enum


class Kind(enum.Enum):
    """OpenStack's names of error bodies, with the HTTP status each stands for."""

    BAD_REQUEST = ("badRequest", 400)
    UNAUTHORIZED = ("unauthorized", 401)
    FORBIDDEN = ("forbidden", 403)
    ITEM_NOT_FOUND = ("itemNotFound", 404)
    BAD_METHOD = ("badMethod", 405)
    NOT_ACCEPTABLE = ("computeFault", 406)
    CONFLICTING_REQUEST = ("conflictingRequest", 409)
    GONE = ("computeFault", 410)
    REQUEST_TIMEOUT = ("requestTimeout", 408)
    TOO_LARGE = ("requestEntityTooLarge", 413)
    URI_TOO_LONG = ("requestURITooLong", 414)
    EXPECTATION_FAILED = ("expectationFailed", 417)
    OVER_LIMIT = ("overLimit", 429)
    HEADERS_TOO_LARGE = ("requestHeadersTooLarge", 431)
    CALLER_GONE = ("clientClosedRequest", 499)
    COMPUTE_FAULT = ("computeFault", 500)
    SERVICE_UNAVAILABLE = ("serviceUnavailable", 503)

    def __init__(self, body_name: str, status: int) -> None:
        self.body_name = body_name
        self.status = status


class ZoneschedError(Exception):
    """A fault with a stable code; `field` names the input it is about ("" where there is none)."""

    kind = Kind.COMPUTE_FAULT
    code = "internal_error"

    def __init__(self, message: str, *, code: str = "", field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.field = field


class BadRequest(ZoneschedError):
    """The input cannot be honoured; the message names the field and the accepted values."""

    kind = Kind.BAD_REQUEST
    code = "invalid_value"


class FilterUnknown(BadRequest):
    """The request names a host filter, or needs one, that this zone does not have."""

    code = "filter_unknown"

    def __init__(self, message: str, *, filter_name: str, field: str) -> None:
        super().__init__(message, field=field)
        self.filter_name = filter_name


class Unauthorized(ZoneschedError):
    """No valid credentials came with the request."""

    kind = Kind.UNAUTHORIZED
    code = "unauthorized"


class Forbidden(ZoneschedError):
    """The caller is known and may not do this."""

    kind = Kind.FORBIDDEN
    code = "forbidden"


class NotFound(ZoneschedError):
    """There is no such item, or none that this caller may see."""

    kind = Kind.ITEM_NOT_FOUND
    code = "not_found"


class NotAcceptable(ZoneschedError):
    """The request asks for a version of the API that this zone does not have."""

    kind = Kind.NOT_ACCEPTABLE
    code = "microversion_unsupported"


class Conflict(ZoneschedError):
    """The request contradicts what is stored."""

    kind = Kind.CONFLICTING_REQUEST
    code = "conflict"


class Gone(ZoneschedError):
    """OpenStack has removed the call; a zone never had it."""

    kind = Kind.GONE
    code = "call_removed"


class TooLarge(ZoneschedError):
    """The body is larger than this zone reads."""

    kind = Kind.TOO_LARGE
    code = "body_too_large"


class UriTooLong(ZoneschedError):
    """The request line is longer than this zone reads."""

    kind = Kind.URI_TOO_LONG
    code = "uri_too_long"


class ExpectationUnknown(ZoneschedError):
    """The header Expect asks for something else than 100-continue."""

    kind = Kind.EXPECTATION_FAILED
    code = "expectation_unknown"


class HeadersTooLarge(ZoneschedError):
    """The headers are larger or more numerous than this zone reads."""

    kind = Kind.HEADERS_TOO_LARGE
    code = "headers_too_large"


class RequestTooSlow(ZoneschedError):
    """The body did not arrive in time."""

    kind = Kind.REQUEST_TIMEOUT
    code = "request_too_slow"


class CallerGone(ZoneschedError):
    """The caller has closed its connection, so the rest of the work is not done and nobody reads this."""

    kind = Kind.CALLER_GONE
    code = "caller_gone"

    def __init__(self) -> None:
        super().__init__("The caller has closed the connection.")


class Unavailable(ZoneschedError):
    """The zone cannot serve the call now, but can later."""

    kind = Kind.SERVICE_UNAVAILABLE
    code = "unavailable"


class ZoneBusy(Unavailable):
    """The zone has more work queued than it can do soon; retry after `retry_after_s` seconds."""

    code = "zone_busy"

    def __init__(self, message: str, retry_after_s: int, *, code: str = "") -> None:
        super().__init__(message, code=code)
        self.retry_after_s = retry_after_s


class OverLimit(ZoneschedError):
    """The caller or its project exceeds a quota or a rate limit; `retry_after_s` as for ZoneBusy."""

    kind = Kind.OVER_LIMIT

    def __init__(self, message: str, retry_after_s: int, *, code: str, field: str = "") -> None:
        super().__init__(message, code=code, field=field)
        self.retry_after_s = retry_after_s


class NotReady(ZoneBusy):
    """The zone has started and does not know enough to answer yet."""

    code = "not_ready"


class DatabaseFull(ZoneBusy):
    """The database has no space for more rows: nothing was written, and reads go on."""

    code = "database_full"


class DatabaseUnavailable(ZoneBusy):
    """The database is down, or not to be reached or written now; it is not known whether a write was made."""

    code = "database_unavailable"


class DatabaseSchemaWrong(ZoneschedError):
    """The database lacks a table or a column of this version: that passes only when an operator mends it."""

    kind = Kind.SERVICE_UNAVAILABLE
    code = "database_schema_wrong"


class BlobRefused(ZoneschedError):
    """A sealed entry does not open; a caller cannot tell one reason from another.

    `reason` is for the zone's own log and never part of an answer.
    """

    kind = Kind.BAD_REQUEST
    code = "blob_refused"

    def __init__(self, reason: str) -> None:
        super().__init__("The build plan entry cannot be used.", field="blob")
        self.reason = reason


class ConfigError(ZoneschedError):
    """The configuration cannot be used; the message names the option and the accepted values."""

    code = "config_invalid"


class WeighingUnknown(ZoneschedError):
    """The request names a weighing or a weigher that this zone does not have."""

    code = "weighing_unknown"


class LeaseLost(ZoneschedError):
    """A later lease of this reservation exists; the worker with the older one changes nothing more."""

    code = "lease_lost"


class ChildUnreachable(ZoneschedError):
    """A child zone gave no usable answer in time: it is dead, late, or its answer is invalid.

    `code` is one of child_timeout, child_unreachable, child_tls_failed, child_invalid_answer, child_refused,
    child_failed, child_database_unavailable, child_busy; the message never holds anything of the child's
    reply.
    """

    code = "child_unreachable"


class ChildRefused(ChildUnreachable):
    """A child zone refused the call; `status`: the HTTP status of its answer."""

    code = "child_refused"

    def __init__(self, status: int) -> None:
        super().__init__("The child zone refused the call.")
        self.status = status


class ChildFailed(ChildUnreachable):
    """A child zone answered that the call failed in it."""

    code = "child_failed"

    def __init__(self) -> None:
        super().__init__("The child zone failed to answer the call.")


class ChildDatabaseAway(ChildFailed):
    """A child zone answered that its database cannot be used now: it will answer again by itself."""

    code = "child_database_unavailable"


class ChildBusy(ChildUnreachable):
    """A child zone is overloaded, or limits this zone's requests; retry after `retry_after_s` seconds."""

    code = "child_busy"

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("The child zone is busy.")
        self.retry_after_s = retry_after_s
