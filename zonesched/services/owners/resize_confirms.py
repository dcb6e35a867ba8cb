"""Confirmation of resizes that have waited for `resize_confirm_window`, in the zone of their owners."""

from __future__ import annotations

import logging

from zonesched.errors import ZoneschedError
from zonesched.model.caller import Caller, Role
from zonesched.services.owners import actions
from zonesched.services.zone import Zone
from zonesched.store import instance_states

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
    passes_on = zone.conf.enable_zone_routing
    found = zone.store.read(
        lambda tx: instance_states.unconfirmed(tx, zone.uuid, since, BATCH, in_children=passes_on)
    )
    caller = Caller(zone.uuid, "", Role.ADMIN, "")
    for uuid, generation in found.items():
        try:
            actions.confirm_resize(zone, caller, uuid, generation)
        except ZoneschedError as error:
            log.warning("the resize of %s is not confirmed: %s", uuid, error.message)
    return 0.0 if len(found) == BATCH else PAUSE_S
