"""Links in OpenStack's form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

PREFIX = "/v2.1"


@dataclass(frozen=True)
class Links:
    """Links of one answer: `base` is scheme and host for the caller, the rest is of its request.

    `mount`: the path below which it was made, with the project id where its URL had one.
    """

    base: str
    path: str
    query: Mapping[str, str | list[str]]
    mount: str = PREFIX

    def of(self, noun: str, id: str) -> list[dict[str, str]]:
        """An item's two links."""
        return [
            {"rel": "self", "href": f"{self.base}{self.mount}/{noun}/{id}"},
            {"rel": "bookmark", "href": f"{self.base}/{noun}/{id}"},
        ]

    def next_page(self, marker: str) -> list[dict[str, str]]:
        """The link to the page after this one."""
        return [{"rel": "next", "href": f"{self.base}{self.path}?{self.next_query(marker)}"}]

    def next_query(self, marker: str) -> str:
        """The query of the page after this one: this one's, from behind the marker."""
        return urlencode({**self.query, "marker": marker}, doseq=True)
