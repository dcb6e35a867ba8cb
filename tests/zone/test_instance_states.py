"""Statements about the states of several instances at once are about those that they name alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.builders.one_zone import (
    RESERVATION,
    a_form,
    a_zone,
    add_hosts,
    put_instance,
    put_place,
    put_reservation,
)
from zonesched.model.desired_state import Desired, InstanceState
from zonesched.model.instance_flavor import InstanceFlavor
from zonesched.model.instance_image import AS_BOOTED, InstanceImage
from zonesched.model.observed_state import NO_RESIZES, Observed, Resizes
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.model.request_spec import Flavor, Image
from zonesched.services.zone import Zone
from zonesched.store import instance_states, instances
from zonesched.store.instance_states import StoredState
from zonesched.store.placements import AskedChild, ClaimedHost, Where

CHILD, OTHER = AskedChild("child-1", ("a",)), AskedChild("child-2", ("a",))
BUILT, ENDED = PlacementState.CONFIRMED, PlacementState.RELEASED
IMAGE, FLAVOR = Image("i2", "another", {}), Flavor("f2", "large", 2, 1024, 0)
BOOTED = Flavor("f1", "small", 1, 512, 0)
NOW, LATER = 100.0, 200.0


@dataclass(frozen=True)
class Placed:
    """An instance with a row of states. `where`: its places; the last one is the present one."""

    where: tuple[tuple[Where, PlacementState], ...] = ((CHILD, BUILT),)
    status: InstanceStatus = InstanceStatus.ACTIVE
    caller_id: str = ""
    generation: int = 1
    observed: int = 0
    told: int = 0
    rebuilt_by: int = 0
    resizes: Resizes = NO_RESIZES
    resizes_done: Resizes = NO_RESIZES
    next_call_at: float = NOW
    wanted_at: float = 0.0
    resized_at: float = 0.0


def put(zone: Zone, named: Mapping[str, Placed]) -> dict[str, str]:
    """Store instances, the calls about each of which have failed three times; their names by uuid."""
    put_reservation(zone, num_instances=len(named))
    return {_put(zone, one): name for name, one in named.items()}


def _put(zone: Zone, one: Placed) -> str:
    uuid = put_instance(zone, status=one.status, attempt=len(one.where), caller_id=one.caller_id)
    for number, (where, state) in enumerate(one.where, 1):
        put_place(zone, uuid, where, number=number, state=state, claimed=False)
    desired = Desired(one.generation, image=IMAGE, resizes=one.resizes, flavor=FLAVOR)
    observed = Observed(one.observed, resizes=one.resizes_done)
    row = StoredState(
        uuid,
        InstanceState(desired, observed, rebuilt_by=one.rebuilt_by, flavor=BOOTED),
        told_generation=one.told,
        next_call_at=one.next_call_at,
        calls=3,
        wanted_at=one.wanted_at,
        resized_at=one.resized_at,
    )
    zone.store.write(lambda tx: instance_states.write(tx, [row], known=()))
    return uuid


def on_a_host(zone: Zone) -> tuple[tuple[Where, PlacementState], ...]:
    (host_id,) = add_hosts(zone, a_form("host-1"))
    return ((ClaimedHost(host_id, {"VCPU": 1}), BUILT),)


def calls_of(zone: Zone, names: Mapping[str, str]) -> dict[str, tuple[int, float, int]]:
    """Say for which generation the child of each has answered, when it is called next, and after how many."""
    rows = zone.store.read(lambda tx: instance_states.read(tx, list(names)))
    return {names[uuid]: (row.told_generation, row.next_call_at, row.calls) for uuid, row in rows.items()}


def test_a_child_is_told_again_what_it_has_not_reached_and_each_rebuild(tmp_path: Path) -> None:
    # given
    zone = a_zone(tmp_path)
    told = Placed(generation=4, told=4, observed=2)
    rebuilt = replace(told, rebuilt_by=1)
    named = {
        "reached, and the next one not told yet": Placed(generation=5, told=4, observed=4),
        "not reached": told,
        "rebuilt first": replace(rebuilt, observed=4),
        "rebuilt last": replace(rebuilt, observed=4, rebuilt_by=4),
        "rebuilding": replace(rebuilt, rebuilt_by=3),
        "confirming": replace(told, where=((CHILD, PlacementState.CONFIRMING),)),
        "another child's": replace(rebuilt, where=((OTHER, BUILT),)),
        "deleted": replace(rebuilt, where=((CHILD, ENDED),)),
        "here": replace(rebuilt, where=on_a_host(zone)),
    }
    names = put(zone, named)
    # when
    zone.store.write(lambda tx: instance_states.forget_told(tx, "child-1"))
    # then
    waits = (4, NOW, 3)
    assert calls_of(zone, names) == {
        **dict.fromkeys(named, waits),
        "not reached": (2, 0.0, 0),
        "rebuilt first": (0, 0.0, 0),
        "rebuilt last": (3, 0.0, 0),
        "rebuilding": (2, 0.0, 0),
        "confirming": (2, 0.0, 0),
    }


def test_what_children_that_answer_again_were_not_told_is_due_at_once(tmp_path: Path) -> None:
    # given
    zone = a_zone(tmp_path)
    named = {
        "untold": Placed(),
        "confirming": Placed(((OTHER, PlacementState.CONFIRMING),)),
        "told": Placed(told=1),
        "a silent child's": Placed(((AskedChild("child-3", ("a",)), BUILT),)),
        "deleted": Placed(((CHILD, ENDED),)),
        "here": Placed(on_a_host(zone)),
    }
    names = put(zone, named)
    # when
    zone.store.write(lambda tx: instance_states.make_calls_due(tx, ["child-1", "child-2"]))
    # then
    assert calls_of(zone, names) == {
        **dict.fromkeys(named, (0, NOW, 3)),
        "told": (1, NOW, 3),
        "untold": (0, 0.0, 0),
        "confirming": (0, 0.0, 0),
    }


def test_children_are_told_what_is_due_of_active_instances_in_its_order(tmp_path: Path) -> None:
    # given
    zone = a_zone(tmp_path)
    named = {
        "due": Placed(),
        "due before": Placed(next_call_at=NOW - 1),
        "confirming": Placed(((OTHER, PlacementState.CONFIRMING),), next_call_at=NOW - 2),
        "placed again": Placed(((OTHER, ENDED), (CHILD, BUILT)), next_call_at=NOW - 3),
        "not due": Placed(next_call_at=NOW + 0.5),
        "told": Placed(told=1),
        "being built": Placed(status=InstanceStatus.BUILD),
        "deleted": Placed(((CHILD, ENDED),)),
        "left": Placed(((CHILD, BUILT), (OTHER, ENDED))),
        "a busy child's": Placed(((AskedChild("child-3", ("a",)), BUILT),)),
        "here": Placed(on_a_host(zone)),
    }
    names = put(zone, named)

    def due(most: int) -> list[tuple[str, int, str, int]]:
        found = zone.store.read(lambda tx: instance_states.due_to_tell(tx, NOW, ["child-3"], most))
        return [(names[one.uuid], one.attempt, one.child_id, one.calls) for one in found]

    # when, then
    in_order = [
        ("placed again", 2, "child-1", 3),
        ("confirming", 1, "child-2", 3),
        ("due before", 1, "child-1", 3),
        ("due", 1, "child-1", 3),
    ]
    assert due(9) == in_order
    assert due(2) == in_order[:2]


@pytest.mark.parametrize(
    ("of", "image", "flavor"),
    [
        (Placed(generation=3, told=2, rebuilt_by=3), IMAGE, AS_BOOTED),
        (Placed(generation=3, told=2, rebuilt_by=2), AS_BOOTED, AS_BOOTED),
        (Placed(resizes=Resizes(2, 1), resizes_done=Resizes(1, 1)), AS_BOOTED, FLAVOR),
        (Placed(resizes=Resizes(1, 1), resizes_done=Resizes(1)), AS_BOOTED, AS_BOOTED),
    ],
    ids=["rebuilt since", "told of its rebuild", "resized since", "confirmed since"],
)
def test_a_child_is_told_the_image_and_the_flavor_that_it_does_not_know(
    tmp_path: Path, of: Placed, image: InstanceImage, flavor: InstanceFlavor
) -> None:
    zone = a_zone(tmp_path)
    put(zone, {"": of})

    (told,) = zone.store.read(lambda tx: instance_states.due_to_tell(tx, NOW, [], 9))

    assert (told.desired.image, told.desired.flavor) == (image, flavor)
    assert (told.desired.generation, told.desired.resizes) == (of.generation, of.resizes)


def test_the_newest_state_that_children_have_not_reached_is_of_those_that_have_the_instance(
    tmp_path: Path,
) -> None:
    # given
    zone = a_zone(tmp_path)
    put(
        zone,
        {
            "reached": Placed(observed=1, wanted_at=LATER),
            "deleted": Placed(((CHILD, ENDED),), wanted_at=LATER),
            "here": Placed(on_a_host(zone), wanted_at=LATER),
        },
    )
    assert zone.store.read(instance_states.newest_pending_in_children) == -math.inf
    # when
    for wanted_at in (NOW - 1, NOW, NOW - 2):
        _put(zone, Placed(generation=2, observed=1, wanted_at=wanted_at))
    # then
    assert zone.store.read(instance_states.newest_pending_in_children) == NOW


def test_resizes_wait_for_their_confirmation_in_the_zone_of_their_owners(tmp_path: Path) -> None:
    # given
    zone = a_zone(tmp_path)
    here = on_a_host(zone)
    named = {
        "here": Placed(here, generation=2, observed=2, resized_at=NOW),
        "here before": Placed(here, generation=3, observed=3, resized_at=NOW - 1),
        "in a child": Placed(generation=4, observed=4, resized_at=0.5),
        "back from a child": Placed(((CHILD, ENDED), *here), generation=5, observed=5, resized_at=NOW - 2),
        "not long enough": Placed(here, observed=1, resized_at=NOW + 1),
        "none": Placed(here, observed=1),
        "acted on": Placed(here, observed=0, resized_at=NOW),
        "a parent's": Placed(here, caller_id="parent-1", observed=1, resized_at=NOW),
        "being built": Placed(here, status=InstanceStatus.BUILD, observed=1, resized_at=NOW),
    }
    names = put(zone, named)

    def found(most: int, skip: int = 0, *, in_children: bool) -> list[tuple[str, int]]:
        rows = zone.store.read(
            lambda tx: instance_states.unconfirmed(tx, zone.uuid, NOW, most, skip, in_children=in_children)
        )
        return [(names[uuid], generation) for uuid, generation in rows.items()]

    # when, then
    local = [("back from a child", 5), ("here before", 3), ("here", 2)]
    assert found(9, in_children=False) == local
    assert found(9, in_children=True) == [("in a child", 4), *local]
    assert found(2, 1, in_children=True) == local[:2]


def test_the_flavor_that_an_instance_has_is_that_of_a_resize_that_is_done_and_not_over(
    tmp_path: Path,
) -> None:
    # given
    zone = a_zone(tmp_path)
    named = {
        "never resized": Placed(),
        "resizing": Placed(resizes=Resizes(3, 1, 1), resizes_done=Resizes(2, 1, 1)),
        "resized": Placed(resizes=Resizes(3, 1, 1), resizes_done=Resizes(3, 1, 1)),
    }
    names = put(zone, named)
    # when
    members = zone.store.read(lambda tx: instances.members(tx, zone.uuid, RESERVATION))
    # then
    states = zone.store.read(lambda tx: instance_states.read(tx, list(names)))
    found = {names[member.uuid]: member.form.flavor for member in members}
    assert found == {"never resized": BOOTED, "resizing": BOOTED, "resized": FLAVOR}
    assert found == {names[uuid]: row.state.present_flavor for uuid, row in states.items()}
