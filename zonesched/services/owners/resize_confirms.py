"""Confirmation of resizes that have waited for `resize_confirm_window`, in the zone of their owners."""

from __future__ import annotations

import logging

from zonesched.errors import Conflict, NotFound
from zonesched.model.caller import Caller, Role
from zonesched.services.owners import actions
from zonesched.services.zone import Zone
from zonesched.store import instance_states
from zonesched.store.outages import log_failed, outage

log = logging.getLogger(__name__)

BATCH = 100
PAUSE_S = 10.0


def confirm_overdue(zone: Zone) -> float:
    """Confirm resizes whose time is over; return the seconds until the next look.

    An owner who decides at the same moment comes first or second: each is one write on the same generation.
    """
    if not zone.conf.resize_confirm_window:
        return PAUSE_S
    since = zone.clock.now() - zone.conf.resize_confirm_window
    refused = 0
    while True:
        skip = refused
        found = zone.store.read(
            lambda tx, skip=skip: instance_states.unconfirmed(  # type: ignore[misc]
                tx, zone.uuid, since, BATCH, skip, in_children=zone.conf.enable_zone_routing
            )
        )
        # What is refused stays the first that has waited: the next batch begins after it.
        refused += sum(not _confirm(zone, uuid, generation) for uuid, generation in found.items())
        if len(found) < BATCH:
            return PAUSE_S


def _confirm(zone: Zone, uuid: str, generation: int) -> bool:
    try:
        actions.confirm_resize(zone, Caller(zone.uuid, "", Role.ADMIN, ""), uuid, generation)
    except (Conflict, NotFound) as error:
        log.warning("the resize of %s is not confirmed: %s", uuid, error.message)
        return False
    except Exception as error:
        if outage(error):
            raise
        # Rows of this one that cannot be read, or a fault of this program: the others are not to blame.
        log_failed(f"the resize of {uuid} is not confirmed", error)
        return False
    return True
