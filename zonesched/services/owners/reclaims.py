"""Deletes that owners may take back for `reclaim_instance_interval`, and those that are due for good."""

from __future__ import annotations

from zonesched.errors import NotFound
from zonesched.model.caller import Caller, Role
from zonesched.services.owners import actions, servers
from zonesched.services.zone import Zone
from zonesched.store import soft_deleted
from zonesched.store.outages import log_failed, outage
from zonesched.store.store import Transaction

BATCH = 100
PAUSE_S = 10.0


def delete(zone: Zone, caller: Caller, uuid: str) -> None:
    """Delete an instance for its owner: softly where this zone has that, and something of it can be kept.

    Raises what `servers.delete` raises.
    """
    if not (zone.conf.reclaim_instance_interval and actions.soft_delete(zone, caller, uuid)):
        servers.delete(zone, caller, uuid)


class Reclaims:
    """Rounds through what may not be restored any more, a batch at a time: a process that is to end can."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._failed = 0

    def step(self) -> float:
        """Delete the next batch for good; return the seconds until the one after it.

        What was deleted while the option was set is reclaimed at its time, whatever the option is now.
        """
        zone, skip, now = self._zone, self._failed, self._zone.clock.now()
        found = zone.store.read(lambda tx: soft_deleted.due(tx, now, BATCH, skip))
        # What fails stays the first that has waited: the next batch begins after it.
        self._failed += sum(not _reclaim(zone, uuid) for uuid in found)
        if len(found) == BATCH:
            return 0.0
        self._failed = 0
        return PAUSE_S


def _reclaim(zone: Zone, uuid: str) -> bool:
    def check(tx: Transaction) -> None:
        """Raise NotFound where the owner has restored it meanwhile."""
        if not soft_deleted.is_due(tx, uuid, zone.clock.now()):
            raise NotFound("The server is not deleted any more.", code="instance_not_found")

    try:
        servers.delete(zone, Caller(zone.uuid, "", Role.ADMIN, ""), uuid, check=check)
    except NotFound:
        # Restored or gone meanwhile: the others of this round may wait for the next one.
        return False
    except Exception as error:
        if outage(error):
            raise
        # Rows of this one that cannot be read, or a fault of this program: the others are not to blame.
        log_failed(f"the server {uuid} is not reclaimed", error)
        return False
    return True
