"""Queries of /os-simple-tenant-usage."""

from __future__ import annotations

from zonesched.api.schemas.fields import (
    LONGEST_PAGE,
    LenientQuery,
    PageLimit,
    QueryBool,
    Text,
)
from zonesched.api.schemas.moments import Moment, epoch_s


class UsageQuery(LenientQuery):
    """A period, by default the four weeks until tomorrow; `detailed` lists the servers of each project."""

    start: Moment = ""
    end: Moment = ""
    detailed: QueryBool = False
    limit: PageLimit = LONGEST_PAGE
    marker: Text = ""

    def start_s(self) -> float:
        """Return the start in epoch seconds, 0 where it is not given."""
        return epoch_s(self.start) if self.start else 0.0

    def end_s(self) -> float:
        """Return the end in epoch seconds, 0 where it is not given."""
        return epoch_s(self.end) if self.end else 0.0
