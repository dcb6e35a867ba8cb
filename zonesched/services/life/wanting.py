"""Desired states: written together with what carries them on, to an agent or to the child that has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from zonesched.model.desired_state import Desired
from zonesched.model.observed_state import Power
from zonesched.services.life import moving, shelving
from zonesched.services.state.wake import Wake
from zonesched.store import instance_states, instances
from zonesched.store.instance_states import StoredState
from zonesched.store.instances import Instance
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.store import Transaction


@dataclass(frozen=True)
class Wanted:
    """A later desired state of a built instance at its present place."""

    instance: Instance
    place: Placement
    desired: Desired


def want(
    tx: Transaction,
    wanted: Sequence[Wanted],
    before: Mapping[str, StoredState],
    change: int,
    now: float,
    *,
    passes_on: bool = True,
) -> None:
    """Store desired states, each later than the one in `before`; the instances are locked.

    `passes_on`: this zone tells its child zones.
    """
    rows = [_row(one, before.get(one.instance.uuid), now, passes_on) for one in wanted]
    instance_states.write(tx, rows, before.keys())
    shelved = [one.place for one in wanted if one.desired.power is Power.OFFLOADED]
    moving.abandon(tx, change, sorted(place.uuid for place in shelved), now)
    shelving.leave_hosts(tx, change, shelved)
    instances.touch(tx, change, [row.uuid for row in rows], now)


def wake_for(wake: Wake, places: Sequence[Placement]) -> None:
    """Wake who carries on the desired states of instances at these places."""
    wake.agents(places)
    if any(isinstance(place.where, AskedChild) for place in places):
        wake.child_calls()


def _row(wanted: Wanted, before: StoredState | None, now: float, passes_on: bool) -> StoredState:
    instance = wanted.instance
    row = before or StoredState(instance.uuid, built_at=instance.updated_at)
    if before is not None and before.state.observed.power is Power.OFFLOADED:
        # Whatever place it gets: a child there is told once it has built it.
        return replace(row.wanting(wanted.desired, now, in_child=True), told_generation=0)
    in_child = passes_on and isinstance(wanted.place.where, AskedChild)
    return row.wanting(wanted.desired, now, in_child=in_child)
