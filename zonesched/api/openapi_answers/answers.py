"""All forms of answers, by operation and status."""

from __future__ import annotations

from collections.abc import Mapping

from zonesched.api.openapi_answers import catalog, hosts, projects, servers, zones
from zonesched.api.openapi_answers.forms import Form
from zonesched.api.route import Route

ANSWERS: Mapping[str, Form] = {
    **servers.ANSWERS,
    **catalog.ANSWERS,
    **hosts.ANSWERS,
    **projects.ANSWERS,
    **zones.ANSWERS,
}
"""Keys are an operation's id and a status, for instance `servers_show 200`."""


def form_of(route: Route, status: int) -> Form:
    """Return the form of a call's answer with a status."""
    return ANSWERS[f"{route.operation_id} {status}"]
