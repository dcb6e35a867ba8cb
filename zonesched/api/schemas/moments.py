"""Times in queries, in ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime
from math import nextafter
from typing import Annotated

from pydantic import AfterValidator

from zonesched.api.schemas.fields import Text, refusal

FIRST_S = 1e-6
"""The first microsecond after 1970 began, in epoch seconds: nothing in a zone is older, and 0 is no time."""
HALF_MICROSECOND_S = 5e-7
"""Times are shown to the nearest microsecond, or to the second."""
LAST_S = 253_402_300_799.0
"""The last second of 9999, in epoch seconds: no later time can be shown."""


def epoch_s(text: str) -> float:
    """Read a time as `exact_epoch_s` does; one before FIRST_S or after LAST_S as these."""
    return min(max(exact_epoch_s(text), FIRST_S), LAST_S)


def since_s(text: str) -> float:
    """Return the first moment that is shown as this time, in epoch seconds; 0 for no time."""
    return max(epoch_s(text) - HALF_MICROSECOND_S, FIRST_S) if text else 0.0


def until_s(text: str) -> float:
    """Return the last moment that is shown as this time, in epoch seconds; 0 for no time.

    A server shows whole seconds, as OpenStack Nova keeps them: a whole second is asked for to its end.
    """
    if not text:
        return 0.0
    moment = epoch_s(text)
    return nextafter(moment + 1.0, 0.0) if moment.is_integer() else moment + HALF_MICROSECOND_S


def exact_epoch_s(text: str) -> float:
    """Read a time in ISO 8601, in UTC where it names no zone, as epoch seconds."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise refusal("invalid_value", "must be a time such as 2026-01-01T00:00:00Z") from None


def _moment(text: str) -> str:
    if text:
        epoch_s(text)
    return text


Moment = Annotated[Text, AfterValidator(_moment)]
"""A time, or nothing."""
