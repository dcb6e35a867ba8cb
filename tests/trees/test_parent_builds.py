"""The builds of one parent: each is decided at once, and tells nothing of other callers or lower zones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.one_zone import sql
from tests.builders.parent_calls import (
    RESERVATION,
    a_parent,
    a_spec,
    cancel,
    confirm,
    hold,
    of_builds,
    offered,
    send,
    send_choices,
    uuid,
)
from tests.builders.scenes import built_once
from tests.builders.tree import Node, Tree, a_host
from tests.builders.wsgi_transport import Dead, LostReply
from zonesched.model.request_spec import RequestSpec
from zonesched.services.parent import hold as hold_service
from zonesched.store import placements


def test_one_entry_named_in_several_builds_of_a_call_builds_one_and_ends_the_others(tmp_path: Path) -> None:
    # Given
    tree = Tree(tmp_path)
    leaf = tree.add("leaf", hosts_=[a_host("leaf-1")])
    parent = a_parent(leaf, "parent-a")
    (blob,) = offered(leaf, parent, a_spec(1))

    # When
    answer = send(leaf, parent, a_spec(1), {1: blob, 2: blob, 3: blob})

    # Then
    assert of_builds(answer, "state") == ["held", "gone", "gone"]
    assert of_builds(confirm(leaf, parent, [1, 2, 3]), "state") == ["confirmed", "gone", "gone"]
    shown = leaf.client(parent).get(f"/reservations/{RESERVATION}").json["reservation"]
    assert [one["uuid"] for one in shown["instances"]] == [uuid(1)]
    assert leaf.client(parent).get(f"/servers/{uuid(2)}").status == 404


def test_failures_of_another_caller_under_the_same_request_id_take_no_host_away(tmp_path: Path) -> None:
    # Given: a host with room for one, offered to two parents whose requests have one id
    tree = Tree(tmp_path)
    leaf = tree.add("leaf", hosts_=[a_host("leaf-1", vcpus=2)])
    first, second = a_parent(leaf, "parent-a"), a_parent(leaf, "parent-b")
    spec = a_spec(1)
    (mine,), (others,) = offered(leaf, first, spec), offered(leaf, second, spec)
    assert of_builds(send(leaf, first, spec, {1: mine}), "state") == ["held"]

    # When: the other one's claim fails there, and the first one gives its own back
    assert of_builds(send(leaf, second, spec, {2: others}), "state") == ["failed"]
    leaf.client(first).post(
        f"/reservations/{RESERVATION}/cancel", {"builds": [{"uuid": uuid(1), "attempt": 1}]}
    )

    # Then
    assert len(offered(leaf, first, spec)) == 1
    assert offered(leaf, second, spec) == []


def a_forest(tmp_path: Path) -> tuple[Tree, Node, str]:
    """A zone with a host and two children, one of which holds for a shorter time; and its parent."""
    tree = Tree(tmp_path)
    middle = tree.add("middle", hosts_=[a_host("middle-1", vcpus=4)])
    tree.add("short", parent="middle", hosts_=[a_host("short-1", vcpus=4)], hold=8.0, max_hold=10.0)
    tree.add("long", parent="middle", hosts_=[a_host("long-1", vcpus=4)])
    tree.poll()
    return tree, middle, a_parent(middle, "parent-a")


def test_the_holds_of_one_call_all_end_at_once_whichever_zone_holds_them(tmp_path: Path) -> None:
    # Given
    _, middle, parent = a_forest(tmp_path)
    spec = a_spec(6)
    blobs = offered(middle, parent, spec)
    assert len(blobs) == 6

    # When
    answer = send(middle, parent, spec, dict(enumerate(blobs)))

    # Then
    assert of_builds(answer, "state") == ["held"] * 6
    (hold_s,) = set(of_builds(answer, "hold_s"))
    assert 0.0 < hold_s <= 10.0 - middle.zone.conf.hold_margin
    for number, blob in enumerate(blobs):
        assert of_builds(send(middle, parent, spec, {number: blob}), "hold_s") == [hold_s]


def test_the_holds_of_children_are_written_with_their_common_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, middle, parent = a_forest(tmp_path)
    spec = a_spec(6)
    by_zone = dict(enumerate(offered(middle, parent, spec)))
    shortened: list[object] = []
    monkeypatch.setattr(placements, "shorten_holds", lambda tx, keys, until: shortened.extend(keys))

    send(middle, parent, spec, by_zone)

    # Only the two of the zone's own host, which it had claimed before the children answered.
    assert len(shortened) == 2
    ends = sql(middle.zone, "SELECT DISTINCT hold_expires_at FROM placements WHERE child_id IS NOT NULL")
    assert len(ends) == 1


@built_once
def _two_leaves(folder: Path) -> Tree:
    tree = Tree(folder)
    middle = tree.add("middle")
    for name in ("first", "second"):
        tree.add(name, parent="middle", hosts_=[a_host(f"{name}-1", vcpus=2)])
    tree.poll()
    a_parent(middle, "parent-a")
    return tree


def two_leaves(tmp_path: Path) -> tuple[Tree, Node, str]:
    """A zone with two children that have room for one instance each; and its parent."""
    tree = _two_leaves(tmp_path)
    return tree, tree.nodes["middle"], "parent-a"


def fill(leaf: Node) -> None:
    """Take a leaf's last place for another parent."""
    other = a_parent(leaf, "parent-other")
    (blob,) = offered(leaf, other, a_spec(1))
    assert of_builds(send(leaf, other, a_spec(1), {99: blob}), "state") == ["held"]


