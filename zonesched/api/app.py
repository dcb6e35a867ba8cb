"""The Flask application of one zone."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import orjson
from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map, Rule

from zonesched import tracing
from zonesched.api import errors
from zonesched.api.audit_log import AuditEntry, AuditLog, is_kept, timestamp
from zonesched.api.call import Site
from zonesched.api.dispatch import serve
from zonesched.api.metrics import ApiMetrics
from zonesched.api.microversion import OLDEST, answer_headers
from zonesched.api.openapi import document
from zonesched.api.schemas.fields import Limits
from zonesched.api.urls import URLS, Route
from zonesched.errors import ZoneschedError
from zonesched.model.caller import Caller, Role
from zonesched.seams import Clock
from zonesched.services.zone import Zone

log = logging.getLogger(__name__)

POLLED = frozenset(
    {"/health", "/readiness", "/metrics", "/zones/info"}
    | {"/hosts/beat", "/hosts/instances", "/hosts/claims"}
)
"""Paths that machines poll: they are logged at debug level, or they would bury all other lines."""

NOBODY = Caller(user_id="", name="", role=Role.MONITOR, project_id="")
"""Stands for the caller of a request until it is authenticated."""

METRICS = "zonesched_metrics"
"""Key of the application's extensions under which a server finds the ApiMetrics, to add its own."""

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def create_app(zone: Zone) -> Flask:
    """The application that serves a zone: every URL of the table at / and under /v2.1."""
    app = Flask("zonesched", static_folder=None)
    site = Site(
        zone=zone,
        limits=Limits(max_instances=zone.conf.max_instances_per_request),
        metrics=ApiMetrics(),
        document=_document(with_users=zone.conf.auth_strategy != "noauth"),
        audit_log=AuditLog(zone.conf.audit_log),
    )
    site.metrics.follow(zone)
    app.extensions[METRICS] = site.metrics
    app.url_map = _url_map()
    app.view_functions = {f"{method} {path}": _view(site, r) for (method, path), r in _routes().items()}
    _answer_faults(app)
    _follow(app, site)
    if zone.conf.auth_strategy == "noauth":
        log.warning("auth_strategy is noauth: everybody who reaches this zone is its admin")
    return app


@cache
def _routes() -> Mapping[tuple[str, str], Sequence[Route]]:
    """The routes of each method and path, one per set of roles."""
    found: defaultdict[tuple[str, str], list[Route]] = defaultdict(list)
    for route in URLS:
        for mount in route.mounts:
            found[route.method, mount + route.path].append(route)
    return found


@cache
def _url_map() -> Map:
    # One for all zones of a process: to compile the rules takes longer than all else that an app is made of.
    rules = [
        Rule(path.replace("{", "<").replace("}", ">"), methods=[method], endpoint=f"{method} {path}")
        for method, path in _routes()
    ]
    return Map(rules, strict_slashes=False, merge_slashes=False)


@cache
def _document(with_users: bool) -> bytes:
    return orjson.dumps(document(URLS, with_users=with_users))


def _view(site: Site, routes: Sequence[Route]) -> Callable[..., Response]:
    def view(**args: str) -> Response:
        g.route = routes[0].path
        return serve(site, routes, request, args).to_response()

    return view


def _answer_faults(app: Flask) -> None:
    @app.errorhandler(ZoneschedError)
    def _(fault: ZoneschedError) -> Response:
        g.code = fault.code
        return errors.answer_to(fault).to_response()

    @app.errorhandler(HTTPException)
    def _(error: HTTPException) -> Response:
        return errors.answer_to_http(error, g.request_id).to_response()

    @app.errorhandler(Exception)
    def _(error: Exception) -> Response:
        return errors.answer_to_crash(error, g.request_id).to_response()


def _is_poll() -> bool:
    is_sync = g.route == "/reservations" and g.caller.role is Role.PARENT
    return g.route in POLLED or is_sync


def _claimed_name() -> str:
    """Return the user name that came with the request, "" without a readable one."""
    try:
        given = request.authorization
    except ValueError:
        return ""
    return (given.username or "") if given is not None else ""


def _entry(clock: Clock, response: Response) -> AuditEntry:
    is_known = g.caller is not NOBODY
    claimed = _claimed_name()
    return AuditEntry(
        time=timestamp(clock.now()),
        request_id=g.request_id,
        user=g.caller.name if is_known else claimed[:255],
        role=g.caller.role.value if is_known else "",
        project_id=g.caller.project_id,
        address=request.remote_addr or "",
        method=request.method,
        path=request.path[:1000],
        action=g.action,
        status=response.status_code,
        code=g.code,
    )


def _follow(app: Flask, site: Site) -> None:
    """Give each request an id, its caller's or a new one, and count and log it.

    Log lines hold patterns of URLs, never their parts.
    """
    clock = site.zone.clock

    @app.before_request
    def _() -> None:
        given = request.headers.get(tracing.HEADER, "")
        g.request_id = given if tracing.ACCEPTED.fullmatch(given) else f"req-{clock.new_uuid()}"
        tracing.begin(g.request_id)
        g.started_at = clock.monotonic()
        g.version = OLDEST
        g.route = g.code = g.action = ""
        g.caller = NOBODY

    @app.teardown_request
    def _(_error: BaseException | None) -> None:
        # What the thread does next is not for this request.
        tracing.begin("")

    @app.after_request
    def _(response: Response) -> Response:
        seconds = clock.monotonic() - g.started_at
        site.metrics.count(g.route, request.method, response.status_code, seconds)
        if is_kept(request.method, g.route, response.status_code):
            site.audit_log.write(_entry(clock, response))
        log.log(
            logging.DEBUG if _is_poll() and response.status_code < 400 else logging.INFO,
            "%s %s %s %.1f ms",
            request.method,
            g.route or "(unknown)",
            response.status_code,
            seconds * 1000,
        )
        response.headers.update(HEADERS)
        response.headers.update(answer_headers(g.version))
        response.headers["x-openstack-request-id"] = g.request_id
        response.headers["x-compute-request-id"] = g.request_id
        return response
