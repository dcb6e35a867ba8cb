"""Authentication: HTTP Basic against the zone's own users, or `noauth`, which takes the caller's word."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Protocol

from flask import Request

from zonesched.errors import BadRequest, Forbidden, Unauthorized
from zonesched.model.caller import Caller, Role
from zonesched.services.catalog import users
from zonesched.services.zone import Zone
from zonesched.zones.client import ROLE_HEADER

SENDER_LOG = "zonesched.sender_log"
"""Key of a request's WSGI environment under which a server may leave a SenderLog."""


CLIENT_CERTIFICATE = "zonesched.client_certificate"
"""Key of a request's WSGI environment: whether the caller has shown a certificate that was verified."""


class SenderLog(Protocol):
    """The server's interest in whose request it is: it shares out threads and memory by it."""

    def accept(self, caller: Caller) -> None:
        """The credentials are this user's."""

    def refuse(self) -> None:
        """Record that the credentials belong to no user."""


EVERYBODY = Caller(user_id="noauth", name="noauth", role=Role.ADMIN, project_id="noauth")
"""The one user of a zone with `noauth`: an admin, except for calls of another role."""


def authenticate(zone: Zone, request: Request, may_call: Collection[Role]) -> Caller:
    """Return the user whose credentials came with the request.

    Raises Unauthorized, the same for all reasons, OverLimit, ZoneBusy, and Forbidden for a parent without
    the certificate that it needs. With `noauth` it is one user for all, in the role that the caller names,
    else in one that may make the call.
    """
    caller = _user(zone, request, may_call)
    if caller.role is Role.PARENT and zone.conf.tls_client_ca_file and not _has_certificate(request):
        raise Forbidden(
            "A parent needs a certificate that an authority of tls_client_ca_file has signed.",
            code="client_certificate_needed",
        )
    return caller


def _has_certificate(request: Request) -> bool:
    return bool(request.environ.get(CLIENT_CERTIFICATE, False))


def _user(zone: Zone, request: Request, may_call: Collection[Role]) -> Caller:
    if zone.conf.auth_strategy == "noauth":
        return replace(EVERYBODY, role=_unverified_role(request) or _own_role(may_call))
    name, password = _presented(request)
    log: SenderLog | None = request.environ.get(SENDER_LOG)
    try:
        caller = users.authenticate(zone, name, password, request.remote_addr or "")
    except Unauthorized:
        if log is not None:
            log.refuse()
        raise
    if log is not None:
        log.accept(caller)
    return caller


def _presented(request: Request) -> tuple[str, str]:
    """Return the user name and password of the header. Raises Unauthorized."""
    try:
        given = request.authorization
    except ValueError:
        # The header is not ASCII.
        given = None
    if given is None or given.type != "basic" or not given.username or given.password is None:
        raise Unauthorized("Credentials are needed (HTTP Basic).")
    return given.username, given.password


def _unverified_role(request: Request) -> Role | None:
    """Return the role that the caller names, if any. Raises BadRequest for an unknown one."""
    name = request.headers.get(ROLE_HEADER)
    if name is None:
        return None
    try:
        return Role(name)
    except ValueError:
        accepted = ", ".join(role.value for role in Role)
        raise BadRequest(f"{ROLE_HEADER}: one of {accepted}.", field=ROLE_HEADER) from None


def _own_role(may_call: Collection[Role]) -> Role:
    """Return admin where an admin may make the call, else the role that it is for."""
    return next(role for role in Role if role in may_call)
