"""Work that follows rows goes on, or waits and says why; it never takes the same step for ever."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from tests.builders.boots import a_small_tree, boot, counts, delete_all, rows
from tests.builders.crashes import inconsistencies
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Tamper, WsgiApp
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.services import background
from zonesched.services.boot import leased_boot, provision
from zonesched.services.boot.boot_progress import Step, next_step, progress, with_holds, with_places
from zonesched.services.children import children
from zonesched.store import reservations
from zonesched.store.instances import Member
from zonesched.store.placements import AskedChild, Placement


def test_a_boot_whose_instances_were_all_deleted_is_over(tmp_path: Path) -> None:
    # Given a boot that nobody has worked on
    tree = a_small_tree(tmp_path)
    root = tree.nodes["root"].zone
    reservation_id = boot(tree, num_instances=2)

    # When
    delete_all(tree)
    tree.settle()

    # Then
    assert counts(tree, reservation_id) == {"DELETED": 2}
    assert rows(tree, "root", "SELECT state FROM reservations") == [("settled",)]
    assert background.work_on_boots(root) > 0.0


@pytest.mark.timeout(30)
def test_a_boot_whose_step_changes_nothing_is_postponed_and_named_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Given a boot that is given a step with nothing to do
    tree = a_small_tree(tmp_path)
    root = tree.nodes["root"].zone
    reservation_id = boot(tree, num_instances=2)
    right_step = next_step
    monkeypatch.setattr(provision, "next_step", lambda *_, **__: Step.CLOSE)
    monkeypatch.setattr(provision._Boot, "_end", lambda self, *ended: None)

    # When
    with caplog.at_level(logging.ERROR):
        background.work_on_boots(root)

    # Then it waits
    (line,) = [record.getMessage() for record in caplog.records if reservation_id in record.getMessage()]
    assert "close changed nothing" in line
    assert background.work_on_boots(root) > 0.0
    assert counts(tree, reservation_id) == {"BUILD": 2}

    # And goes on where another step is found
    monkeypatch.setattr(provision, "next_step", right_step)
    tree.clock.advance(60)
    tree.poll()
    tree.settle()
    assert background.work_on_boots(root) > 0.0
    assert {row[2] for row in rows(tree, "root")} == {"confirmed"}


UUIDS = ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"]
NEW_BOOT = progress([Member(uuid, InstanceStatus.BUILD, 0, "", 0) for uuid in UUIDS], ())


def a_place(uuid: str, state: PlacementState) -> Placement:
    return Placement(uuid, 1, "me", "boot", AskedChild("child", ("blob",)), state, "", 60.0, 90.0)


def test_places_that_were_just_written_lead_to_the_same_step_as_their_rows() -> None:
    made = [a_place(UUIDS[0], PlacementState.INTENDED), a_place(UUIDS[1], PlacementState.HELD)]
    read = progress([Member(uuid, InstanceStatus.BUILD, 1, "", 0) for uuid in UUIDS], made)

    assert with_places(NEW_BOOT, made) == read
    assert (read.unanswered, read.held) == ((made[0],), (made[1],))


@pytest.mark.parametrize(
    "made",
    [[], [a_place(UUIDS[0], PlacementState.INTENDED)], [a_place(u, PlacementState.FAILED) for u in UUIDS]],
    ids=["none", "one of two", "refused"],
)
def test_places_that_leave_an_instance_without_one_are_read(made: list[Placement]) -> None:
    assert with_places(NEW_BOOT, made) is None


SENT = [a_place(uuid, PlacementState.INTENDED) for uuid in UUIDS]
SENT_BOOT = progress([Member(uuid, InstanceStatus.BUILD, 1, "", 0) for uuid in UUIDS], SENT)


def test_holds_that_were_just_answered_lead_to_the_same_step_as_their_rows() -> None:
    held = [p.in_state(PlacementState.HELD, hold_expires_at=50.0) for p in SENT]
    read = progress([Member(uuid, InstanceStatus.BUILD, 1, "", 0) for uuid in UUIDS], held)

    assert with_holds(SENT_BOOT, held[::-1]) == read
    assert [(p.state, p.hold_expires_at) for p in read.held] == [(PlacementState.HELD, 50.0)] * 2


@pytest.mark.parametrize("held", [0, 1])
def test_a_boot_of_which_not_all_was_held_is_read(held: int) -> None:
    assert (
        with_holds(SENT_BOOT, [p.in_state(PlacementState.HELD, hold_expires_at=50.0) for p in SENT[:held]])
        is None
    )


def test_a_boot_over_children_ends_with_the_write_that_records_their_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = a_small_tree(tmp_path)
    reservation_id = boot(tree, num_instances=12)
    steps: list[Step] = []
    take = provision._Boot.take

    def note_and_take(self: provision._Boot, step: Step) -> None:
        steps.append(step)
        take(self, step)

    def read_again(*_: object) -> None:
        raise AssertionError("the rows were read once more")

    monkeypatch.setattr(provision._Boot, "take", note_and_take)
    monkeypatch.setattr(provision._Boot, "give_back", read_again)
    monkeypatch.setattr(leased_boot, "_rows_of", read_again)
    background.work_on_boots(tree.nodes["root"].zone)

    assert steps == [Step.PLACE, Step.SEND]
    assert rows(tree, "root", "SELECT state FROM reservations") == [("settled",)]
    assert {row[2] for row in rows(tree, "root")} == {"confirmed"}
    assert counts(tree, reservation_id) == {"BUILD": 12}


def test_a_boot_that_is_woken_while_children_confirm_is_due_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = a_small_tree(tmp_path)
    reservation_id = boot(tree, num_instances=12)
    root = tree.nodes["root"].zone
    deliver = tree.network._deliver

    def wake_and_deliver(app: WsgiApp, request: requests.PreparedRequest) -> requests.Response:
        if str(request.url).endswith("/confirm"):
            root.store.write(lambda tx: reservations.wake(tx, root.uuid, reservation_id))
        return deliver(app, request)

    monkeypatch.setattr(tree.network, "_deliver", wake_and_deliver)
    background.work_on_boots(root)
    assert rows(tree, "root", "SELECT state, next_work_at FROM reservations") == [("open", 0.0)]

    tree.clock.advance(10)
    assert background.work_on_boots(root) == 0.0
    assert rows(tree, "root", "SELECT state FROM reservations") == [("settled",)]


def test_an_instance_that_is_deleted_while_children_hold_is_not_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a boot of which children are just asked to hold
    tree = a_small_tree(tmp_path)
    reservation_id = boot(tree, num_instances=12)
    root = tree.nodes["root"]
    deliver = tree.network._deliver
    deleted: list[str] = []

    def delete_and_deliver(app: WsgiApp, request: requests.PreparedRequest) -> requests.Response:
        if str(request.url).endswith("/servers") and request.method == "POST" and not deleted:
            statement = "SELECT uuid FROM placements WHERE state = 'intended' ORDER BY uuid LIMIT 1"
            deleted.append(rows(tree, "root", statement)[0][0])
            assert root.client().delete(f"/servers/{deleted[0]}").status == 204
        return deliver(app, request)

    # When one of its instances is deleted meanwhile
    monkeypatch.setattr(tree.network, "_deliver", delete_and_deliver)
    background.work_on_boots(root.zone)

    # Then the others are confirmed, and its place is given back
    states = {row[0]: row[2] for row in rows(tree, "root")}
    assert states.pop(deleted[0]) in ("cancelling", "gone")
    assert set(states.values()) == {"confirmed"}
    tree.settle()
    assert counts(tree, reservation_id) == {"BUILD": 11, "DELETED": 1}
    assert inconsistencies(tree) == []


def lose_a_child(tree: Tree) -> None:
    root = tree.nodes["root"].zone
    (child_id,) = [k.child.id for k in root.children.snapshot() if k.child.name == "region"]
    children.remove(root, child_id, force=True)


def wait_for_the_end_of_the_holds(tree: Tree) -> None:
    conf = tree.nodes["root"].zone.conf
    tree.clock.advance(conf.hold - conf.hold_margin + 1)


@pytest.mark.parametrize("happens", [lose_a_child, wait_for_the_end_of_the_holds])
def test_nothing_is_confirmed_before_all_have_a_hold_with_time_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: Callable[[Tree], None]
) -> None:
    # Given an all-or-nothing boot in child zones alone
    tree = a_small_tree(tmp_path)
    tree.register("root", [a_host("r1", vcpus=0)])
    reservation_id = boot(tree, num_instances=6)
    deliver = tree.network._deliver
    calls: list[str] = []
    late: list[Callable[[Tree], None]] = [happens]

    def note_and_deliver(app: WsgiApp, request: requests.PreparedRequest) -> requests.Response:
        if str(request.url).startswith((tree.nodes["region"].url, tree.nodes["leaf-b"].url)):
            called = str(request.url).rsplit("/", 1)[1]
            calls.extend({"servers", "confirm"} & {called})
        response = deliver(app, request)
        if calls == ["servers", "servers"] and late:
            late.pop()(tree)
        return response

    # When some holds are lost or nearly over after the children have given all of them
    monkeypatch.setattr(tree.network, "_deliver", note_and_deliver)
    background.work_on_boots(tree.nodes["root"].zone)
    tree.settle()

    # Then confirms go out after the holds in their place
    assert not late
    assert "servers" in calls[2:]
    assert "servers" not in calls[calls.index("confirm") :]
    assert counts(tree, reservation_id) == {"BUILD": 6}


def test_a_place_that_is_lost_at_its_confirm_is_found_anew(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    reservation_id = boot(tree, num_instances=2)

    def gone(body: bytes) -> bytes:
        return body.replace(b'"confirmed"', b'"gone"')

    tree.network.fault(tree.nodes["leaf-b"].url, Tamper(times=1, path="/confirm", change=gone))
    tree.network.fault(tree.nodes["region"].url, Tamper(times=1, path="/confirm", change=gone))
    background.work_on_boots(tree.nodes["root"].zone)

    states = [row[2] for row in rows(tree, "root")]
    assert (states.count("confirmed"), counts(tree, reservation_id)) == (2, {"BUILD": 2})
    assert rows(tree, "root", "SELECT state FROM reservations") == [("settled",)]
