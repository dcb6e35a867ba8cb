"""Times in OpenStack's two forms."""

from __future__ import annotations

from datetime import UTC, datetime


def iso_time(epoch_s: float) -> str:
    """Return UTC, to the second.

    >>> iso_time(1311771900.5)
    '2011-07-27T13:05:00Z'
    """
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def zoneless_time(epoch_s: float) -> str:
    """Return UTC without its offset, as clients read the times of aggregates and services.

    >>> zoneless_time(1311771900.5)
    '2011-07-27T13:05:00.500000'
    """
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
