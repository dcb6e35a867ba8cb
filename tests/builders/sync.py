"""One round of a zone's sync with its children."""

from __future__ import annotations

from zonesched.services.children import sync
from zonesched.services.children.returned import ready_ids
from zonesched.services.children.sync import Asked
from zonesched.services.zone import Zone


def ask_all(zone: Zone) -> Asked:
    """Ask each child of a zone once for its changes."""
    return sync.ask(zone, ready_ids(zone.children))
