"""Cross-origin calls: which pages of other origins a browser lets call this zone.

A page sends the credentials that its user gave it. What a browser adds by itself, such as cookies, is never
allowed: `Access-Control-Allow-Credentials` is not sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flask import Request, Response

from zonesched import tracing
from zonesched.api.microversion import HEADER, OLDER_HEADER

METHODS = "GET, POST, PUT, DELETE"
REQUEST_HEADERS = ("Authorization", "Content-Type", "Idempotency-Key", HEADER, OLDER_HEADER, tracing.HEADER)
"""Headers that a page may send, beyond those that need no permission."""

ANSWER_HEADERS = ("Location", "Retry-After", "x-openstack-request-id", "x-compute-request-id", HEADER)
"""Headers that a page may read, beyond those that need no permission."""

PREFLIGHT_S = 600
"""Seconds for which a browser may keep the answer to a preflight."""


def answer_to_preflight(origins: Sequence[str], request: Request) -> Response | None:
    """Answer a browser that asks whether a page may make a call; None for every other request.

    It names no user, so it tells the same of every URL.
    """
    is_preflight = request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers
    if not is_preflight or not _is_allowed(origins, request):
        return None
    response = Response(status=204)
    response.headers["Access-Control-Allow-Methods"] = METHODS
    response.headers["Access-Control-Allow-Headers"] = ", ".join(REQUEST_HEADERS)
    response.headers["Access-Control-Max-Age"] = str(PREFLIGHT_S)
    return response


def answer_headers(origins: Sequence[str], request: Request) -> Mapping[str, str]:
    """Return the headers of an answer that let a page of an allowed origin read it."""
    if not _is_allowed(origins, request):
        return {}
    return {
        "Access-Control-Allow-Origin": request.headers["Origin"],
        "Access-Control-Expose-Headers": ", ".join(ANSWER_HEADERS),
    }


def _is_allowed(origins: Sequence[str], request: Request) -> bool:
    return request.headers.get("Origin", "") in origins
