"""States of instances as a recovery has found them: actions after it are numbered above those of before.

A parent tells those of its own instances again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zonesched.model.action_table import at_new_place
from zonesched.model.desired_state import InstanceState
from zonesched.model.instance_flavor import flavor_of
from zonesched.model.instance_image import AS_BOOTED
from zonesched.model.observed_state import NO_RESIZES, Power
from zonesched.model.placement import LIVING_STATUSES, BuildState, InstanceChange
from zonesched.model.request_spec import Flavor
from zonesched.services.children.changes import note_states
from zonesched.services.life.given_back import in_own_terms
from zonesched.services.life.instance_requests import requests_of
from zonesched.services.life.observing import count_images_and_flavors, observe_on_hosts
from zonesched.store import claims, instance_states, instances, moves
from zonesched.store.instance_states import StoredState
from zonesched.store.instances import Instance
from zonesched.store.recovery import Found, Kind
from zonesched.store.store import Transaction

CHUNK = 500


def note(tx: Transaction, change: int, zone_uuid: str, found: Sequence[Found], now: float) -> None:
    """Note the states of the instances that live where they were found; all are locked.

    Agents tell flavors and no images, and parents tell the images of theirs.
    """
    for some in claims.chunks(found, CHUNK):
        rows = instances.read_by_uuid(tx, sorted({one.uuid for one in some}))
        there = [one for one in some if _lives_there(one, rows)]
        built_at = {one.uuid: rows[one.uuid].updated_at for one in there}
        on_hosts = [one for one in there if one.kind is Kind.AGENT]
        _forget_images(tx, [one for one in on_hosts if rows[one.uuid].caller_id != zone_uuid])
        _note_of_agents(tx, change, on_hosts, built_at, now)
        _note_flavors(tx, change, on_hosts, built_at)
        _note_of_children(tx, change, [one for one in there if one.kind is Kind.CHILD], built_at, now)


def _lives_there(found: Found, rows: Mapping[str, Instance]) -> bool:
    row = rows.get(found.uuid)
    return row is not None and row.attempt == found.number and row.status in LIVING_STATUSES


def _forget_images(tx: Transaction, found: Sequence[Found]) -> None:
    """Forget the images of instances that were rebuilt from others since."""
    states = instance_states.read(tx, [one.uuid for one in found])
    changed: list[StoredState] = []
    for one in found:
        row = states.get(one.uuid)
        if row is None or one.observed is None or one.observed.rebuilds <= row.state.desired.rebuilds:
            continue
        desired = replace(row.state.desired, image=AS_BOOTED)
        changed.append(replace(row, state=replace(row.state, desired=desired, image=AS_BOOTED)))
    instance_states.write(tx, changed, states.keys())


def _note_of_agents(
    tx: Transaction, change: int, found: Sequence[Found], built_at: Mapping[str, float], now: float
) -> None:
    seen = [(one.uuid, one.observed) for one in found if one.observed is not None]
    if seen:
        observe_on_hosts(tx, change, seen, built_at, now)


def _note_flavors(
    tx: Transaction, change: int, found: Sequence[Found], built_at: Mapping[str, float]
) -> None:
    """Note the flavors that agents know better than these rows, which tell them theirs from now on.

    A move that goes on may end at its old place, whose flavor is known.
    """
    told = {one.uuid: one for one in found if one.flavor is not None}
    specs, living = requests_of(tx, sorted(told)), moves.living(tx, sorted(told))
    before = instance_states.read(tx, sorted(told))
    changed: list[StoredState] = []
    for uuid, spec in specs.items():
        row = before.get(uuid) or StoredState(uuid, built_at=built_at[uuid])
        state, there, move = row.state, told[uuid].flavor, living.get(uuid)
        assert there is not None
        is_resized = state.is_resizing or state.observed.resizes.is_open
        known = [state.flavor, state.desired.flavor] if is_resized else [state.flavor]
        goes_on = move is not None and move.to_number == told[uuid].number
        if there in [flavor_of(one, spec.flavor) for one in known] or (goes_on and not is_resized):
            continue
        desired = replace(state.desired, flavor=there)
        state = replace(state, desired=desired, flavor=state.flavor if goes_on else there)
        changed.append(replace(row, state=state))
    instance_states.write(tx, changed, before.keys())
    count_images_and_flavors(tx, change, before, changed)


def _note_of_children(
    tx: Transaction, change: int, found: Sequence[Found], built_at: Mapping[str, float], now: float
) -> None:
    items = [
        InstanceChange(
            one.uuid,
            one.number,
            one.status,
            BuildState.CONFIRMED,
            observed=one.observed,
            moves=one.moves,
        )
        for one in found
    ]
    states = instance_states.read(tx, [one.uuid for one in found])
    given_back = in_own_terms(tx, {one.uuid: one.given_back for one in found})
    note_states(tx, change, items, states, built_at, now, given_back)


def flavor_there(state: InstanceState, booted: Flavor) -> Flavor:
    """Return the flavor of an instance at a later place than its rows have: that of a resize under way."""
    return flavor_of(state.desired.flavor if state.is_resizing else state.present_flavor, booted)


def note_later_place(tx: Transaction, row: StoredState, now: float, *, in_child: bool) -> None:
    """Let an instance run that was shelved or evacuated at the place before.

    A child counts from 0 at each place.
    """
    state, rests = row.state, Power.OFFLOADED
    is_evacuated = state.observed.power is rests and not state.is_pending
    is_shelved = state.desired.power is rests and not moves.living(tx, [row.uuid])
    if is_evacuated or is_shelved:
        power = Power.RUNNING if is_shelved else state.desired.power
        row = row.wanting(at_new_place(state, power), now, in_child=in_child)
    if in_child:
        row = replace(row, state=_without_counts(row.state))
    if is_evacuated or is_shelved or in_child:
        instance_states.write(tx, [row], [row.uuid])


def _without_counts(state: InstanceState) -> InstanceState:
    """Return a state with no rebuilds and no resizes: a later report says how many there were."""
    return replace(
        state,
        desired=replace(state.desired, rebuilds=0, resizes=NO_RESIZES),
        observed=replace(state.observed, rebuilds=0, resizes=NO_RESIZES),
        rebuilt_by=0,
    )
