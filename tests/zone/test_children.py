"""Child zones come and go while the zone runs; their credentials never come out."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest

from tests.builders.one_zone import a_zone, boot_below, instance_of, places_of, put_instance, put_place, sql
from tests.builders.stores import statements_written_by
from zonesched.errors import BadRequest, Conflict, NotFound, Unavailable
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.model.views import ChildChange, ChildForm
from zonesched.services.children import children
from zonesched.services.state.child_rows import StoredChildren
from zonesched.services.zone import Zone
from zonesched.store import children as rows
from zonesched.store.placements import AskedChild

State = PlacementState
NORTH = ChildForm("north", "http://127.0.0.1:8775/v2.1/", "root", "s3cret-of-north", 10.0, 2.0)


def cursor_of(zone: Zone, child_id: str) -> str:
    return zone.store.read(rows.cursors)[child_id]


def test_a_child_is_shown_without_its_credential(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)

    view = children.add(zone, NORTH)

    assert (view.name, view.api_url, view.username) == ("north", "http://127.0.0.1:8775/v2.1", "root")
    assert (view.weight_offset, view.weight_scale) == (10.0, 2.0)
    assert (view.is_active, view.state, view.last_error, view.seen_at) == (False, "waiting", "", 0.0)
    assert (
        children.list_children(zone.store, zone.children)
        == [view]
        == [children.show(zone.store, zone.children, view.id)]
    )
    assert NORTH.password not in str(asdict(view))


@pytest.mark.sqlite
def test_the_credential_is_nowhere_in_the_clear_on_disk(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    children.add(zone, NORTH)

    zone.store.close()

    content = b"".join(path.read_bytes() for path in tmp_path.rglob("zone.sqlite*"))
    assert b"127.0.0.1:8775" in content
    assert NORTH.password.encode() not in content


def test_the_zone_manager_knows_a_child_as_soon_as_it_is_added(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)

    view = children.add(zone, NORTH)

    (known,) = zone.children.snapshot()
    assert (known.child.id, known.child.password) == (view.id, NORTH.password)
    assert known.child.weight_scale == 2.0


def test_children_keep_the_order_in_which_they_were_added(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    names = ["zeta", "alpha", "mid", "alpha"]

    for name in names:
        children.add(zone, replace(NORTH, name=name))

    assert [view.name for view in children.list_children(zone.store, zone.children)] == names
    assert len({view.id for view in children.list_children(zone.store, zone.children)}) == 4


def test_a_change_leaves_the_rest_as_it_was(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    before = children.add(zone, NORTH)
    other = children.add(zone, replace(NORTH, name="south"))

    after = children.change(zone, before.id, ChildChange(name="far north", weight_scale=0.5))

    assert after == replace(before, name="far north", weight_scale=0.5)
    assert children.show(zone.store, zone.children, other.id) == other
    assert zone.children.snapshot()[0].child.password == NORTH.password


def test_a_new_credential_takes_the_old_ones_place(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    child_id = children.add(zone, NORTH).id

    children.change(zone, child_id, ChildChange(username="other", password="changed"))

    child = zone.children.snapshot()[0].child
    assert (child.username, child.password) == ("other", "changed")


def test_a_new_url_starts_reading_from_the_beginning(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    child_id = children.add(zone, NORTH).id
    zone.store.write(lambda tx: rows.set_cursor(tx, child_id, "17.x"))

    children.change(zone, child_id, ChildChange(name="renamed"))
    renamed = cursor_of(zone, child_id)
    children.change(zone, child_id, ChildChange(api_url="http://127.0.0.1:9999"))

    assert renamed == "17.x"
    assert cursor_of(zone, child_id) == ""


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "http://root:pw@127.0.0.1:8775",
        "http://169.254.169.254/v2.1",
        "http://8.8.8.8/",
        "http://0x7f000001/",
        "http://[::ffff:169.254.169.254]/",
        "http://127.0.0.1:8775/?a=b",
        "127.0.0.1:8775",
        "",
    ],
)
def test_a_url_that_may_not_be_called_is_refused_and_nothing_is_stored(tmp_path: Path, url: str) -> None:
    zone = a_zone(tmp_path)
    child_id = children.add(zone, NORTH).id

    with pytest.raises(BadRequest) as on_add:
        children.add(zone, replace(NORTH, api_url=url))
    with pytest.raises(BadRequest):
        children.change(zone, child_id, ChildChange(api_url=url))

    assert (on_add.value.code, on_add.value.field) == ("child_url_refused", "zone.api_url")
    assert [view.api_url for view in children.list_children(zone.store, zone.children)] == [
        "http://127.0.0.1:8775/v2.1"
    ]


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_is_above_zero_and_finite(tmp_path: Path, scale: float) -> None:
    zone = a_zone(tmp_path)
    child_id = children.add(zone, NORTH).id

    with pytest.raises(BadRequest) as on_add:
        children.add(zone, replace(NORTH, weight_scale=scale))
    with pytest.raises(BadRequest):
        children.change(zone, child_id, ChildChange(weight_scale=scale))

    assert on_add.value.field == "zone.weight_scale"
    assert [view.weight_scale for view in children.list_children(zone.store, zone.children)] == [2.0]


@pytest.mark.parametrize("offset", [float("nan"), float("-inf")])
def test_an_offset_is_finite(tmp_path: Path, offset: float) -> None:
    with pytest.raises(BadRequest) as refused:
        children.add(a_zone(tmp_path), replace(NORTH, weight_offset=offset))

    assert refused.value.field == "zone.weight_offset"


def test_a_zone_without_a_secret_key_takes_no_children(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, secret_encryption_key="")

    with pytest.raises(Unavailable) as refused:
        children.add(zone, NORTH)

    assert refused.value.code == "zone_has_no_secret_key"
    assert "secret_encryption_key" in refused.value.message
    assert children.list_children(zone.store, zone.children) == []


def test_a_credential_that_cannot_be_read_any_more_stops_no_other_child(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    children.add(zone, NORTH)
    damaged = children.add(zone, replace(NORTH, name="south")).id
    sql(zone, "update children set password = 'AAAA' where id = :id", id=damaged)

    found = StoredChildren(zone.store, zone.secret_box).list_children()

    assert [child.password for child in found] == [NORTH.password, ""]


def test_a_credential_moved_to_another_child_does_not_decrypt(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    one = children.add(zone, NORTH).id
    other = children.add(zone, replace(NORTH, name="south", password="of-south")).id
    sql(
        zone,
        "update children set password = (select password from children where id = :a) where id = :b",
        a=one,
        b=other,
    )

    found = StoredChildren(zone.store, zone.secret_box).list_children()

    assert [child.password for child in found] == [NORTH.password, ""]


def test_a_child_without_instances_is_removed(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    child_id = children.add(zone, NORTH).id
    kept = children.add(zone, replace(NORTH, name="south"))

    children.remove(zone, child_id)

    assert children.list_children(zone.store, zone.children) == [kept]
    assert [known.child.id for known in zone.children.snapshot()] == [kept.id]


@pytest.mark.parametrize(
    "state",
    [
        State.INTENDED,
        State.HELD,
        State.CONFIRMING,
        State.CONFIRMED,
        State.CANCELLING,
        State.RELEASING,
    ],
)
def test_a_child_with_anything_there_stays(tmp_path: Path, state: PlacementState) -> None:
    zone = a_zone(tmp_path)
    child_id = children.add(zone, NORTH).id
    uuid = boot_below(zone, child_id, state)

    with pytest.raises(Conflict) as refused:
        children.remove(zone, child_id)

    assert refused.value.code == "child_has_instances"
    assert [view.id for view in children.list_children(zone.store, zone.children)] == [child_id]
    assert places_of(zone, uuid)[0].state is state


@pytest.mark.parametrize("state", [State.GONE, State.FAILED, State.RELEASED])
def test_what_is_over_holds_no_child(tmp_path: Path, state: PlacementState) -> None:
    zone = a_zone(tmp_path)
    child_id = children.add(zone, NORTH).id
    boot_below(zone, child_id, state)

    children.remove(zone, child_id)

    assert children.list_children(zone.store, zone.children) == []


def test_instances_of_another_child_hold_nobody(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    child_id = children.add(zone, NORTH).id
    boot_below(zone, children.add(zone, NORTH).id)

    children.remove(zone, child_id)

    assert len(children.list_children(zone.store, zone.children)) == 1


@pytest.mark.parametrize("state", [State.CONFIRMING, State.CONFIRMED])
@pytest.mark.parametrize("status", [InstanceStatus.BUILD, InstanceStatus.ACTIVE, InstanceStatus.UNKNOWN])
def test_by_force_what_lives_there_is_lost(
    tmp_path: Path, state: PlacementState, status: InstanceStatus
) -> None:
    zone = a_zone(tmp_path)
    child_id = children.add(zone, NORTH).id
    uuid = boot_below(zone, child_id, state, status=status)

    children.remove(zone, child_id, force=True)

    lost = instance_of(zone, uuid)
    assert (lost.status, lost.reason) == (InstanceStatus.ERROR, "zone_lost")
    assert [(p.state, p.reason) for p in places_of(zone, uuid)] == [(State.RELEASED, "zone_lost")]
    assert children.list_children(zone.store, zone.children) == []
    assert sql(zone, "select state from reservations") == [("open",)]


@pytest.mark.parametrize("state", [State.INTENDED, State.HELD, State.CANCELLING])
def test_by_force_what_was_only_held_there_finds_another_place(tmp_path: Path, state: PlacementState) -> None:
    zone = a_zone(tmp_path)
    child_id = children.add(zone, NORTH).id
    uuid = boot_below(zone, child_id, state, status=InstanceStatus.BUILD)

    children.remove(zone, child_id, force=True)

    assert instance_of(zone, uuid).status is InstanceStatus.BUILD
    assert [(p.state, p.reason) for p in places_of(zone, uuid)] == [(State.GONE, "zone_lost")]
    assert sql(zone, "select state, next_work_at from reservations") == [("open", 0.0)]


def test_by_force_a_deletion_under_way_is_done(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    child_id = children.add(zone, NORTH).id
    uuid = boot_below(zone, child_id, State.RELEASING, status=InstanceStatus.DELETED)

    children.remove(zone, child_id, force=True)

    assert instance_of(zone, uuid).status is InstanceStatus.DELETED
    assert places_of(zone, uuid)[0].state is State.RELEASED


def test_by_force_an_instance_that_moved_on_is_not_touched(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    child_id, other_id = children.add(zone, NORTH).id, children.add(zone, NORTH).id
    uuid = boot_below(zone, child_id, State.CONFIRMED, attempt=2)
    reservation_id = instance_of(zone, uuid).reservation_id
    put_place(zone, uuid, AskedChild(other_id, ()), number=2, reservation_id=reservation_id)

    children.remove(zone, child_id, force=True)

    assert instance_of(zone, uuid).status is InstanceStatus.ACTIVE
    assert [p.state for p in places_of(zone, uuid)] == [State.RELEASED, State.CONFIRMED]


@pytest.mark.sqlite
@pytest.mark.parametrize("state", [State.HELD, State.CONFIRMED])
def test_by_force_a_large_child_keeps_other_writers_waiting_for_as_few_statements_as_a_small_one(
    tmp_path: Path, state: PlacementState
) -> None:
    zone = a_zone(tmp_path)
    statements: list[int] = []
    for count in (2, 20):
        child_id = children.add(zone, NORTH).id
        first = boot_below(zone, child_id, state, status=InstanceStatus.BUILD)
        boot = instance_of(zone, first).reservation_id
        for _ in range(count - 1):
            uuid = put_instance(zone, status=InstanceStatus.BUILD, reservation_id=boot)
            put_place(zone, uuid, AskedChild(child_id, ()), state=state, reservation_id=boot)

        remove = partial(children.remove, zone, child_id, force=True)
        statements.append(len(statements_written_by(zone.store, remove)))

    assert statements[0] == statements[1]
    assert sql(zone, "SELECT DISTINCT reason FROM placements") == [("zone_lost",)]


def test_an_unknown_child_is_not_found(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)

    for call in (
        lambda: children.show(zone.store, zone.children, "none"),
        lambda: children.change(zone, "none", ChildChange(name="x")),
        lambda: children.remove(zone, "none"),
        lambda: children.remove(zone, "none", force=True),
    ):
        with pytest.raises(NotFound) as refused:
            call()
        assert refused.value.code == "zone_not_found"
