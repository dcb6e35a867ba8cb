"""The dashboard as a part of a zone's application: its URLs, sessions and faults.

visit -> session -> (of a form: origin, form token) -> page -> template
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from flask import Flask, Response, g, redirect, request
from werkzeug.routing import Map

from zonesched.api import errors
from zonesched.api.app import SITE
from zonesched.api.body import read_query
from zonesched.api.call import IS_WANTED, Site
from zonesched.api.routing import MatchingRule, url_rules
from zonesched.dashboard import render, sessions, unsent
from zonesched.dashboard.headers import HEADERS
from zonesched.dashboard.layout import surroundings
from zonesched.dashboard.pages import news
from zonesched.dashboard.table import PAGES, PageRoute
from zonesched.dashboard.visit import Data, Form, Page, Redirect, Result, Visit
from zonesched.errors import NotFound, Unauthorized, ZoneschedError
from zonesched.model.work_deadline import always
from zonesched.services.catalog import dashboard_sessions

SIGN_IN = f"{sessions.PATH}/sign-in"
SIGN_OUT = f"{sessions.PATH}/sign-out"
ASSET = f"{sessions.PATH}/assets/<name>"
OTHER = f"{sessions.PATH}/<path:rest>"
ASSET_AGE_S = 604_800
KEPT_FOR_BACK = "private, max-age=0"
"""Not no-store, with which a browser asks for another page when its reader goes back."""

LIVE = "HX-Request"
"""Header of a page's own script, which asks for a part of it again."""

View = Callable[..., Response]


def add_dashboard(app: Flask) -> None:
    """Serve the dashboard at /dashboard of a zone's application, unless its options say otherwise."""
    site: Site = app.extensions[SITE]
    if not site.zone.conf.allow_dashboard:
        return
    app.url_map = _url_map()
    own: dict[str, View] = {
        f"GET {SIGN_IN}": lambda: _show_sign_in(site),
        f"POST {SIGN_IN}": lambda: _sign_in(site),
        f"POST {SIGN_OUT}": lambda: _sign_out(site),
        f"GET {ASSET}": _asset,
        f"GET {OTHER}": lambda rest: _missing(),
    }
    for endpoint, view in own.items():
        app.view_functions[endpoint] = _safely(endpoint.partition(" ")[2], view)
    for page in PAGES:
        app.view_functions[page.endpoint] = _safely(page.path, _page_view(site, page))


@cache
def _url_map() -> Map:
    rules = [
        MatchingRule(path, methods=[method], endpoint=f"{method} {path}")
        for method, path in (
            ("GET", SIGN_IN),
            ("POST", SIGN_IN),
            ("POST", SIGN_OUT),
            ("GET", ASSET),
            ("GET", OTHER),
        )
    ]
    rules += [MatchingRule(page.path, methods=[page.method], endpoint=page.endpoint) for page in PAGES]
    return Map([*url_rules(), *rules], strict_slashes=False, merge_slashes=False)


def _safely(path: str, view: View) -> View:
    """Wrap a view: with the headers of the dashboard, and pages for its faults."""

    def answer(**args: str) -> Response:
        g.route = path
        try:
            response = view(**args)
        except Unauthorized as fault:
            g.code = fault.code
            response = _to_sign_in()
        except ZoneschedError as fault:
            g.code = fault.code
            response = _fault_page(fault)
        except Exception as error:
            unforeseen = errors.fault_of(error, g.request_id)
            g.code = unforeseen.code
            response = _fault_page(unforeseen)
        for name, value in HEADERS.items():
            response.headers[name] = value
        return response

    return answer


def _page_view(site: Site, page: PageRoute) -> View:
    def view(**args: str) -> Response:
        g.caller = caller = sessions.visitor(site.zone, request)
        form_token = dashboard_sessions.form_token(sessions.token_of(site.zone, request))
        form = Form()
        if page.method == "POST":
            sessions.check_origin(request)
            g.form = form = sessions.read_form(request)
            sessions.check_form_token(form, form_token)
        visit = Visit(
            site=site,
            caller=caller,
            form_token=form_token,
            args=args,
            query=_query(),
            form=form,
            base_url=request.host_url.rstrip("/"),
            is_wanted=request.environ.get(IS_WANTED, always),
        )
        # Asked first: what changes while the page is read is news to it.
        seen = news.text(visit) if page.is_live else ""
        return _response(visit, page.handler(visit), seen)

    return view


