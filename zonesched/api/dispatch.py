"""Handling of one call.

    authenticate -> role -> version -> query and body, bounded and validated -> handler -> answer

Nothing of a body is read before its sender is known and may make the call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from flask import Request, g

from zonesched.api import cors, profile
from zonesched.api.answer import Answer
from zonesched.api.auth import EVERYBODY, authenticate
from zonesched.api.body import parse_object, read_body, read_query
from zonesched.api.call import IS_WANTED, Call, Site
from zonesched.api.links import Links
from zonesched.api.microversion import negotiate
from zonesched.api.project_url import check_project, mount_of, path_of
from zonesched.api.route import Route
from zonesched.api.schemas.fields import PRINTABLE, Schema
from zonesched.api.validation import validate
from zonesched.errors import Forbidden, NotFound
from zonesched.model.caller import Caller
from zonesched.model.work_deadline import always
from zonesched.store.outages import log_unreadable
from zonesched.store.store import StoreError

LONGEST_ARG = 255
NAME = re.compile(PRINTABLE)


def serve(site: Site, routes: Sequence[Route], request: Request, args: Mapping[str, str]) -> Answer:
    """Answer one request; `routes` are the table's lines for its URL and method, one per set of roles.

    Raises ZoneschedError for every refusal.
    """
    cors.check_page(site.zone.conf.cors_allowed_origins, request)
    try:
        route, caller = _admit(site, routes, request)
    except StoreError as error:
        if (answer := routes[0].without_rows) is None:
            raise
        log_unreadable(error)
        return answer()
    if not route.is_open and profile.is_wanted(request.headers, caller):
        return site.profiling.answer(lambda: _answer(site, route, caller, request, args))
    return _answer(site, route, caller, request, args)


def _answer(site: Site, route: Route, caller: Caller, request: Request, args: Mapping[str, str]) -> Answer:
    check_args(args)
    # Noted for the headers of the answer, which a refusal has as well.
    g.version = negotiate(request.headers)
    unverified_query = read_query(request, route.query.repeated)
    call = Call(
        site=site,
        caller=caller,
        args=args,
        body=None,
        query=validate(route.query, unverified_query, site.limits),
        unverified_body={},
        headers=request.headers,
        links=Links(
            f"{request.scheme}://{request.host}", path_of(request), unverified_query, mount_of(request)
        ),
        version=g.version,
        is_wanted=request.environ.get(IS_WANTED, always),
    )
    return route.handler(call) if route.body is None else _with_body(route, route.body, request, call)


def check_args(args: Mapping[str, str]) -> None:
    """Raise NotFound for a part of a path that no item can be named by."""
    if any(len(arg) > LONGEST_ARG or not NAME.fullmatch(arg) for arg in args.values()):
        raise NotFound("There is no such item.")


def _with_body(route: Route, schema: type[Schema], request: Request, call: Call) -> Answer:
    """Answer a call once its body is read, within the memory that bodies may take together."""
    site, conf = call.site, call.zone.conf
    limit = schema.body_limit.in_zone(site.limits.max_builds, conf.max_body_bytes)
    data = read_body(request, limit.bytes)
    with site.bodies.hold(call.caller, data):
        with site.bodies.parse(data):
            unverified_body = parse_object(data, limit.values)
            body = validate(schema, unverified_body, site.limits)
        if route.path.endswith("/action"):
            g.action = next(iter(unverified_body), "")
        return route.handler(replace(call, body=body, unverified_body=unverified_body))


def _admit(site: Site, routes: Sequence[Route], request: Request) -> tuple[Route, Caller]:
    if routes[0].is_open:
        return routes[0], EVERYBODY
    caller = authenticate(site.zone, request, {role for route in routes for role in route.roles})
    g.caller = caller
    check_project(request, caller)
    return permitted(site, routes, caller), caller


def permitted(site: Site, routes: Sequence[Route], caller: Caller) -> Route:
    """Return the route that an authenticated caller may take. Raises Forbidden."""
    if routes[0].is_admin_api and not site.zone.conf.allow_admin_api:
        raise Forbidden("This zone does not serve /zones.", code="admin_api_off")
    for route in routes:
        if caller.role in route.roles:
            if not route.is_served_to(caller.role):
                site.zone.restored.check_ended()
            return route
    raise Forbidden(f"The role {caller.role.value} may not make this call.", code="role_forbidden")
