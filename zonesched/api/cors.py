"""Cross-origin calls: which pages of other origins a browser lets call this zone.

A page sends the credentials that its user gave it. What a browser adds by itself, such as cookies, is never
allowed: `Access-Control-Allow-Credentials` is not sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from flask import Request, Response

from zonesched import tracing
from zonesched.api.microversion import HEADER, OLDER_HEADER
from zonesched.errors import Forbidden

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


def check_page(origins: Sequence[str], request: Request) -> None:
    """Raise Forbidden for a call that changes something and comes from a page of an origin that may not call.

    A browser asks no permission for a POST without a body, and adds the password that its user once typed.
    It says where the page is from; other programs do not.
    """
    is_safe = request.method in ("GET", "HEAD", "OPTIONS")
    if not is_safe and _is_of_another(request) and not _is_allowed(origins, request):
        raise Forbidden(
            "The page of another origin may not call this zone: its operator has to list the origin.",
            code="origin_not_allowed",
            field="Origin",
        )


def _is_of_another(request: Request) -> bool:
    # Over plain HTTP, and where they are older, browsers name the origin alone.
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is not None:
        return site not in ("same-origin", "none")
    return origin is not None and host_of(origin) != request.host


def host_of(origin: str) -> str:
    """Return host and port of an origin, "" for a text that is none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _is_allowed(origins: Sequence[str], request: Request) -> bool:
    return request.headers.get("Origin", "") in origins
