"""Desired states that a parent tells: stored if they are later than what is known, and carried on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from zonesched.model.caller import Caller
from zonesched.model.desired_call import DesiredAnswer, DesiredOf, Taken, contradicts, with_image
from zonesched.model.desired_call import told as told_by_parent
from zonesched.model.desired_state import NEW
from zonesched.model.observed_state import NO_RESIZES, Power
from zonesched.model.placement import HOLDS_INSTANCE, LIVING_STATUSES
from zonesched.model.request_spec import Flavor, Image
from zonesched.services.life import image_fit, resizing
from zonesched.services.life.image_fit import ImageFit
from zonesched.services.life.observing import count_images_and_flavors, observe
from zonesched.services.life.wanting import Wanted, wake_for, want
from zonesched.services.zone import Zone
from zonesched.store import aliases, identity, inbound, instance_states, instances, locks, placements
from zonesched.store.instance_states import StoredState
from zonesched.store.instances import Instance
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.store import Transaction

LINES_AT_ONCE = 100
"""Desired states that are stored in one transaction: each takes as long as a whole boot of one instance, and
who writes meanwhile waits for the calls of a parent that come at the same time."""


def take(zone: Zone, caller: Caller, told: Sequence[DesiredOf]) -> list[DesiredAnswer]:
    """Store the desired states of a parent's instances; one answer each, in their order.

    A repeat gets the same answer as the first call, and an earlier generation changes nothing.
    """
    fit = image_fit.ask(zone, zone.store.read(lambda tx: _new_images(tx, caller, told)))
    answers: list[DesiredAnswer] = []
    places: list[Placement] = []
    for start in range(0, len(told), LINES_AT_ONCE):
        some = told[start : start + LINES_AT_ONCE]
        answered, carried_on = zone.store.write(partial(_take, zone, caller, some, fit))
        answers += answered
        places += carried_on
    wake_for(zone.wake, places)
    if any(isinstance(one.desired.flavor, Flavor) for one in told):
        zone.wake.moves()
    return [replace(answer, uuid=one.uuid) for one, answer in zip(told, answers, strict=True)]


def _new_images(tx: Transaction, caller: Caller, told: Sequence[DesiredOf]) -> Mapping[str, Image]:
    """Return the images that instances are to be rebuilt from, by the uuid here."""
    images = {one.uuid: one.desired.image for one in told if isinstance(one.desired.image, Image)}
    here = aliases.instance_uuids(tx, caller.user_id, list(images)) if images else {}
    return {here.get(uuid, uuid): image for uuid, image in images.items()}


def _take(
    zone: Zone, caller: Caller, called: Sequence[DesiredOf], fit: ImageFit, tx: Transaction
) -> tuple[list[DesiredAnswer], list[Placement]]:
    here = aliases.instance_uuids(tx, caller.user_id, [one.uuid for one in called])
    told = [replace(one, uuid=here.get(one.uuid, one.uuid)) for one in called]
    uuids = [one.uuid for one in told]
    locks.instances(tx, uuids)
    known = inbound.known_attempts(tx, caller.user_id, uuids)
    places = {one.uuid: known[one.key].place for one in told if one.key in known}
    numbers = {uuid: place.number for uuid, place in places.items() if place is not None}
    before = instance_states.read(tx, uuids)
    there = dict(_present(tx, numbers, before))
    before = {**before, **_name_images(tx, told, there, before)}
    answers: list[DesiredAnswer] = []
    wanted: list[Wanted] = []
    for one in told:
        if one.uuid not in there:
            answers.append(DesiredAnswer(one.uuid, one.attempt, Taken.GONE))
            continue
        state = before[one.uuid].state if one.uuid in before else NEW
        stored = state.desired
        if one.desired.generation > stored.generation:
            if stored.power is Power.OFFLOADED:
                answers.append(DesiredAnswer(one.uuid, one.attempt, Taken.GONE))
                continue
            stored = told_by_parent(stored, one.desired)
            wanted.append(Wanted(*there[one.uuid], stored))
        is_other = contradicts(replace(state, desired=stored), one.desired)
        taken = Taken.DIFFERENT if is_other else Taken.STORED
        numbers_ = (stored.generation, stored.reboots, stored.rebuilds, stored.resizes)
        answers.append(DesiredAnswer(one.uuid, one.attempt, taken, *numbers_))
    if wanted:
        _carry_on(zone, tx, wanted, before, fit)
    # The end of a resize is work for the hosts of both places.
    resized = {one.instance.uuid for one in wanted if one.desired.resizes != NO_RESIZES}
    both = placements.read_by_uuid(tx, sorted(resized)) if resized else ()
    return answers, [*(one.place for one in wanted), *both]


def _name_images(
    tx: Transaction,
    told: Sequence[DesiredOf],
    there: Mapping[str, tuple[Instance, Placement]],
    before: Mapping[str, StoredState],
) -> dict[str, StoredState]:
    """Note the images of rebuilds of which only the count was known; return those rows by uuid."""
    named: dict[str, StoredState] = {}
    for one in told:
        row = before.get(one.uuid)
        if row is None or one.uuid not in there:
            continue
        state = with_image(row.state, one.desired)
        if state is not row.state:
            is_in_child = isinstance(there[one.uuid][1].where, AskedChild)
            named[one.uuid] = row.naming(state, in_child=is_in_child)
    if named:
        instance_states.write(tx, list(named.values()), before.keys())
        count_images_and_flavors(tx, identity.next_change(tx), before, list(named.values()))
    return named


def _present(
    tx: Transaction, numbers: Mapping[str, int], states: Mapping[str, StoredState]
) -> Iterator[tuple[str, tuple[Instance, Placement]]]:
    """Find the instances among these that live, or are shelved, at the place of this number, by uuid."""
    rows = instances.read_by_uuid(tx, list(numbers))
    for place in placements.read_by_uuid(tx, list(numbers)):
        instance = rows[place.uuid]
        is_present = place.number == numbers[place.uuid] == instance.attempt
        is_shelved = place.uuid in states and states[place.uuid].state.desired.power is Power.OFFLOADED
        is_there = is_shelved or (place.state in HOLDS_INSTANCE and instance.status in LIVING_STATUSES)
        if is_present and is_there:
            yield place.uuid, (instance, place)


def _carry_on(
    zone: Zone,
    tx: Transaction,
    wanted: Sequence[Wanted],
    before: Mapping[str, StoredState],
    fit: ImageFit,
) -> None:
    change, now, passes_on = identity.next_change(tx), zone.clock.now(), zone.conf.enable_zone_routing
    want(tx, wanted, before, change, now, passes_on=passes_on)
    resizing.carry_on(zone, tx, change, wanted, before, now)
    routed = [one.instance.uuid for one in wanted if isinstance(one.place.where, AskedChild)]
    reasons = {one.instance.uuid: fit.refusal(one.place) for one in wanted if _is_rebuild(one, before)}
    if not passes_on:
        reasons |= dict.fromkeys(routed, "zone_routing_disabled")
    observe(tx, change, image_fit.refused(tx, reasons), {}, now)


def _is_rebuild(one: Wanted, before: Mapping[str, StoredState]) -> bool:
    known = before.get(one.instance.uuid)
    return one.desired.rebuilds > (known.state.desired.rebuilds if known is not None else 0)
