"""Identity of a visitor: the cookie of the session, and the proof that a form came from a page of it."""

from __future__ import annotations

import hmac
from urllib.parse import parse_qs

from flask import Request, Response

from zonesched.api import cors
from zonesched.api.auth import SENDER_LOG, SenderLog
from zonesched.dashboard.visit import Form
from zonesched.errors import BadRequest, Forbidden, TooLarge
from zonesched.model.caller import Caller
from zonesched.services.catalog import dashboard_sessions, users
from zonesched.services.catalog.dashboard_sessions import NOAUTH, NewToken
from zonesched.services.zone import Zone

PATH = "/dashboard"
FORM_TYPE = "application/x-www-form-urlencoded"
MAX_FORM_BYTES = 64 * 1024
MAX_FIELDS = 200

MAX_STRANGERS_FORM_BYTES = 16 * 1024
"""Max bytes of a form of somebody who is not signed in. The server has all of it before a thread has it."""

FORM_TOKEN = "form_token"
OF_ONE_PAGE = frozenset({FORM_TOKEN, "key", "do"})
"""Fields of forms that are not their reader's."""


def cookie_name(zone_uuid: str) -> str:
    """Return the cookie of this zone: zones on other ports of a host get each other's cookies."""
    return f"zonesched-{zone_uuid[:8]}"


def token_of(zone: Zone, request: Request) -> str:
    """Return the token of the request's session, "" without one."""
    return request.cookies.get(cookie_name(zone.uuid), "")


def visitor(zone: Zone, request: Request) -> Caller:
    """Return who is signed in. Raises Unauthorized."""
    caller = dashboard_sessions.caller_of(zone, token_of(zone, request))
    _tell_server(request, caller)
    return caller


def check_password(zone: Zone, request: Request, form: Form) -> Caller:
    """Return the user of a sign-in form, with the limits of the API for wrong passwords.

    Raises Unauthorized, OverLimit and ZoneBusy.
    """
    if zone.conf.auth_strategy == "noauth":
        return NOAUTH
    password = form.exact("password")
    caller = users.authenticate(zone, form.get("user"), password, request.remote_addr or "")
    _tell_server(request, caller)
    return caller


def begin(zone: Zone, request: Request, response: Response, session: NewToken) -> None:
    """Give the browser its session."""
    response.set_cookie(
        cookie_name(zone.uuid),
        session.token,
        max_age=int(session.lasts_s),
        path=PATH,
        secure=request.is_secure,
        httponly=True,
        samesite="Strict",
    )


def end(zone: Zone, request: Request, response: Response) -> None:
    """Take the session from the browser."""
    response.delete_cookie(
        cookie_name(zone.uuid), path=PATH, secure=request.is_secure, httponly=True, samesite="Strict"
    )


def comes_at_once(request: Request) -> bool:
    """Tell whether a stranger's form may be read: a thread does not have to wait for its bytes."""
    length = request.content_length
    return length is not None and length <= MAX_STRANGERS_FORM_BYTES and "Expect" not in request.headers


def read_form(request: Request) -> Form:
    """Return the fields of a form. Raises BadRequest, TooLarge."""
    if request.mimetype != FORM_TYPE:
        raise BadRequest(f"Content-Type must be {FORM_TYPE}.", code="form_invalid", field="Content-Type")
    data = request.stream.read(MAX_FORM_BYTES + 1)
    if len(data) > MAX_FORM_BYTES:
        raise TooLarge(f"The form is larger than {MAX_FORM_BYTES} bytes.", field="body")
    try:
        fields = parse_qs(data.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise BadRequest("The form cannot be read.", code="form_invalid", field="body") from None
    if any("\0" in text for name, values in fields.items() for text in (name, *values)):
        raise BadRequest("The form has a NUL character.", code="form_invalid", field="body")
    return Form(fields)


def read_sign_in(request: Request) -> Form:
    """Return the fields of a sign-in form. Raises as `read_form`."""
    if not comes_at_once(request):
        raise BadRequest(
            f"The form must have a Content-Length up to {MAX_STRANGERS_FORM_BYTES} bytes and no Expect.",
            code="form_invalid",
            field="Content-Length",
        )
    return read_form(request)


def check_origin(request: Request) -> None:
    """Raise Forbidden for a form that another site has sent."""
    origin = request.headers.get("Origin")
    elsewhere = origin is not None and cors.host_of(origin) != request.host
    if elsewhere or request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden("The form was sent by another site.", code="form_refused")


def check_form_token(form: Form, expected: str) -> None:
    """Raise Forbidden for a form that is not of a page of this session."""
    if not hmac.compare_digest(form.get(FORM_TOKEN).encode(), expected.encode()):
        raise Forbidden("The form is not of this session: load its page again.", code="form_refused")


def own_path(unverified: str) -> str:
    """Return a page of the dashboard to go to after the sign-in; the first one for anything else."""
    is_own = unverified.startswith(f"{PATH}/") and "\\" not in unverified and unverified.isprintable()
    return unverified if is_own else f"{PATH}/"


def _tell_server(request: Request, caller: Caller) -> None:
    log: SenderLog | None = request.environ.get(SENDER_LOG)
    if log is not None:
        log.accept(caller)
