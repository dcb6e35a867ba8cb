"""Instances that have lost their places while they were wanted: placed anew, or reported to their parent.

Nothing of them runs at the old place, or ever will: an operator who has fenced its host, or the child zone
that had it, says so. No driver carries anything over, so the new place may be in any zone, as after an
unshelve.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from zonesched import tracing
from zonesched.model.action_table import at_new_place
from zonesched.model.desired_state import Desired
from zonesched.model.observed_state import Observed, Power
from zonesched.model.placement import LIVING_STATUSES, InstanceStatus
from zonesched.services.life.observing import observe
from zonesched.services.life.shelving import place_again
from zonesched.store import instance_actions, instance_states, instances
from zonesched.store.instance_actions import Count, InstanceAction
from zonesched.store.instance_states import StoredState
from zonesched.store.instances import Instance
from zonesched.store.placements import Placement
from zonesched.store.store import Transaction

EVACUATED = "host_evacuated"
"""Reason code of a place whose host was evacuated, and of the actions that this has ended."""

REBUILD_ELSEWHERE = "rebuild_elsewhere"
"""Key of a server's metadata; with the value `false` the server rests instead of being placed anew."""


def leave(
    tx: Transaction,
    change: int,
    zone_uuid: str,
    lost: Sequence[Placement],
    now: float,
    *,
    user_id: str,
    resting: Collection[str] = (),
) -> list[Instance]:
    """Take the living instances from these, their present places; return those that are placed anew.

    The instances are locked. Those of this zone's own users are handed to the workers of their boots, unless
    they are in `resting`, or their owner wants them to rest or has deleted them. Those of parents rest, and
    the parents place them. `user_id`: of the action on them.
    """
    keys = {place.key for place in lost}
    rows = instances.read_by_uuid(tx, sorted({place.uuid for place in lost}))
    living = [
        row for row in rows.values() if (row.uuid, row.attempt) in keys and row.status in LIVING_STATUSES
    ]
    uuids = [row.uuid for row in living]
    states = instance_states.read(tx, uuids)
    known = {row.uuid: states.get(row.uuid, StoredState(row.uuid)).state.desired for row in living}
    deleted = {uuid for uuid, row in states.items() if row.state.reclaim_at}
    instances.set_status(tx, change, uuids, InstanceStatus.OFFLOADED, now, only_from=LIVING_STATUSES)
    seen = [
        (uuid, Observed(desired.generation, Power.OFFLOADED, EVACUATED, desired.rebuilds))
        for uuid, desired in known.items()
    ]
    observe(tx, change, seen, {row.uuid: row.updated_at for row in living}, now)
    own = [
        row
        for row in living
        if row.caller_id == zone_uuid and row.uuid not in deleted.union(resting) and may_be_rebuilt(row)
    ]
    place_anew(tx, change, own, {uuid: known[uuid].power for uuid in known}, user_id, now)
    return own


def begin_anew(tx: Transaction, change: int, uuid: str, reason: str, now: float) -> None:
    """End for this reason what is under way on an instance that its child had shown as built.

    Its build has failed after all, and it is placed again: its next place knows nothing of actions and moves
    at the last one. Only a lying child says so. An unshelve under way goes on at the next place.
    """
    before = instance_states.read(tx, [uuid]).get(uuid)
    if before is None or before.state.observed.power is Power.OFFLOADED:
        return
    desired = before.state.desired
    seen = Observed(desired.generation, Power.OFFLOADED, reason, desired.rebuilds)
    observe(tx, change, [(uuid, seen)], {}, now)
    _want_anew(tx, {uuid: desired.power}, now)


def may_be_rebuilt(instance: Instance) -> bool:
    """Tell whether the owner of an instance lets it be built anew at another place."""
    metadata = instance.passthrough.get("metadata") or {}
    return str(metadata.get(REBUILD_ELSEWHERE, "true")).lower() != "false"


def place_anew(
    tx: Transaction,
    change: int,
    own: Sequence[Instance],
    powers: Mapping[str, Power],
    user_id: str,
    now: float,
) -> None:
    """Place resting instances of this zone's own users anew, STOPPED as before or RUNNING, and record it."""
    uuids = [row.uuid for row in own]
    counts = instance_actions.counts(tx, uuids)
    wanted = _want_anew(tx, {uuid: powers[uuid] for uuid in uuids}, now)
    actions = [
        InstanceAction(
            uuid=row.uuid,
            number=counts.get(row.uuid, Count()).last + 1,
            action="evacuate",
            request_id=tracing.current().request_id,
            user_id=user_id,
            project_id=row.project_id,
            generation=wanted[row.uuid].generation,
            started_at=now,
        )
        for row in own
    ]
    instance_actions.insert(tx, actions)
    place_again(tx, change, own, now)


def _want_anew(tx: Transaction, powers: Mapping[str, Power], now: float) -> Mapping[str, Desired]:
    """Store and return what is desired of instances at their next places, from their power until now."""
    before = instance_states.read(tx, sorted(powers))
    wanted = {
        uuid: at_new_place(before[uuid].state, power if power is Power.STOPPED else Power.RUNNING)
        for uuid, power in powers.items()
    }
    # Whatever place it gets: a child there is told once it has built it.
    rows = [
        replace(before[uuid].wanting(desired, now, in_child=True), told_generation=0)
        for uuid, desired in wanted.items()
    ]
    instance_states.write(tx, rows, before.keys())
    return wanted