def _response(visit: Visit, result: Result, seen: str) -> Response:
    match result:
        case Redirect(to):
            return _redirect(to)
        case Data(content, media_type):
            return Response(content, content_type=media_type)
        case Page(template, values, status, is_kept):
            response = _html(template, {**surroundings(visit), "seen": seen, **values}, status)
            if is_kept:
                response.headers["Cache-Control"] = KEPT_FOR_BACK
            return response


def _html(template: str, values: dict[str, Any], status: int = 200) -> Response:
    return Response(render.html(template, values), status=status, content_type="text/html; charset=utf-8")


def _redirect(to: str) -> Response:
    response = redirect(to, 303)
    assert isinstance(response, Response)
    return response


def _query() -> dict[str, str]:
    """Return the query's parameters. Raises BadRequest for one that is given twice."""
    return {name: str(value) for name, value in read_query(request).items()}


def _to_sign_in() -> Response:
    """Send a reader to the sign-in, and then back; a page's own script leaves the page for it."""
    if request.headers.get(LIVE):
        return Response(status=401)
    if request.path in (SIGN_IN, SIGN_OUT):
        # Neither is a page to come back to.
        return _redirect(SIGN_IN)
    back = unsent.page_of(request) if request.method == "POST" else request.full_path.rstrip("?")
    return _redirect(render.with_query(SIGN_IN, {}, next=back))


def _fault_page(fault: ZoneschedError) -> Response:
    answer = errors.answer_to(fault)
    # What has failed in the zone may have been carried out.
    form_page = unsent.page_of(request) if "form" in g and answer.status < 500 else ""
    values = {
        "code": fault.code,
        "message": fault.message,
        "request_id": g.request_id,
        "form_page": form_page,
    }
    response = _html("fault.html", values, answer.status)
    for name in answer.headers:
        if name == "Retry-After":
            response.headers[name] = answer.headers[name]
    return response


def _missing() -> Response:
    raise NotFound("There is no such page.", code="url_unknown")


def _asset(name: str) -> Response:
    media_type = render.ASSETS.get(name)
    if media_type is None:
        return _missing()
    response = Response(render.asset(name), content_type=f"{media_type}; charset=utf-8")
    response.headers["Cache-Control"] = f"public, max-age={ASSET_AGE_S}, immutable"
    return response


def _show_sign_in(site: Site) -> Response:
    query = _query()
    values = {"fault": None, "link": query.get("link", ""), "next": query.get("next", ""), "user": ""}
    return _sign_in_page(site, values)


def _sign_in_page(site: Site, values: Mapping[str, Any], status: int = 200) -> Response:
    is_open = site.zone.conf.auth_strategy == "noauth"
    shown = {**values, "is_open": is_open, "next": sessions.own_path(values["next"])}
    return _html("sign_in.html", shown, status)


def _sign_in(site: Site) -> Response:
    zone = site.zone
    sessions.check_origin(request)
    form = sessions.read_sign_in(request)
    g.action = "sign_in"
    g.claimed_name = form.get("user")
    try:
        if form.get("link"):
            g.caller, session = dashboard_sessions.follow_link(zone, form.get("link"))
        else:
            g.caller = caller = sessions.check_password(zone, request, form)
            session = dashboard_sessions.sign_in(zone, caller)
    except ZoneschedError as fault:
        return _refused_sign_in(site, form, fault)
    if earlier := sessions.token_of(zone, request):
        # The browser gets another token in its place: nobody could end it.
        dashboard_sessions.sign_out(zone.store, earlier)
    response = _redirect(sessions.own_path(form.get("next")))
    sessions.begin(zone, request, response, session)
    return response


def _refused_sign_in(site: Site, form: Form, fault: ZoneschedError) -> Response:
    g.code = fault.code
    answer = errors.answer_to(fault)
    values = {"fault": fault, "link": "", "next": form.get("next"), "user": form.get("user")}
    response = _sign_in_page(site, values, answer.status)
    if "Retry-After" in answer.headers:
        response.headers["Retry-After"] = answer.headers["Retry-After"]
    return response


def _sign_out(site: Site) -> Response:
    zone = site.zone
    g.caller = sessions.visitor(zone, request)
    g.action = "sign_out"
    sessions.check_origin(request)
    token = sessions.token_of(zone, request)
    sessions.check_form_token(sessions.read_form(request), dashboard_sessions.form_token(token))
    dashboard_sessions.sign_out(zone.store, token)
    response = _redirect(SIGN_IN)
    # Back shows no page of whoever has signed out.
    response.headers["Clear-Site-Data"] = '"cache"'
    sessions.end(zone, request, response)
    return response
