"""Whether anything has changed: the one thing that open pages ask for again and again."""

from __future__ import annotations

import hashlib

from zonesched.dashboard.layout import children
from zonesched.dashboard.visit import Data, Visit
from zonesched.services.catalog import dashboard_sessions


def show(visit: Visit) -> Data:
    """Return the text of the news."""
    return Data(text(visit).encode(), "text/plain")


def text(visit: Visit) -> str:
    """Return a text that changes with hosts, instances and boots, states of child zones, and the session."""
    states = [(child["id"], child["state"], child["last_error"]) for child in children(visit)]
    seen = (dashboard_sessions.stored_changes(visit.zone.store), states, visit.form_token)
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:16]
