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


def reclaim_due(zone: Zone) -> float:
    """Delete for good what may not be restored any more; return the seconds until the next look.

    What was deleted while the option was set is reclaimed at its time, whatever the option is now.
    """
    refused = 0
    while True:
        skip, now = refused, zone.clock.now()
        found = zone.store.read(
            lambda tx, skip=skip, now=now: soft_deleted.due(  # type: ignore[misc]
                tx, now, BATCH, skip
            )
        )
        # What is refused stays the first that has waited: the next batch begins after it.
        refused += sum(not _reclaim(zone, uuid) for uuid in found)
        if len(found) < BATCH:
            return PAUSE_S


def _reclaim(zone: Zone, uuid: str) -> bool:
    def check(tx: Transaction) -> None:
        """Raise NotFound where the owner has restored it meanwhile."""
        if not soft_deleted.is_due(tx, uuid, zone.clock.now()):
            raise NotFound("The server is not deleted any more.", code="instance_not_found")

    try:
        servers.delete(zone, Caller(zone.uuid, "", Role.ADMIN, ""), uuid, check=check)
    except NotFound:
        pass
    except Exception as error:
        if outage(error):
            raise
        # Rows of this one that cannot be read, or a fault of this program: the others are not to blame.
        log_failed(f"the server {uuid} is not reclaimed", error)
        return False
    return True
