"""Meaning of the status of a child's answer: done, or the child was busy, failed or refused the call."""

from __future__ import annotations

from zonesched.errors import (
    ChildBusy,
    ChildDatabaseAway,
    ChildFailed,
    ChildRefused,
    Conflict,
    DatabaseUnavailable,
    Kind,
    ZoneBusy,
)
from zonesched.zones import answers
from zonesched.zones.call import Reply

LONGEST_BUSY_S = 60
"""Maximum of seconds for which a busy child is not asked."""


def expect(reply: Reply, status: int) -> bytes:
    """Return the body of an answer with this status. Raises ChildBusy, ChildFailed and ChildRefused."""
    # A zone without its database is down, not busy: polls have to count that.
    if reply.status == 503 and answers.error_code(reply.body) == DatabaseUnavailable.code:
        raise ChildDatabaseAway
    if reply.status in (429, 503) and (wait_s := _retry_after_s(reply)):
        raise ChildBusy(wait_s)
    if reply.status >= 500:
        raise ChildFailed
    if reply.status != status:
        raise ChildRefused(reply.status)
    return reply.body


def has_too_much(reply: Reply) -> bool:
    """Tell whether the child is overloaded, or this zone over its quota there."""
    # Any proxy may answer 503; only a zone that has done nothing answers it in the API's form.
    if reply.status == 503:
        return answers.error_code(reply.body) == ZoneBusy.code
    return reply.status == 429 and answers.error_kind(reply.body) == Kind.OVER_LIMIT.body_name


def is_not_found(reply: Reply) -> bool:
    """Tell whether the child does not have the instance that was asked for."""
    # Any proxy may answer 404, and any zone or service of OpenStack in the API's form, below a wrong URL.
    return reply.status == 404 and answers.error_code(reply.body) == "instance_not_found"


def check_passed_on(reply: Reply) -> None:
    """Raise Conflict where the child, or a zone below it, passes no calls on to its child zones."""
    if reply.status == 409 and answers.error_code(reply.body) == "zone_routing_disabled":
        raise Conflict("A zone below passes no calls on to its child zones.", code="zone_routing_disabled")


def _retry_after_s(reply: Reply) -> int:
    """Return the seconds of Retry-After; 0 without a whole number."""
    seconds = reply.headers.get("Retry-After", "")
    return (
        min(int(seconds), LONGEST_BUSY_S)
        if seconds.isascii() and seconds.isdigit() and len(seconds) < 10
        else 0
    )
