"""The link from one page of a list to the next, as a client of the API reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit


def next_marker(page: Mapping[str, Any], noun: str) -> str:
    """Return the marker of the page of a list behind this one, "" behind the last.

    The link has it: a page for which a zone has searched long enough may be short, and even empty.

    >>> next_marker({"servers": [], "servers_links": [{"href": "http://zone/servers?marker=m1"}]}, "servers")
    'm1'
    """
    links = page.get(f"{noun}_links")
    return parse_qs(urlsplit(links[0]["href"]).query)["marker"][0] if links else ""
