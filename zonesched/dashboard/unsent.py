"""Forms that were not carried out: their page again, with what was typed in its fields."""

from __future__ import annotations

from flask import Request, g

from zonesched.dashboard import render, sessions
from zonesched.dashboard.visit import Form
from zonesched.errors import ZoneschedError

UNSENT = "unsent"
"""Parameter of a form's page: the button of the form that was not carried out."""

PASSWORD = "password"
"""Field of forms that no URL has in it."""

BUTTON = "do"
LONGEST_KEPT = 1000
"""Characters of a form's fields that go through the sign-in: the line of a request is limited, and escapes
take three times as many."""


def page_of(request: Request) -> str:
    """Return the page of the form that was sent, filled in with its fields if they fit into a URL."""
    form = _sent(request)
    if form is None:
        return request.path
    button = {UNSENT: form.get(BUTTON)}
    not_readers = {*sessions.OF_ONE_PAGE, UNSENT, PASSWORD}
    typed = {name: form.get(name) for name in form.unverified if name not in not_readers}
    filled = render.with_query(request.path, {**typed, **button})
    return filled if len(filled) <= LONGEST_KEPT else render.with_query(request.path, button)


def _sent(request: Request) -> Form | None:
    """Return the form of this request, None for one of another site and for one that cannot be read."""
    try:
        sessions.check_origin(request)
        if "form" not in g and sessions.comes_at_once(request):
            g.form = sessions.read_form(request)
    except ZoneschedError:
        return None
    form: Form | None = g.get("form")
    return form