def leaves_with(tree: Tree, number: int) -> list[str]:
    """Names of the leaves in which an instance has a claim."""
    query = f"SELECT 1 FROM placements WHERE state = 'held' AND uuid = '{uuid(number)}'"
    return [name for name in ("first", "second") if sql(tree.nodes[name].zone, query)]


@pytest.mark.parametrize("full", ["first", "second"])
@pytest.mark.parametrize("turn", [1, -1])
def test_a_build_that_one_child_refuses_gets_its_next_entry_in_another(
    tmp_path: Path, full: str, turn: int
) -> None:
    # Given: an entry of each leaf, one of which has been filled since
    tree, middle, parent = two_leaves(tmp_path)
    spec = a_spec(2)
    choices = offered(middle, parent, spec)[::turn]
    assert len(choices) == 2
    fill(tree.nodes[full])

    # When
    answer, repeat = (send_choices(middle, parent, spec, {1: choices}) for _ in range(2))

    # Then
    assert of_builds(answer, "state") == of_builds(repeat, "state") == ["held"]
    assert of_builds(answer, "hold_s") == of_builds(repeat, "hold_s") > [20.0]
    assert leaves_with(tree, 1) == [{"first": "second", "second": "first"}[full]]
    assert of_builds(confirm(middle, parent, [1]), "state") == ["confirmed"]


def test_a_confirm_is_pending_until_the_child_has_answered_it(tmp_path: Path) -> None:
    # Given: a hold in a child, whose answers are lost
    tree, middle, parent = two_leaves(tmp_path)
    spec = a_spec(2)
    assert of_builds(send_choices(middle, parent, spec, {1: offered(middle, parent, spec)}), "state") == [
        "held"
    ]
    for name in ("first", "second"):
        tree.network.fault(tree.nodes[name].url, LostReply(path="/reservations"))

    # When
    unanswered = confirm(middle, parent, [1])
    for name in ("first", "second"):
        tree.network.heal(tree.nodes[name].url)
    tree.clock.advance(60.0)
    tree.settle(2)

    # Then
    assert of_builds(unanswered, "state") == ["pending"]
    assert of_builds(confirm(middle, parent, [1]), "state") == ["confirmed"]


def test_a_build_that_all_children_refuse_fails_for_good(tmp_path: Path) -> None:
    tree, middle, parent = two_leaves(tmp_path)
    spec = a_spec(2)
    choices = offered(middle, parent, spec)
    for name in ("first", "second"):
        fill(tree.nodes[name])

    answer, repeat = (send_choices(middle, parent, spec, {1: choices}) for _ in range(2))

    assert of_builds(answer, "state") == of_builds(repeat, "state") == ["failed"]
    assert middle.client(parent).get(f"/servers/{uuid(1)}").json["server"]["status"] == "DELETED"


