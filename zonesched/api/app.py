"""The Flask application of one zone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson
from flask import Flask, Response, g, request
from flask.globals import request_ctx
from werkzeug.exceptions import HTTPException

from zonesched import tracing
from zonesched.api import cors, errors
from zonesched.api.audit_log import AuditEntry, AuditLog, is_kept, timestamp
from zonesched.api.call import Site
from zonesched.api.dispatch import serve
from zonesched.api.host import read_host
from zonesched.api.metrics import ApiMetrics
from zonesched.api.microversion import OLDEST, answer_headers
from zonesched.api.openapi import document
from zonesched.api.profile import Profiling
from zonesched.api.project_url import path_of, take_project
from zonesched.api.route import Route
from zonesched.api.routing import routes_by_rule, url_map
from zonesched.api.schemas.fields import Limits
from zonesched.api.urls import URLS
from zonesched.errors import Forbidden, ZoneschedError
from zonesched.model.caller import Caller, Role
from zonesched.remote_services import is_loopback
from zonesched.seams import Clock
from zonesched.services.zone import Zone

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

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

SITE = "zonesched_site"
"""Key of the application's extensions under which other surfaces of the process find its Site."""

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class _Application(Flask):
    """Flask for functions that are no coroutines: it would look at each of them in every request.

    URLs may have a project id, which the rules know nothing of.
    """

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return func

    def wsgi_app(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        take_project(environ)
        return super().wsgi_app(environ, start_response)


def create_app(zone: Zone) -> Flask:
    """The application that serves a zone: every URL of the table at / and under /v2.1."""
    app = _Application("zonesched", static_folder=None)
    site = Site(
        zone=zone,
        limits=Limits.from_conf(zone.conf),
        metrics=ApiMetrics(),
        document=partial(_document, with_users=zone.conf.auth_strategy != "noauth"),
        audit_log=AuditLog(zone.conf.audit_log),
        profiling=Profiling(zone.clock.monotonic),
    )
    site.metrics.follow(zone)
    app.extensions[METRICS] = site.metrics
    app.extensions[SITE] = site
    app.url_map = url_map()
    app.view_functions = {rule: partial(_view, site, routes) for rule, routes in routes_by_rule().items()}
    _answer_faults(app)
    _follow(app, site)
    if zone.conf.auth_strategy == "noauth":
        log.warning("auth_strategy is noauth: everybody who reaches this zone is its admin")
        if not zone.conf.noauth_force:
            _answer_at_loopback_alone(app)
    app.before_request(lambda: read_host(request))
    return app


@cache
def _document(with_users: bool) -> bytes:
    return orjson.dumps(document(URLS, with_users=with_users))


def _view(site: Site, routes: Sequence[Route], /, **args: str) -> Response:
    g.route = routes[0].path
    # Not the proxy, which looks for it in the context of the thread at each access.
    return serve(site, routes, request_ctx.request, args).to_response()


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
        fault = errors.fault_of(error, g.request_id)
        g.code = fault.code
        return errors.answer_to(fault).to_response()


def _answer_at_loopback_alone(app: Flask) -> None:
    """Refuse calls that name another host.

    A page of any site can have its browser call this zone by the site's own name, once that leads to a
    loopback address, and read the answers: for the browser they are of the site.
    """

    @app.before_request
    def _() -> None:
        if not is_loopback(urlsplit(f"//{request.host}").hostname or ""):
            raise Forbidden(
                "Without authentication this zone answers only to localhost and loopback addresses.",
                code="host_not_loopback",
                field="Host",
            )


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
    claimed = g.claimed_name or _claimed_name()
    return AuditEntry(
        time=timestamp(clock.now()),
        request_id=g.request_id,
        user=g.caller.name if is_known else claimed[:255],
        role=g.caller.role.value if is_known else "",
        project_id=g.caller.project_id,
        address=request.remote_addr or "",
        method=request.method,
        path=path_of(request)[:1000],
        action=g.action,
        status=response.status_code,
        code=g.code,
    )


def _follow(app: Flask, site: Site) -> None:
    """Give each request an id, its caller's or a new one, and count and log it.

    Log lines hold patterns of URLs, never their parts.
    """
    clock, origins = site.zone.clock, site.zone.conf.cors_allowed_origins

    @app.before_request
    def _() -> Response | None:
        given = request.headers.get(tracing.HEADER, "")
        request_id = given if tracing.ACCEPTED.fullmatch(given) else f"req-{clock.new_uuid()}"
        tracing.begin(request_id)
        # Each attribute of the proxy would be looked up in the context of the thread.
        vars(g._get_current_object()).update(
            request_id=request_id,
            started_at=clock.monotonic(),
            version=OLDEST,
            route="",
            code="",
            action="",
            caller=NOBODY,
            claimed_name="",
        )
        return cors.answer_to_preflight(origins, request)

    @app.teardown_request
    def _(_error: BaseException | None) -> None:
        # What the thread does next is not for this request.
        tracing.begin("")

    @app.after_request
    def _(response: Response) -> Response:
        known = g._get_current_object()
        method, status, headers = request.method, response.status_code, response.headers
        seconds = clock.monotonic() - known.started_at
        site.metrics.count(known.route, method, status, seconds)
        if site.audit_log.is_on and is_kept(method, known.route, status):
            site.audit_log.write(_entry(clock, response))
        log.log(
            logging.DEBUG if _is_poll() and status < 400 else logging.INFO,
            "%s %s %s %.1f ms",
            method,
            known.route or "(unknown)",
            status,
            seconds * 1000,
        )
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
        headers.update(answer_headers(known.version))
        if origins:
            response.vary.add("Origin")
            headers.update(cors.answer_headers(origins, request))
        # No handler gives these, and to look for what is to be replaced takes longer than the rest.
        headers.add("x-openstack-request-id", known.request_id)
        headers.add("x-compute-request-id", known.request_id)
        return response
