"""Times in queries, in ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator

from zonesched.api.schemas.fields import Text, refusal


def epoch_s(text: str) -> float:
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
