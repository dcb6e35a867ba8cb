"""The single rules that a boot rests on, each seen alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, a_small_tree, boot, counts, rows
from tests.builders.crashes import heal, inconsistencies
from tests.builders.one_zone import a_zone, put_instance, put_place, put_reservation, sql
from tests.builders.sealed_builds import UUID, Attempted, Stage, larger, offered
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead, Tamper
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.model.request_spec import Image
from zonesched.services import background
from zonesched.services.boot.boot_progress import Progress, Step, next_step, progress
from zonesched.store.instances import Member
from zonesched.store.placements import AskedChild, ClaimedHost, Placement
from zonesched.store.reservations import ReservationState


def test_a_batch_that_cannot_be_whole_is_placed_nowhere(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)

    boot(tree, num_instances=27)
    tree.settle()

    assert [rows(tree, name) for name in tree.nodes] == [[], [], [], []]


def test_a_child_holds_longer_than_its_parent(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    for name in ("region", "leaf-a", "leaf-b"):
        tree.network.fault(tree.nodes[name].url, Dead(path="/confirm"))
    boot(tree)
    tree.settle(1)

    root = {uuid: expires_at for uuid, _, _, expires_at in rows(tree, "root")}
    region = {uuid: expires_at for uuid, _, _, expires_at in rows(tree, "region")}
    leaf = {uuid: expires_at for uuid, _, _, expires_at in rows(tree, "leaf-a")}

    assert region
    assert all(root[uuid] < expires_at for uuid, expires_at in region.items())
    assert all(region[uuid] < expires_at for uuid, expires_at in leaf.items())


def test_a_hold_that_is_gone_when_it_is_confirmed_is_replaced(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    leaf = tree.nodes["leaf-b"]
    cancelled: list[str] = []

    def cancel_after_hold(body: bytes) -> bytes:
        """The child loses its holds after it has told of them."""
        for uuid, number, state, _ in rows(tree, "leaf-b"):
            if state == "held":
                cancelled.append(uuid)
                leaf.client("parent-root").post(
                    f"/reservations/{reservation_id}/cancel", {"builds": [{"uuid": uuid, "attempt": number}]}
                )
        return body

    tree.network.fault(leaf.url, Tamper(cancel_after_hold, times=1, path="/servers"))
    reservation_id = boot(tree)
    tree.settle()
    heal(tree)

    assert cancelled
    assert counts(tree, reservation_id) == {"BUILD": 12}
    assert inconsistencies(tree) == []


def test_what_nobody_confirms_is_given_back(stage: Stage) -> None:
    assert stage.send(stage.good()).json["builds"][0]["state"] == "held"
    used = "SELECT sum(used) FROM inventories"
    assert rows(stage.tree, "leaf", used) != [(0,)]

    stage.tree.clock.advance(31)
    background.reap(stage.tree.nodes["leaf"].zone)

    assert rows(stage.tree, "leaf", used) == [(0,)]
    assert [state for _, _, state, _ in rows(stage.tree, "leaf")] == ["gone"]


def test_a_reservation_is_for_one_request(stage: Stage) -> None:
    """Its instances may have been resized or rebuilt since, and come with another flavor or image."""
    assert stage.send(stage.good()).status == 202
    other = replace(stage.spec, hints={"level": "1"})
    blob = offered(stage.tree, "leaf", "parent-root", other)[0]

    answer = stage.send(Attempted(blob, other, uuid=UUID.format(2)))

    assert (answer.status, answer.json["badRequest"]["error_code"]) == (400, "blob_refused")


def test_an_instance_of_a_reservation_may_come_with_the_image_that_it_was_rebuilt_from(stage: Stage) -> None:
    assert stage.send(stage.good()).status == 202
    other = replace(stage.spec, image=Image("other", "other"))
    blob = offered(stage.tree, "leaf", "parent-root", other)[0]

    answer = stage.send(Attempted(blob, other, uuid=UUID.format(2)))

    assert (answer.status, answer.json["builds"][0]["state"]) == (202, "held")
    images = rows(stage.tree, "leaf", "SELECT uuid, image FROM instance_states")
    assert [(uuid, json.loads(image)["id"]) for uuid, image in images] == [(UUID.format(2), "other")]


def test_an_instance_of_a_reservation_may_come_with_the_flavor_that_it_was_resized_to(stage: Stage) -> None:
    assert stage.send(stage.good()).status == 202
    resized = larger(stage.spec)
    blob = offered(stage.tree, "leaf", "parent-root", resized)[0]

    answer = stage.send(Attempted(blob, resized, uuid=UUID.format(2)))

    assert (answer.status, answer.json["builds"][0]["state"]) == (202, "held")
    claims = "SELECT resources FROM placements ORDER BY uuid"
    vcpus = [json.loads(text)["VCPU"] for (text,) in rows(stage.tree, "leaf", claims)]
    assert vcpus == [stage.spec.flavor.vcpus, 4]


def test_an_instance_of_another_parent_takes_no_build(stage: Stage) -> None:
    # Given
    first = stage.send(stage.good())
    assert first.json["builds"][0]["state"] == "held"
    stage.tree.clock.advance(31)
    background.reap(stage.tree.nodes["leaf"].zone)
    blob = offered(stage.tree, "leaf", "stranger", stage.spec)[0]
    (before,) = sql(stage.tree.nodes["leaf"].zone, "SELECT * FROM instances")

    # When
    answer = stage.send(Attempted(blob, stage.spec, attempt=2, user="stranger"))

    # Then: it goes to an instance of its own
    assert answer.json["builds"][0]["state"] == "held"
    assert stage.send(stage.good()).json["builds"][0]["state"] == "gone"
    after = sql(stage.tree.nodes["leaf"].zone, "SELECT * FROM instances")
    assert len(after) == 2
    assert before in after


def test_a_later_attempt_waits_for_the_end_of_the_earlier_one(stage: Stage) -> None:
    stage.send(stage.good())

    answer = stage.send(replace(stage.good(number=1), attempt=2))

    assert answer.status == 400
    assert [state for _, _, state, _ in rows(stage.tree, "leaf")] == ["held"]


def errors_of(tree: Tree, reservation_id: str) -> list[str]:
    shown = tree.nodes["root"].client().get(f"/reservations/{reservation_id}").json["reservation"]
    return [line["code"] for line in shown["reasons"]]


def selects_sent(tree: Tree, name: str) -> int:
    url = tree.nodes[name].url
    return sum(sent.url.startswith(url) and "/zones/select" in sent.url for sent in tree.network.sent)


@pytest.mark.parametrize("body", [{}, {"group_policy": "affinity"}], ids=["spread", "affinity"])
def test_a_boot_waits_for_a_zone_that_is_just_started_again(tmp_path: Path, body: dict[str, str]) -> None:
    tree = a_small_tree(tmp_path)
    leaf = tree.nodes["leaf-b"]
    tree.register("leaf-b", [a_host("b2", vcpus=40, ram_mb=65536)])
    tree.poll()
    tree.network.fault(leaf.url, Dead())
    request = {
        "server": {"name": "vm", "flavorRef": "small", "num_instances": 20},
        "os:scheduler_hints": body,
    }
    reservation_id = tree.nodes["root"].client().post("/zones/boot", request).json["reservation_id"]
    tree.settle(3)
    waiting = counts(tree, reservation_id)

    tree.clock.advance(2.0)
    tree.settle(1)
    tree.network.heal(leaf.url)
    tree.clock.advance(4.0)
    tree.settle(1)

    assert waiting == {"BUILD": 20}
    assert counts(tree, reservation_id) == {"BUILD": 20}
    assert inconsistencies(tree) == []


def test_a_boot_that_lacks_a_zone_asks_again_after_growing_pauses_and_ends(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    tree.network.fault(tree.nodes["leaf-b"].url, Dead(path="/zones/select"))
    reservation_id = boot(tree, num_instances=20)
    asked: list[int] = []

    for _ in range(8):
        tree.settle(1)
        asked.append(selects_sent(tree, "region"))
        tree.clock.advance(1.0)

    assert asked == [1, 1, 2, 2, 2, 2, 3, 3]
    assert counts(tree, reservation_id) == {"ERROR": 20}
    assert errors_of(tree, reservation_id) == ["no_valid_host_incomplete"]


def test_a_boot_whose_offers_nobody_holds_for_want_of_answers_ends_saying_so(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    tree.network.fault(tree.nodes["region"].url, Dead(path="/servers"))
    reservation_id = boot(tree, num_instances=20)

    for _ in range(8):
        tree.settle(1)
        tree.clock.advance(40.0)
        tree.poll()

    assert selects_sent(tree, "region") == 3
    assert counts(tree, reservation_id) == {"ERROR": 20}
    assert errors_of(tree, reservation_id) == ["no_valid_host_incomplete"]


def a_tree_that_grew(folder: Path) -> Tree:
    """Root and region without hosts, polled; the region has got a leaf since."""
    tree = Tree(folder)
    tree.add("root")
    tree.add("region", parent="root")
    tree.poll()
    tree.add("leaf", parent="region", hosts_=[a_host("l1")])
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    return tree


def test_a_boot_ends_as_incomplete_while_a_new_zone_below_has_not_reported(tmp_path: Path) -> None:
    tree = a_tree_that_grew(tmp_path)

    reservation_id = boot(tree, num_instances=1)
    for _ in range(8):
        tree.settle(1)
        tree.clock.advance(5.0)

    assert errors_of(tree, reservation_id) == ["no_valid_host_incomplete"]


def test_hosts_that_a_child_got_since_its_last_poll_are_found(tmp_path: Path) -> None:
    tree = a_tree_that_grew(tmp_path)
    tree.nodes["region"].zone.children.poll()

    reservation_id = boot(tree, num_instances=1)
    tree.settle(1)

    assert (counts(tree, reservation_id), len(rows(tree, "leaf"))) == ({"BUILD": 1}, 1)


def test_a_child_without_hosts_says_so_itself(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.add("root")
    tree.add("leaf", parent="root")
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)

    reservation_id = boot(tree, num_instances=1)
    tree.settle(1)

    assert errors_of(tree, reservation_id) == ["no_valid_host"]


def test_a_boot_that_everybody_refuses_after_a_zone_was_silent_ends_for_want_of_room(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)

    def disable_all_and_say_nothing(body: bytes) -> bytes:
        for name in ("root", "leaf-a", "leaf-b"):
            admin = tree.nodes[name].client()
            for host in admin.get("/os-hypervisors").json["hypervisors"]:
                admin.call("PUT", f"/os-services/{host['id']}", {"status": "disabled"})
        return b"{}"

    tree.network.fault(
        tree.nodes["region"].url, Tamper(disable_all_and_say_nothing, times=1, path="/servers")
    )
    reservation_id = boot(tree, num_instances=20)
    tree.settle()

    assert counts(tree, reservation_id) == {"ERROR": 20}
    assert errors_of(tree, reservation_id) == ["no_valid_host"]


def test_a_boot_that_does_not_fit_anywhere_ends_at_once(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)

    reservation_id = boot(tree, num_instances=27)
    tree.settle(1)

    assert errors_of(tree, reservation_id) == ["no_valid_host"]


def test_what_is_held_is_not_kept_waiting_beyond_its_hold_for_a_silent_zone(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path, retry_pause=60.0)
    leaf = tree.nodes["leaf-b"]
    tree.network.fault(leaf.url, Tamper(lambda body: body.replace(b"held", b"failed"), path="/servers"))
    select = "/zones/select"
    tree.network.fault(leaf.url, Tamper(lambda body: silence(tree) or body, times=1, path=select))
    boot(tree, num_instances=26)

    tree.settle(1)

    ((due_at,),) = rows(tree, "root", "SELECT next_work_at FROM reservations WHERE state = 'open'")
    holds = [expires_at for _, _, state, expires_at in rows(tree, "root") if state == "held"]
    assert holds
    assert tree.clock.now() < due_at == min(holds) - 5.0


def silence(tree: Tree) -> None:
    """From here on nobody hears the leaf's offers."""
    tree.network.fault(tree.nodes["leaf-b"].url, Dead(path="/zones/select"))


