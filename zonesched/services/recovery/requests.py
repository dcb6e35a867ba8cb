"""The request of a parent's instance, for a parent whose rows were put back from a copy."""

from __future__ import annotations

from zonesched.errors import NotFound
from zonesched.model.caller import Caller
from zonesched.model.desired_state import NEW
from zonesched.model.named_boot import GivenBack, ImageAndFlavor, Requested
from zonesched.model.placement import COUNTED_STATUSES
from zonesched.services.zone import Zone
from zonesched.store import aliases, instance_states, instances, reservations
from zonesched.store.store import Transaction


def of_parent(zone: Zone, caller: Caller, uuid: str) -> GivenBack:
    """Read the request of this parent's instance, and its image and flavor since. Raises NotFound."""

    def fn(tx: Transaction) -> GivenBack | None:
        here = aliases.instance_uuids(tx, caller.user_id, [uuid]).get(uuid, uuid)
        row = instances.read_by_uuid(tx, [here]).get(here)
        if row is None or row.caller_id != caller.user_id or row.status not in COUNTED_STATUSES:
            return None
        boot = reservations.read_ids(tx, [row.reservation_id]).get((row.caller_id, row.reservation_id))
        if boot is None:
            return None
        stored = instance_states.read(tx, [here]).get(here)
        state = NEW if stored is None else stored.state
        return GivenBack(
            Requested(boot.id, boot.spec),
            settled=ImageAndFlavor(state.image, state.flavor),
            desired=ImageAndFlavor(state.desired.image, state.desired.flavor),
        )

    found = zone.store.read(fn)
    if found is None:
        raise NotFound("There is no such instance.", code="instance_not_found")
    return found
