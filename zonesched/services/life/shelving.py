"""Shelved instances: their present places end, they rest offloaded, and unshelved they are placed anew.

A zone that has the instance on a host keeps its claim until the agent says that nothing is left there; the
zones above then learn of it as of any observed state. So nothing of an offloaded instance runs anywhere, and
its next place may be in any zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zonesched.model.desired_state import InstanceState
from zonesched.model.observed_state import Observed, Power
from zonesched.model.placement import BUILDING_STATUSES, LIVING_STATUSES, InstanceStatus, PlacementState
from zonesched.services.life.observing import observe
from zonesched.store import instance_states, instances, placements, reservations
from zonesched.store.instances import Instance
from zonesched.store.placements import ClaimedHost, Placement
from zonesched.store.store import Transaction

SHELVED = "shelved"
"""Reason code of a place that ended because its instance was shelved."""


def leave_hosts(tx: Transaction, change: int, shelved: Iterable[Placement]) -> None:
    """Take shelved instances from the work of their agents, which report when nothing of them is left."""
    here = [place for place in shelved if isinstance(place.where, ClaimedHost)]
    placements.move_all(tx, change, here, PlacementState.RELEASING, reason=SHELVED)


def note_offloaded(tx: Transaction, change: int, left: Sequence[Placement], now: float) -> frozenset[str]:
    """Let the instances rest that were to be shelved, now that nothing is left at their present places.

    The instances are locked. Returns those that rest; any other stays as it is.
    """
    uuids = sorted({place.uuid for place in left})
    attempts = {place.key for place in left}
    rows, states = instances.read_by_uuid(tx, uuids), instance_states.read(tx, uuids)
    resting = [
        uuid
        for uuid in uuids
        if uuid in states
        and states[uuid].state.desired.power is Power.OFFLOADED
        and (uuid, rows[uuid].attempt) in attempts
        and rows[uuid].status in LIVING_STATUSES
    ]
    instances.set_status(tx, change, resting, InstanceStatus.OFFLOADED, now, only_from=LIVING_STATUSES)
    seen = [(uuid, _offloaded(states[uuid].state)) for uuid in resting]
    observe(tx, change, seen, {}, now)
    return frozenset(resting)


def _offloaded(state: InstanceState) -> Observed:
    """Return the observed state where nothing is left; no rebuild is due any more."""
    return Observed(state.desired.generation, Power.OFFLOADED, rebuilds=state.desired.rebuilds)


def place_again(tx: Transaction, change: int, unshelved: Sequence[Instance], now: float) -> None:
    """Hand offloaded instances, whose next desired state is stored, to the workers of their boots.

    Builds that failed at earlier places do not count.
    """
    if not unshelved:
        return
    uuids = [instance.uuid for instance in unshelved]
    instances.forget_failed_builds(tx, uuids)
    instances.begin_unshelve(tx, change, uuids, now)
    for caller_id, reservation_id in sorted({(one.caller_id, one.reservation_id) for one in unshelved}):
        reservations.place_again(tx, caller_id, reservation_id)


def rest_again(tx: Transaction, change: int, uuids: Sequence[str], reason: str, now: float) -> frozenset[str]:
    """Let those of these instances rest again that were being unshelved: they have no place; return them.

    Their action ends as an error for this reason.
    """
    states = instance_states.read(tx, sorted(uuids))
    building = {uuid for uuid, row in states.items() if row.state.observed.power is Power.OFFLOADED}
    present = instances.current_statuses(tx, sorted(building))
    resting = sorted(uuid for uuid, at in present.items() if at.status in BUILDING_STATUSES)
    instances.set_status(tx, change, resting, InstanceStatus.OFFLOADED, now, only_from=BUILDING_STATUSES)
    observe(tx, change, [(uuid, states[uuid].state.refused(reason)) for uuid in resting], {}, now)
    return frozenset(resting)