@pytest.mark.slow
def test_an_instance_deleted_before_any_write_of_the_worker(tmp_path: Path) -> None:
    at, happened = 1, True
    while happened:
        at += 1
        (tmp_path / str(at)).mkdir()
        tree = a_small_tree(tmp_path / str(at))
        reservation_id = boot(tree)
        root = tree.nodes["root"]
        uuid = root.client().get("/servers").json["servers"][0]["id"]
        happened = before_write(tree, at, partial(root.client().delete, f"/servers/{uuid}"))

        heal(tree)

        assert inconsistencies(tree) == [], f"deleted before write {at}"
        assert counts(tree, reservation_id)["BUILD"] == (11 if happened else 12)
    assert at > 4


def before_write(tree: Tree, at: int, act: Callable[[], Any]) -> bool:
    """Run one worker of the root; `act` comes before its n-th write. Whether there was such a write."""
    store = tree.nodes["root"].zone.store
    write = store.write
    writes: list[int] = []

    def counted(fn: Callable[[Any], Any]) -> Any:
        writes.append(1)
        if len(writes) == at:
            store.write = write  # type: ignore[method-assign]
            act()
        return write(fn)

    store.write = counted  # type: ignore[method-assign]
    background.work_on_boots(tree.nodes["root"].zone)
    store.write = write  # type: ignore[method-assign]
    return len(writes) >= at


