"""The host that a caller names: links of answers lead there, and pages of this zone come from there."""

from __future__ import annotations

from flask import Request
from werkzeug.sansio.utils import get_host

from zonesched.errors import BadRequest


def read_host(request: Request) -> None:
    """Set the request's host where its name has underscores, as names of containers have.

    Raises BadRequest for a Host that is none, and for HTTP/1.1 without a Host (RFC 9112, 3.2).
    """
    named = request.headers.get("Host")
    if named is not None and not request.host:
        # werkzeug knows no underscores; it leaves out the usual port at the end.
        request.host = named[: len(get_host(request.scheme, named.replace("_", "-")))]
    is_left_out = named is None and request.environ["SERVER_PROTOCOL"] != "HTTP/1.0"
    if is_left_out or not request.host:
        raise BadRequest("Host: must be a name or an address.", code="request_malformed", field="Host")
