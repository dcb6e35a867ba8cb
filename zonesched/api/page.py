"""Pages of lists that a call has in hand as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from zonesched.api.call import Call
from zonesched.errors import BadRequest

T = TypeVar("T")


def page_of(call: Call, found: Sequence[T], id_of: Callable[[T], str]) -> tuple[Sequence[T], str]:
    """Return the items behind the query's `marker`, at most `limit`, and the marker of the next page.

    That is "" at the end. Raises BadRequest for a marker that names no item.
    """
    marker, limit = call.query.marker, call.query.limit
    if marker:
        at = next((n for n, one in enumerate(found, start=1) if id_of(one) == marker), 0)
        if not at:
            raise BadRequest("marker names no item of the list.", code="marker_unknown", field="marker")
        found = found[at:]
    return found[:limit], id_of(found[limit - 1]) if 0 < limit < len(found) else ""
