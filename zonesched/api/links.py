"""Links and times in OpenStack's form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

PREFIX = "/v2.1"


@dataclass(frozen=True)
class Links:
    """Links of one answer: `base` is scheme and host for the caller, the rest is of its request."""

    base: str
    path: str
    query: Mapping[str, str | list[str]]

    def of(self, noun: str, id: str) -> list[dict[str, str]]:
        """An item's two links."""
        return [
            {"rel": "self", "href": f"{self.base}{PREFIX}/{noun}/{id}"},
            {"rel": "bookmark", "href": f"{self.base}/{noun}/{id}"},
        ]

    def next_page(self, marker: str) -> list[dict[str, str]]:
        """The link to the page after this one."""
        return [{"rel": "next", "href": f"{self.base}{self.path}?{self.next_query(marker)}"}]

    def next_query(self, marker: str) -> str:
        """The query of the page after this one: this one's, from behind the marker."""
        return urlencode({**self.query, "marker": marker}, doseq=True)


def iso_time(epoch_s: float) -> str:
    """UTC, to the second: 2011-07-27T13:05:00Z."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def zoneless_time(epoch_s: float) -> str:
    """UTC without its offset, as clients read the times of aggregates and services."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
