"""Whether anything has changed: the one thing that open pages ask for again and again."""

from __future__ import annotations

from zonesched.dashboard.layout import children
from zonesched.dashboard.visit import Data, Visit
from zonesched.services.catalog import dashboard_sessions


def show(visit: Visit) -> Data:
    """Return the text of the news."""
    return Data(text(visit).encode(), "text/plain")


def text(visit: Visit) -> str:
    """Return a text that changes with what the reader may see, states of child zones, and the session."""
    states = [(child["id"], child["state"], child["last_error"]) for child in children(visit)]
    return dashboard_sessions.news(visit.zone, visit.caller, (states, visit.form_token))
