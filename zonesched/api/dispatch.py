"""The life of one call: who asks, may they, what do they say, do it.

    authenticate -> role -> query and body, bounded and validated -> handler -> answer

Nothing of a body is read before its sender is known and may make the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flask import Request

from zonesched.api.answer import Answer
from zonesched.api.auth import EVERYBODY, authenticate
from zonesched.api.body import read_object, read_query
from zonesched.api.call import Call, Site
from zonesched.api.links import Links
from zonesched.api.urls import Route
from zonesched.api.validation import validate
from zonesched.errors import Forbidden, NotFound
from zonesched.model.caller import Caller

LONGEST_ARG = 255


def serve(site: Site, routes: Sequence[Route], request: Request, args: Mapping[str, str]) -> Answer:
    """The answer to one request; `routes` are the table's lines for its URL and method, one per set of roles.

    Raises ZoneschedError for every refusal.
    """
    route, caller = _admit(site, routes, request)
    if any(len(arg) > LONGEST_ARG or not arg.isprintable() for arg in args.values()):
        raise NotFound("There is no such item.")
    unverified_query = read_query(request)
    query = validate(route.query, unverified_query, site.limits)
    body, unverified_body = None, {}
    if route.body is not None:
        conf = site.zone.conf
        limit = route.body.body_limit.in_zone(conf.max_instances_per_request, conf.max_body_bytes)
        unverified_body = read_object(request, limit)
        body = validate(route.body, unverified_body, site.limits)
    return route.handler(
        Call(
            site=site,
            caller=caller,
            args=args,
            body=body,
            query=query,
            unverified_body=unverified_body,
            headers=request.headers,
            links=Links(request.host_url.rstrip("/"), request.path, unverified_query),
        )
    )


def _admit(site: Site, routes: Sequence[Route], request: Request) -> tuple[Route, Caller]:
    if routes[0].is_open:
        return routes[0], EVERYBODY
    caller = authenticate(site.zone, request, {role for route in routes for role in route.roles})
    if routes[0].is_admin_api and not site.zone.conf.allow_admin_api:
        raise Forbidden("This zone does not serve /zones.", code="admin_api_off")
    for route in routes:
        if caller.role in route.roles:
            return route, caller
    raise Forbidden(f"The role {caller.role.value} may not make this call.", code="role_forbidden")
