"""The request of a parent's instance, for a parent that was restored from a copy and has forgotten it."""

from __future__ import annotations

from dataclasses import replace

from zonesched.errors import NotFound
from zonesched.model.caller import Caller
from zonesched.model.instance_flavor import flavor_of
from zonesched.model.named_boot import Requested
from zonesched.model.placement import COUNTED_STATUSES
from zonesched.services.zone import Zone
from zonesched.store import aliases, instance_states, instances, reservations
from zonesched.store.store import Transaction


def of_parent(zone: Zone, caller: Caller, uuid: str) -> Requested:
    """Read the request of this parent's instance, with its present flavor. Raises NotFound."""

    def fn(tx: Transaction) -> Requested | None:
        here = aliases.instance_uuids(tx, caller.user_id, [uuid]).get(uuid, uuid)
        row = instances.read_by_uuid(tx, [here]).get(here)
        if row is None or row.caller_id != caller.user_id or row.status not in COUNTED_STATUSES:
            return None
        boot = reservations.read_ids(tx, [row.reservation_id]).get((row.caller_id, row.reservation_id))
        if boot is None:
            return None
        state = instance_states.read(tx, [here]).get(here)
        flavor = (
            boot.spec.flavor if state is None else flavor_of(state.state.present_flavor, boot.spec.flavor)
        )
        return Requested(boot.id, replace(boot.spec, flavor=flavor))

    found = zone.store.read(fn)
    if found is None:
        raise NotFound("There is no such instance.", code="instance_not_found")
    return found
