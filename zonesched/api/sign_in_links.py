"""One-time links that sign their user in to the dashboard."""

from __future__ import annotations

from zonesched.api.answer import Answer
from zonesched.api.call import Call
from zonesched.services.catalog import dashboard_sessions

PATH = "/dashboard/sign-in"


def create(call: Call) -> Answer:
    """Make a link that signs the caller in to the dashboard once."""
    made = dashboard_sessions.new_link(call.zone, call.caller)
    return Answer(201, {"sign_in_link": {"path": f"{PATH}?link={made.token}", "expires_in": made.lasts_s}})