NOW = 1000.0


def a_place(state: PlacementState, hold_expires_at: float = NOW + 30) -> Placement:
    return Placement("u", 1, "z", "r", ClaimedHost("h", {}), state, "", hold_expires_at, 0.0)


def a_member() -> Member:
    return Member("u", InstanceStatus.BUILD, 0, "", 0)


def at_(needing: int = 0, late: int = 0, **places: int) -> Progress:
    groups = {name: (a_place(PlacementState.HELD),) * count for name, count in places.items()}
    groups["held"] = groups.get("held", ()) + (a_place(PlacementState.HELD, NOW + 4),) * late
    names = ("unanswered", "waiting", "held", "confirming", "confirmed")
    places_by_name: dict[str, Any] = {n: groups.get(n, ()) for n in names}
    return Progress(needing=(a_member(),) * needing, **places_by_name)


STEPS = [
    # what there is of 3 instances, whole, can_place -> step
    (at_(needing=3), False, True, Step.PLACE),
    (at_(needing=3), False, False, Step.GIVE_UP),
    (at_(needing=1, unanswered=2), False, True, Step.SEND),
    (at_(waiting=1, held=2), False, True, Step.WAIT),
    (at_(needing=1, waiting=1, held=1), False, False, Step.WAIT),
    (at_(held=3), False, True, Step.CONFIRM),
    (at_(held=2, late=1), False, True, Step.DROP_LATE),
    (at_(needing=1, held=2), False, False, Step.GIVE_UP),
    (at_(needing=1, held=2), True, True, Step.DROP_HELD),
    (at_(needing=1, waiting=2), True, True, Step.WAIT),
    (at_(needing=1, confirmed=2), True, True, Step.GIVE_UP),
    (at_(needing=1, confirmed=2), False, True, Step.PLACE),
    (at_(needing=1, confirmed=2), False, False, Step.GIVE_UP),
    (at_(confirming=1, confirmed=2), False, True, Step.FINISH),
]


