"""The request that a parent's instance was sent with: stored, and compared with the one of a later call.

Entries are opened for one request. A repeat of a build may name another one: it opens none of them, and what
is left of them is for the first request alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from zonesched.model.desired_state import Desired, InstanceState
from zonesched.model.instance_flavor import InstanceFlavor
from zonesched.model.instance_image import AS_BOOTED, InstanceImage
from zonesched.model.present_request import as_now
from zonesched.model.request_spec import RequestSpec
from zonesched.model.request_wire import content_digest
from zonesched.store import instance_states, instances, reservations
from zonesched.store.instance_states import StoredState
from zonesched.store.instances import Instance
from zonesched.store.store import Transaction


def note(
    tx: Transaction,
    change: int,
    sent: RequestSpec,
    booted: RequestSpec,
    uuids: Sequence[str],
    rows: Mapping[str, Instance],
    now: float,
) -> None:
    """Note flavor and image of instances that come resized or rebuilt; their reservation has the boot's."""
    flavor, image = sent.flavor, sent.image
    own_flavor: InstanceFlavor = AS_BOOTED if booted.flavor == flavor else flavor
    own_image: InstanceImage = AS_BOOTED if booted.image == image else image
    if (own_flavor, own_image) != (AS_BOOTED, AS_BOOTED):
        desired = Desired(flavor=own_flavor, image=own_image)
        state = InstanceState(desired=desired, flavor=own_flavor, image=own_image)
        instance_states.write(tx, [StoredState(uuid, state, built_at=now) for uuid in uuids], known=())
    for uuid in uuids:
        if uuid in rows and rows[uuid].flavor_id != flavor.id:
            instances.set_flavor(tx, change, uuid, flavor)
        if uuid in rows and rows[uuid].image_key != sent.image_key:
            instances.set_image(tx, change, uuid, image)


def is_of_boot(called: RequestSpec, booted: RequestSpec) -> bool:
    """Tell whether a call is for the boot's request; some of its instances were resized or rebuilt since."""
    if booted is called:
        return True
    return _are_same(called, replace(booted, flavor=called.flavor, image=called.image))


def sent_with(tx: Transaction, caller_id: str, called: RequestSpec, uuids: Collection[str]) -> dict[str, int]:
    """Return those of a parent's instances that were sent with this request, and their present numbers."""
    rows = instances.read_by_uuid(tx, sorted(uuids))
    boots = reservations.specs(tx, sorted({row.reservation_id for row in rows.values()}))
    states = instance_states.read(tx, sorted(rows))
    found: dict[str, int] = {}
    for uuid, row in rows.items():
        booted = boots[row.caller_id, row.reservation_id]
        stored = as_now(booted, states[uuid].state) if uuid in states else booted
        if row.caller_id == caller_id and _are_same(called, stored):
            found[uuid] = row.attempt
    return found


def _are_same(one: RequestSpec, other: RequestSpec) -> bool:
    """Tell whether entries that open for one of two requests open for the other."""
    return one.project_id == other.project_id and content_digest(one) == content_digest(other)
