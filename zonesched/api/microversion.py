"""Microversions of the API, negotiated with each request as in OpenStack Nova.

A request without a version gets the oldest. docs/microversions.md lists what changes with each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from zonesched.errors import BadRequest, NotAcceptable

HEADER, OLDER_HEADER = "OpenStack-API-Version", "X-OpenStack-Nova-API-Version"
SERVICE = "compute"
LATEST = "latest"
_NUMBER = re.compile(r"([1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,5})")


class RequestHeaders(Protocol):
    """Headers of a request, by name in any case."""

    def get(self, name: str, default: str, /) -> str: ...


@dataclass(frozen=True, order=True)
class Microversion:
    """2.`minor`, or a version that this API does not have."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    def has(self, minor: int) -> bool:
        """Tell whether this version has what came with 2.`minor`."""
        return self.minor >= minor


OLDEST = Microversion(2, 1)
NEWEST = Microversion(2, 98)


def negotiate(headers: RequestHeaders) -> Microversion:
    """Return the version that a request asks for.

    Raises BadRequest `microversion_invalid`, and NotAcceptable `microversion_unsupported` for one that this
    zone does not have.
    """
    asked, header = _asked(headers)
    if not asked:
        return OLDEST
    if asked == LATEST:
        return NEWEST
    number = _NUMBER.fullmatch(asked)
    if number is None:
        raise BadRequest(
            f"{header}: must name a version from {OLDEST} to {NEWEST}, or {LATEST}.",
            code="microversion_invalid",
            field=header,
        )
    version = Microversion(int(number[1]), int(number[2]))
    if not OLDEST <= version <= NEWEST:
        raise NotAcceptable(
            f"{header}: this zone has the versions {OLDEST} to {NEWEST}.",
            code="microversion_unsupported",
            field=header,
        )
    return version


@cache
def answer_headers(version: Microversion) -> Mapping[str, str]:
    """Headers of an answer in this version."""
    return {HEADER: f"{SERVICE} {version}", OLDER_HEADER: str(version), "Vary": f"{HEADER}, {OLDER_HEADER}"}


def _asked(headers: RequestHeaders) -> tuple[str, str]:
    """Return the version asked for, "" for none, and the header that names it.

    The newer header may name several services, of which this API is one.
    """
    for part in headers.get(HEADER, "").split(","):
        service, _, version = part.strip().partition(" ")
        if service.lower() == SERVICE:
            return version.strip() or "none", HEADER
    return headers.get(OLDER_HEADER, "").strip(), OLDER_HEADER