def test_builds_that_no_child_has_answered_are_sent_again_together_with_new_ones(tmp_path: Path) -> None:
    tree, middle, parent = a_forest(tmp_path)
    spec = a_spec(6)
    blob_of = dict(enumerate(offered(middle, parent, spec)))
    children = [tree.nodes[name].url for name in ("short", "long")]
    for url in children:
        tree.network.fault(url, Dead(path="/servers"))
    first = send(middle, parent, spec, {number: blob_of[number] for number in range(5)})
    assert "pending" in of_builds(first, "state")

    for url in children:
        tree.network.heal(url)
    again = send(middle, parent, spec, blob_of)

    assert of_builds(again, "state") == ["held"] * 6


def test_an_instance_that_was_confirmed_before_its_cancel_is_deleted_in_the_child(tmp_path: Path) -> None:
    # Given: a hold that the zone passed on, and that its child was told to build
    tree, middle, parent = a_forest(tmp_path)
    long = tree.nodes["long"]
    spec = a_spec(6)
    assert (
        of_builds(send(middle, parent, spec, dict(enumerate(offered(middle, parent, spec)))), "state")
        == ["held"] * 6
    )
    there = [row.uuid for row in sql(long.zone, "SELECT uuid FROM placements WHERE state = 'held'")]
    assert len(there) == 2
    attempts = {"builds": [{"uuid": one, "attempt": 1} for one in there]}
    told = long.client("parent-middle").post(f"/reservations/{RESERVATION}/confirm", attempts)
    assert of_builds(told, "state") == ["confirmed"] * 2

    # When
    middle.client(parent).post(f"/reservations/{RESERVATION}/cancel", attempts)
    tree.settle(2)

    # Then: nothing of it is left anywhere
    for node in (middle, long):
        left = sql(node.zone, "SELECT uuid FROM placements WHERE state NOT IN ('released', 'gone')")
        assert not {row.uuid for row in left} & set(there)
        unended = sql(node.zone, "SELECT uuid FROM instances WHERE status != 'DELETED'")
        assert not {row.uuid for row in unended} & set(there)
    assert {long.client("parent-middle").get(f"/servers/{one}").status for one in there} == {404}
    assert sum(row.used for row in sql(long.zone, "SELECT used FROM inventories")) == 0


def test_the_order_of_the_feed_does_not_group_instances_by_zone(tmp_path: Path) -> None:
    # Given: instances that changed one after the other, in an order that is not that of their uuids
    _, middle, parent = a_forest(tmp_path)
    spec = a_spec(6)
    send(middle, parent, spec, dict(enumerate(offered(middle, parent, spec))))
    for number in (4, 1, 5, 0, 3, 2):
        assert of_builds(confirm(middle, parent, [number]), "state") == ["confirmed"]
        assert middle.client(parent).delete(f"/servers/{uuid(number)}").status == 204

    # When
    feed = middle.client(parent).get("/reservations?cursor=").json

    # Then: all of them, in the order of their uuids, and none is left for the next page
    assert [line["uuid"] for line in feed["instances"]] == [uuid(number) for number in range(6)]
    later = middle.client(parent).get(f"/reservations?cursor={feed['cursor']}").json
    assert later["instances"] == []


@pytest.mark.parametrize("is_away", [False, True], ids=["answered", "child away"])
def test_a_confirm_of_an_expired_hold_does_not_tell_whether_a_child_had_it(
    tmp_path: Path, is_away: bool
) -> None:
    # given a hold on a host of a zone, and one in its child
    tree = Tree(tmp_path)
    region = tree.add("region", hosts_=[a_host("r1", vcpus=2)])
    leaf = tree.add("leaf", parent="region", hosts_=[a_host("l1", vcpus=2)])
    tree.poll()
    parent = a_parent(region, "parent-a")
    assert of_builds(hold(region, parent, [1, 2]), "state") == ["held", "held"]
    if is_away:
        tree.network.fault(leaf.url, Dead(path="/cancel", times=1))

    # when they have expired
    tree.clock.advance(31)
    first = confirm(region, parent, [1, 2])
    tree.clock.advance(60)
    tree.settle()
    again = confirm(region, parent, [1, 2])

    # then both have one reason, also of a repeat
    assert of_builds(first, "reason") == of_builds(again, "reason") == ["hold_expired", "hold_expired"]
    assert of_builds(again, "state") == ["gone", "gone"]


LARGER = replace(a_spec(2), flavor=replace(a_spec(2).flavor, ram_mb=20_000))