@pytest.mark.parametrize(("at", "whole", "can_place", "step"), STEPS)
def test_the_next_step_follows_from_the_rows(at: Progress, whole: bool, can_place: bool, step: Step) -> None:
    assert next_step(at, min_count=3, whole=whole, can_place=can_place, now=NOW, hold_margin_s=5.0) is step


@pytest.mark.parametrize(
    ("at", "step"),
    [
        (at_(waiting=1, held=2), Step.CONFIRM),
        (at_(waiting=1, held=1, late=1), Step.DROP_LATE),
        (at_(waiting=1, confirmed=2), Step.WAIT),
        (at_(waiting=2, held=1), Step.WAIT),
    ],
)
def test_what_is_enough_waits_for_no_cancel(at: Progress, step: Step) -> None:
    assert next_step(at, min_count=2, whole=False, can_place=True, now=NOW, hold_margin_s=5.0) is step


def test_with_less_than_all_wanted_the_rest_is_closed() -> None:
    at = at_(needing=1, confirmed=2)
    assert next_step(at, min_count=2, whole=False, can_place=False, now=NOW, hold_margin_s=5.0) is Step.CLOSE


def test_a_server_on_its_way_back_from_a_failed_move_counts_as_placed() -> None:
    returning = Member("u", InstanceStatus.ACTIVE, 1, "", 0)
    places = [a_place(PlacementState.PARKED), replace(a_place(PlacementState.RELEASING), number=2)]

    at = progress([returning], places)

    assert (at.wanted, at.promised, at.confirmed) == (1, 1, (places[0],))


@pytest.mark.parametrize(("places_at", "step"), [(NOW + 1, Step.WAIT), (NOW, Step.PLACE)])
def test_no_place_is_looked_for_while_a_silent_zone_is_given_time(places_at: float, step: Step) -> None:
    at = at_(needing=1, held=2)
    found = next_step(
        at, min_count=3, whole=False, can_place=True, now=NOW, hold_margin_s=5.0, places_at=places_at
    )
    assert found is step


def test_a_boot_whose_hold_is_over_and_not_yet_reaped_waits_a_pause_and_does_not_spin(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, retry_pause=2.0)
    put_reservation(zone, state=ReservationState.OPEN)
    uuid = put_instance(zone, status=InstanceStatus.BUILD)
    over = zone.clock.now() - 1
    put_place(zone, uuid, AskedChild("c", ("b",)), state=PlacementState.CANCELLING, hold_expires_at=over)

    steps = [background.work_on_boots(zone) for _ in range(2)]

    assert steps == [0.0, 2.0]
