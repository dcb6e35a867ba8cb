"""Who asks: HTTP Basic against the zone's own users, or everybody as admin without authentication."""

from __future__ import annotations

from flask import Request

from zonesched.errors import Unauthorized
from zonesched.model.caller import Caller, Role
from zonesched.services import users
from zonesched.services.zone import Zone

EVERYBODY = Caller(user_id="noauth", name="noauth", role=Role.ADMIN, project_id="noauth")


def authenticate(zone: Zone, request: Request) -> Caller:
    """The user whose credentials came with the request. Raises Unauthorized, the same for all reasons."""
    if zone.conf.auth_strategy == "noauth":
        return EVERYBODY
    given = request.authorization
    if given is None or given.type != "basic" or not given.username or given.password is None:
        raise Unauthorized("Credentials are needed (HTTP Basic).")
    return users.authenticate(zone, given.username, given.password)
