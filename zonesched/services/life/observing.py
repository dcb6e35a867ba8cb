"""Observed states: an agent's or a child's report on a built instance, with all its consequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zonesched.model.desired_state import NEW, InstanceState, is_news
from zonesched.model.instance_flavor import flavor_of
from zonesched.model.instance_image import AS_BOOTED
from zonesched.model.named_boot import GivenBack
from zonesched.model.observed_state import Observed, Power, are_too_many, is_ahead
from zonesched.model.request_spec import Image
from zonesched.services.life.instance_requests import requests_of
from zonesched.services.life.overtaking import numbered
from zonesched.store import instance_actions, instance_states, instances
from zonesched.store.instance_states import StoredState
from zonesched.store.store import Transaction

UNSURPRISING = Observed()
"""The state of an instance that never had an action and runs: no row, and never news."""


def observe_on_hosts(
    tx: Transaction,
    change: int,
    seen: Sequence[tuple[str, Observed]],
    built_at: Mapping[str, float],
    now: float,
) -> None:
    """Store what agents have observed, as `observe` does; take what they know better than these rows."""
    rows = dict(instance_states.read(tx, sorted({uuid for uuid, _ in seen})))
    seen = _with_resizes(rows, seen)
    later = {row.uuid: row for row in number_above(tx, rows, seen)}
    rows |= later
    adopted = {row.uuid: row for row in adopt(rows, seen, built_at, given_back={})}
    instance_states.write(tx, list((later | adopted).values()), rows.keys())
    observe(tx, change, seen, built_at, now)


def _with_resizes(
    rows: Mapping[str, StoredState], seen: Sequence[tuple[str, Observed]]
) -> list[tuple[str, Observed]]:
    """Return what agents have observed with the resizes of each, of which only this zone knows.

    None of them reaches the generation of a resize under way: its move does. An agent has that generation
    already where the rows were put back from a copy.
    """
    states = {uuid: row.state for uuid, row in rows.items()}
    return [(uuid, _with_resizes_of(states.get(uuid, NEW), observed)) for uuid, observed in seen]


def _with_resizes_of(state: InstanceState, observed: Observed) -> Observed:
    desired, done = state.desired, state.observed.resizes
    is_too_early = desired.resizes != done and observed.generation == desired.generation
    return replace(observed, generation=observed.generation - is_too_early, resizes=done)


def observe_in_child(
    tx: Transaction,
    change: int,
    rows: Mapping[str, StoredState],
    seen: Sequence[tuple[str, Observed]],
    built_at: Mapping[str, float],
    given_back: Mapping[str, GivenBack],
    now: float,
) -> None:
    """Store what a child has observed, as `observe` does; take what it knows better than these `rows`.

    It is told again what it has forgotten. Either's database was put back from a copy.
    """
    adopted = adopt(rows, seen, built_at, given_back)
    instance_states.write(tx, adopted, rows.keys())
    count_images_and_flavors(tx, change, rows, adopted)
    forgotten = [
        replace(row, told_generation=observed.generation, next_call_at=0.0)
        for uuid, observed in seen
        if (row := rows.get(uuid)) is not None
        and observed.generation < min(row.state.observed.generation, row.told_generation)
    ]
    instance_states.write(tx, forgotten, rows.keys())
    observe(tx, change, seen, built_at, now)


def adopt(
    rows: Mapping[str, StoredState],
    seen: Sequence[tuple[str, Observed]],
    built_at: Mapping[str, float],
    given_back: Mapping[str, GivenBack],
) -> list[StoredState]:
    """Return the rows of which a child or an agent reports a later generation than was ever decided here.

    They were put back from a copy: what is so there counts as desired. `given_back`: by uuid, the images and
    flavors that a child was asked for; agents do not know theirs.
    """
    adopted: dict[str, StoredState] = {}
    for uuid, observed in seen:
        row = adopted.get(uuid) or rows.get(uuid) or StoredState(uuid, built_at=built_at[uuid])
        known = row.state.desired
        if are_too_many(observed, known.rebuilds, known.resizes):
            continue
        if is_ahead(observed.generation, known.generation):
            # Shelved has no reason: what was evacuated is wanted as before, and is placed anew.
            is_evacuated = observed.power is Power.OFFLOADED and observed.reason != ""
            desired = replace(
                known,
                generation=observed.generation,
                power=known.power if is_evacuated else observed.power,
                rebuilds=observed.rebuilds,
                resizes=observed.resizes,
            )
            # At its next place it is built with the image of that rebuild.
            rebuilt_by = observed.generation if observed.rebuilds else row.state.rebuilt_by
            # Its owner may have restored it since.
            state = replace(row.state, desired=desired, rebuilt_by=rebuilt_by, reclaim_at=0.0)
            if uuid in given_back:
                state = _with_given_back(row.state, state, given_back[uuid], observed)
            adopted[uuid] = replace(row, state=state, told_generation=observed.generation)
    return list(adopted.values())


def _with_given_back(
    before: InstanceState, state: InstanceState, theirs: GivenBack, observed: Observed
) -> InstanceState:
    """Return the adopted state with what the instance has; a later report says what it gets in the child.

    A child that was restored too may know less of rebuilds and resizes that were counted `before`.
    """
    settled = theirs.settled
    if observed.rebuilds > before.desired.rebuilds:
        state = replace(state, desired=replace(state.desired, image=settled.image))
    elif observed.rebuilds == before.desired.rebuilds == 0:
        # Whatever it has it was asked for with, at a place that these rows may lack.
        state = replace(state, desired=replace(state.desired, image=settled.image), image=settled.image)
    if not observed.resizes.lacks(before.desired.resizes):
        flavor = theirs.desired.flavor if observed.resizes.is_open else settled.flavor
        state = replace(state, desired=replace(state.desired, flavor=flavor), flavor=settled.flavor)
    return state


def number_above(
    tx: Transaction, rows: Mapping[str, StoredState], seen: Sequence[tuple[str, Observed]]
) -> list[StoredState]:
    """Return the rows with an action under way of which an agent reports a later generation, above that one.

    They were put back from a copy, and the agent acts on later generations alone.
    """
    changed: dict[str, StoredState] = {}
    for uuid, observed in seen:
        row = changed.get(uuid) or rows.get(uuid)
        if row is None or not row.state.is_pending:
            continue
        desired = row.state.desired
        if not is_ahead(observed.generation, desired.generation):
            continue
        generation = observed.generation + 1
        state = numbered(row.state, generation, reboots=desired.reboots, rebuilds=observed.rebuilds)
        instance_actions.renumber(tx, uuid, desired.generation, generation)
        changed[uuid] = replace(row, state=state)
    return list(changed.values())


def observe(
    tx: Transaction,
    change: int,
    seen: Sequence[tuple[str, Observed]],
    built_at: Mapping[str, float],
    now: float,
) -> None:
    """Store what was observed of instances, in this order; actions whose generation was reached end.

    The instances are locked, and the reports are on their present attempts. An old or repeated report
    changes nothing. `built_at`: by uuid, for instances that have no row yet.
    """
    before = instance_states.read(tx, sorted({uuid for uuid, _ in seen}))
    rows = dict(before)
    for uuid, observed in seen:
        row = rows.get(uuid) or StoredState(uuid, built_at=built_at[uuid])
        known = row.state.desired
        if is_news(row.state, observed) and not are_too_many(observed, known.rebuilds, known.resizes):
            rows[uuid] = row.observing(observed, now)
    changed = [row for uuid, row in rows.items() if row is not before.get(uuid)]
    if not changed:
        return
    instance_states.write(tx, changed, before.keys())
    instances.touch(tx, change, [row.uuid for row in changed], now)
    count_images_and_flavors(tx, change, before, changed)
    reached = {row.uuid: (row.state.observed.generation, row.state.observed.reason) for row in changed}
    instance_actions.reached(tx, reached, now)


def count_images_and_flavors(
    tx: Transaction, change: int, before: Mapping[str, StoredState], changed: Sequence[StoredState]
) -> None:
    """Note new images and flavors where hosts and projects count those of their instances."""
    _count_new_images(tx, change, before, changed)
    _count_new_flavors(tx, change, before, changed)


def _count_new_images(
    tx: Transaction, change: int, before: Mapping[str, StoredState], changed: Sequence[StoredState]
) -> None:
    """Note the images of rebuilt instances where hosts count the images of theirs."""
    for row in changed:
        image = row.state.image
        if isinstance(image, Image) and (row.uuid not in before or image != before[row.uuid].state.image):
            instances.set_image(tx, change, row.uuid, image)


def _count_new_flavors(
    tx: Transaction, change: int, before: Mapping[str, StoredState], changed: Sequence[StoredState]
) -> None:
    """Note the flavors of resized instances where hosts and projects count the flavors of theirs."""
    new = {
        row.uuid: row.state.present_flavor
        for row in changed
        if row.state.present_flavor
        != (before[row.uuid].state.present_flavor if row.uuid in before else AS_BOOTED)
    }
    for uuid, spec in requests_of(tx, sorted(new)).items() if new else ():
        instances.set_flavor(tx, change, uuid, flavor_of(new[uuid], spec.flavor))