@pytest.mark.parametrize(
    "other", [LARGER, replace(a_spec(2), project_id="project-2")], ids=["flavor", "project"]
)
def test_a_repeat_with_another_request_uses_no_entry_of_the_first_one(
    tmp_path: Path, other: RequestSpec
) -> None:
    # given a build with an entry of a child, which did not answer and is full since, and one of a local host
    tree = Tree(tmp_path)
    middle = tree.add("middle", hosts_=[a_host("middle-1", vcpus=2)])
    leaf = tree.add("leaf", parent="middle", hosts_=[a_host("leaf-1", vcpus=2, ram_mb=65_536)])
    tree.poll()
    parent = a_parent(middle, "parent-a")
    in_child, on_host = offered(middle, parent, a_spec(2))
    tree.network.fault(leaf.url, Dead(path="/servers"))
    first = send_choices(middle, parent, a_spec(2), {1: [in_child, on_host]})
    assert of_builds(first, "state") == ["pending"]
    tree.network.heal(leaf.url)
    fill(leaf)

    # when it is repeated with another request
    repeat = send_choices(middle, parent, other, {1: [in_child, on_host]})

    # then what is stored is the answer, and the first request still gets its next entry
    assert of_builds(repeat, "state") == ["pending"]
    assert of_builds(send_choices(middle, parent, a_spec(2), {1: [in_child]}), "state") == ["held"]
    claimed = sql(middle.zone, "SELECT resources FROM placements WHERE state = 'held'")
    assert [json.loads(row.resources)["MEMORY_MB"] for row in claimed] == [2048]


def test_an_attempt_that_was_left_for_a_later_one_is_given_no_further_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a build whose first entry was lost, in a zone that died before it tried the second one
    tree = Tree(tmp_path)
    zone = tree.add("zone", hosts_=[a_host(f"host-{n}", vcpus=2) for n in range(3)])
    parent, other = a_parent(zone, "parent-a"), a_parent(zone, "parent-other")
    lost, spare, later = offered(zone, parent, a_spec(3))
    hosts_of_others = dict(enumerate(offered(zone, other, a_spec(3)), start=97))
    assert of_builds(send(zone, other, a_spec(3), hosts_of_others), "state") == ["held"] * 3
    with monkeypatch.context() as dying:
        dying.setattr(hold_service, "_try_next", lambda *args: 1 / 0)
        assert send_choices(zone, parent, a_spec(3), {1: [lost, spare]}).status == 500
    cancel(zone, other, [97, 98, 99])

    # when its parent sends a later attempt, and the first one is repeated
    assert of_builds(send(zone, parent, a_spec(3), {1: later}, attempt=2), "state") == ["held"]
    repeat = send_choices(zone, parent, a_spec(3), {1: [lost, spare]})

    # then the instance has one place
    assert of_builds(repeat, "state") == ["failed"]
    assert len(sql(zone.zone, "SELECT 1 FROM placements WHERE state = 'held'")) == 1


@pytest.mark.parametrize("step", ["cancel", "confirm"])
@pytest.mark.parametrize("reservation_id", [RESERVATION, "44444444-4444-4444-8444-444444444444"])
def test_a_call_about_another_attempt_takes_no_entry_of_this_one(
    tmp_path: Path, step: str, reservation_id: str
) -> None:
    # given an attempt that is held with an entry to spare; one of another boot or an earlier one is over
    tree = Tree(tmp_path)
    zone = tree.add("zone", hosts_=[a_host(f"host-{n}", vcpus=2) for n in range(3)])
    parent = a_parent(zone, "parent-a")
    early, entry, spare = offered(zone, parent, a_spec(3))
    is_same_boot = reservation_id == RESERVATION
    send(zone, parent, a_spec(3), {1: early}, hold_s=1.0)
    tree.clock.advance(2.0)
    cancel(zone, parent, [1])
    held = send_choices(zone, parent, a_spec(3), {1: [entry, spare]}, attempt=2)
    assert of_builds(held, "state") == ["held"]

    # when a parent's call about that one arrives
    about = {"builds": [{"uuid": uuid(1), "attempt": 1 if is_same_boot else 2}]}
    late = zone.client(parent).post(f"/reservations/{reservation_id}/{step}", about)

    # then
    assert of_builds(late, "state") == ["gone"]
    (build,) = sql(zone.zone, "SELECT rest FROM inbound_builds WHERE attempt = 2")
    assert len(json.loads(build.rest)) == 1
