"""Work under way between a zone and its neighbours while it is put back from a copy, or recovers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import event

from tests.builders.boots import nothing_is_wrong
from tests.builders.one_zone import sql
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.restored import Before, Scene, a_scene, a_tree
from tests.builders.wsgi_transport import Dead
from zonesched.errors import ChildUnreachable
from zonesched.model.placement import BuildState, InstanceChange, InstanceStatus
from zonesched.services.audit import audit
from zonesched.services.recovery import read_from_children
from zonesched.store import identity, instances, recovery
from zonesched.store.recovery import Kind
from zonesched.zones.child import Changes


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return a_scene(tmp_path)


def test_an_action_that_was_told_after_the_copy_and_is_not_done_is_told_again(scene: Scene) -> None:
    (uuid,) = scene.booted(1)
    copy = scene.copy("leaf")
    # given an action that every zone has accepted, and the agent has not heard of
    assert scene.admin("root").post(f"/servers/{uuid}/action", {"os-stop": None}).status == 202
    for _ in range(3):
        scene.tree.poll(2)
        scene.tree.settle()

    scene.restore("leaf", copy)
    scene.recovered("leaf")
    scene.work()

    assert scene.servers() == {uuid: "SHUTOFF"}
    assert scene.servers("leaf") == {uuid: "SHUTOFF"}
    nothing_is_wrong(scene.tree)


@pytest.mark.parametrize("zone", ["region", "leaf"])
def test_what_its_owner_deletes_during_the_recovery_ends_though_no_row_had_it(
    scene: Scene, zone: str
) -> None:
    kept = scene.booted(1)
    copy = scene.copy(zone)
    (deleted,) = scene.booted(1)

    scene.restore(zone, copy)
    assert scene.admin("root").delete(f"/servers/{deleted}").status == 204
    scene.recovered(zone)
    scene.work()

    assert scene.agents["leaf"].uuids() == kept
    assert scene.claimed_vcpus("leaf") == 2
    assert all(scene.audit(name) == [] for name in scene.tree.nodes)


def test_an_instance_that_changes_while_its_child_is_read_is_found(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = scene.booted(2)
    copy = scene.copy("region")
    scene.restore("region", copy)
    leaf = scene.tree.nodes["leaf"].zone
    read: Callable[[Any], Any] = leaf.store.read

    def read_before_a_change(fn: Any) -> Any:
        found = read(fn)
        if fn is identity.low_watermark:
            now = leaf.clock.now()
            leaf.store.write(lambda tx: instances.touch(tx, identity.next_change(tx), sorted(running), now))
        return found

    monkeypatch.setattr(leaf.store, "read", read_before_a_change)
    scene.recovered("region")

    assert scene.servers("region") == dict.fromkeys(running, "ACTIVE")
    assert scene.agents["leaf"].uuids() == running


@pytest.mark.parametrize(("comes", "status"), [(True, "ACTIVE"), (False, "ERROR")])
def test_a_confirm_from_before_the_restore_may_come_late_to_what_a_child_holds(
    scene: Scene, comes: bool, status: str
) -> None:
    # given a restored region whose confirm did not come to its leaf yet
    leaf = scene.tree.nodes["leaf"]
    for node in scene.tree.nodes.values():
        node.zone.conf.set_override("max_hold", 600.0)
        node.zone.conf.set_override("hold", 400.0)
    scene.tree.network.fault(leaf.url, Dead(path="/confirm"))
    scene.boot(1)
    scene.tree.settle()
    (held,) = sql(leaf.zone, "SELECT uuid, number, reservation_id FROM placements WHERE state = 'held'")
    scene.restore("region", scene.copy("region"))
    scene.tree.network.heal(leaf.url)
    scene.work(1)
    waits = scene.repair("region")
    # when it comes, or the hold ends
    uuid, attempt, reservation_id = held
    body = {"builds": [{"uuid": uuid, "attempt": attempt}]}
    if comes:
        late = leaf.client("parent-region").post(f"/reservations/{reservation_id}/confirm", body)
        assert late.json["builds"][0]["state"] == "confirmed"
    else:
        scene.tree.clock.advance(600)
    scene.work()
    scene.recovered("region")
    scene.work()
    # then the recovery has waited for that, and what was confirmed runs
    assert waits[0]["subject"].split()[0] == "child"
    assert scene.health("region") == "ok"
    assert scene.servers() == {uuid: status}
    nothing_is_wrong(scene.tree)


def test_a_parent_takes_the_secret_of_a_child_that_recovers(scene: Scene) -> None:
    running = scene.booted(1)
    copy = scene.copy("leaf")
    scene.restore("leaf", copy)
    made = scene.admin("leaf").call("PUT", "/users/parent-region", {"user": {"new_secret": True}})
    (child,) = scene.admin("region").get("/zones").json["zones"]

    change = {"zone": {"password": made.json["user"]["secret"]}}
    taken = scene.admin("region").call("PUT", f"/zones/{child['id']}", change)
    scene.recovered("leaf")

    assert taken.status == 200
    assert scene.health("leaf") == "ok"
    assert scene.servers("leaf") == dict.fromkeys(running, "ACTIVE")


def test_a_host_that_shrank_after_the_copy_gives_no_more_than_it_has(scene: Scene) -> None:
    copy = scene.copy("leaf")
    scene.agents["leaf"] = RealAgent(scene.tree, "leaf", [a_machine("l1", vcpus=1), a_machine("l2", vcpus=2)])

    scene.restore("leaf", copy)
    scene.recovered("leaf")
    scene.boot(2)
    scene.work()

    assert sorted(scene.servers().values()) == ["ERROR", "ERROR"]
    assert scene.claimed_vcpus("leaf") == 0
    scene.booted(1)


def test_the_audit_of_a_restored_zone_reads_in_one_transaction(scene: Scene) -> None:
    copy = scene.copy("leaf")
    scene.restore("leaf", copy)
    zone = scene.tree.nodes["leaf"].zone
    at_once: list[int] = []
    open_now: set[int] = set()

    def taken(connection: Any, record: Any, proxy: Any) -> None:
        open_now.add(id(record))
        at_once.append(len(open_now))

    # Connections that the store has kept are not checked out again.
    zone.store.close()
    event.listen(zone.store.engine, "checkout", taken)
    event.listen(zone.store.engine, "checkin", lambda connection, record: open_now.discard(id(record)))
    found = audit.run(zone)

    assert [one.kind for one in found] == ["neighbour_unheard", "neighbour_unheard"]
    assert max(at_once) == 1


def test_hosts_that_are_gone_for_good_are_evacuated_and_removed_so_that_the_recovery_ends(
    scene: Scene,
) -> None:
    (uuid,) = scene.booted(1)
    copy = scene.copy("leaf")
    del scene.agents["leaf"]
    scene.restore("leaf", copy)
    operator = scene.admin("leaf")

    for host in operator.get("/os-services?binary=nova-compute").json["services"]:
        path = f"/os-services/{host['id']}"
        assert operator.call("PUT", path, {"forced_down": True}).status == 200
        assert operator.post(f"{path}/action", {"evacuate": {"fenced": True}}).status == 202
        assert operator.delete(path).status == 204
    drained = operator.post("/zones/none/action", {"drain": {}})
    recovered = scene.recovered("leaf")
    scene.work()

    assert (drained.status, drained.json["serviceUnavailable"]["error_code"]) == (503, "zone_restored")
    assert "recovery_open" in {line["kind"] for line in recovered}
    # Its parent places it anew, and finds no other host.
    assert scene.servers() == {uuid: "SHELVED_OFFLOADED"}
    assert all(scene.audit(name) == [] for name in scene.tree.nodes)


def remove_all_hosts(scene: Scene, *names: str) -> list[int]:
    """Say that these hosts of the leaf, or all, are gone for good; the answers to their removals."""
    operator = scene.admin("leaf")
    removed = []
    for host in operator.get("/os-services?binary=nova-compute").json["services"]:
        if names and host["host"] not in names:
            continue
        path = f"/os-services/{host['id']}"
        assert operator.call("PUT", path, {"forced_down": True}).status == 200
        assert operator.post(f"{path}/action", {"evacuate": {"fenced": True}}).status == 202
        removed.append(operator.delete(path).status)
    return removed


def test_a_hold_of_the_copy_on_a_host_that_is_gone_for_good_ends_with_its_time(scene: Scene) -> None:
    made: list[Path] = []
    before = Before(lambda: made.append(scene.copy("leaf")), times=1, path="/confirm")
    scene.tree.network.fault(scene.tree.nodes["leaf"].url, before)
    (uuid,) = scene.booted(1)
    del scene.agents["leaf"]
    scene.restore("leaf", made[0])

    scene.tree.clock.advance(1000)
    removed = remove_all_hosts(scene)
    scene.recovered("leaf")
    scene.work()

    assert removed == [204, 204]
    assert scene.servers() == {uuid: "ERROR"}
    assert all(scene.audit(name) == [] for name in scene.tree.nodes)


def test_a_move_of_the_copy_to_a_host_that_is_gone_for_good_ends(tmp_path: Path) -> None:
    scene = Scene(a_tree(tmp_path))
    scene.agents["leaf"] = RealAgent(scene.tree, "leaf", [a_machine("l1")])
    scene.tree.poll()
    (uuid,) = scene.booted(1)
    RealAgent(scene.tree, "leaf", [a_machine("l2")], "gone").work()
    (below,) = scene.servers("leaf")
    assert scene.admin("leaf").post(f"/servers/{below}/action", {"migrate": None}).status == 202
    scene.tree.settle()
    copy = scene.copy("leaf")
    scene.restore("leaf", copy)
    held = sql(scene.tree.nodes["leaf"].zone, "select state from placements order by number")
    scene.work()

    removed = remove_all_hosts(scene, "l2")
    scene.recovered("leaf")
    scene.work()

    assert [row[0] for row in held] == ["confirmed", "held"]
    assert removed == [204]
    assert scene.servers() == {uuid: "ACTIVE"}
    assert scene.health("leaf") == "ok"
    assert all(scene.audit(name) == [] for name in scene.tree.nodes)


def test_what_a_parent_that_is_given_up_had_in_a_child_goes_to_no_project_here(scene: Scene) -> None:
    # given a region that has forgotten its parent's instance, and whose parent is gone for good
    copy = scene.copy("region")
    running = scene.booted(1)
    scene.restore("region", copy)
    del scene.tree.nodes["root"]
    scene.work(1)
    # when
    deleted = scene.admin("region").delete("/users/parent-root")
    scene.recovered("region")
    # then a project of the same name sees nothing of it, and the region's operator does
    seen = scene.tree.nodes["region"].client("member").get("/servers").json["servers"]
    assert deleted.status == 204, deleted.body
    assert (scene.health("region"), seen) == ("ok", [])
    assert scene.servers("leaf") == dict.fromkeys(running, "ACTIVE")
    assert scene.kinds("region") == {"child_has_unknown_instance"}


def test_what_another_process_reads_of_a_child_after_the_recovery_is_not_noted(scene: Scene) -> None:
    scene.booted(1)
    scene.restore("region", scene.copy("region"))
    scene.recovered("region")
    zone = scene.tree.nodes["region"].zone
    (known,) = zone.children.snapshot()

    # This one was paused since before the recovery ended.
    read_from_children._read(zone, known.child.id, zone.child_client(known.child.id))

    assert scene.audit("region") == []


def test_a_late_process_that_cannot_read_a_child_takes_away_nothing_that_another_has_read(
    scene: Scene,
) -> None:
    # given a process that has read all that a child has
    kept = scene.booted(2)
    scene.restore("region", scene.copy("region"))
    scene.work(1)
    # when another one, which was paused since before that, begins to read it, and the child is away
    zone, leaf = scene.tree.nodes["region"].zone, scene.tree.nodes["leaf"]
    (known,) = zone.children.snapshot()
    scene.tree.network.fault(leaf.url, Dead(path="/reservations"))
    with pytest.raises(ChildUnreachable):
        read_from_children._read(zone, known.child.id, zone.child_client(known.child.id))
    scene.tree.network.heal(leaf.url)
    scene.recovered("region")
    # then
    assert scene.agents["leaf"].uuids() == kept
    assert scene.servers() == dict.fromkeys(kept, "ACTIVE")
    nothing_is_wrong(scene.tree)


class EndlessChild:
    """Answers of a child whose feed never ends: every page has new instances."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def changes(self, cursor: str, timeout_s: float) -> Changes:
        uuids = [str(UUID(int=next(self._numbers))) for _ in range(2)]
        lines = [InstanceChange(uuid, 1, InstanceStatus.ACTIVE, BuildState.CONFIRMED) for uuid in uuids]
        return Changes(tuple(lines), uuids[-1], more=True)

    def request_of(self, uuid: str, timeout_s: float) -> None:
        return None


def test_a_child_that_tells_of_instances_without_end_fills_the_zone_with_a_bounded_number(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a restored zone with one instance in its child
    scene.booted(1)
    scene.restore("region", scene.copy("region"))
    monkeypatch.setattr(read_from_children, "FREE_INSTANCES", 7)
    zone = scene.tree.nodes["region"].zone
    (known,) = zone.children.snapshot()
    liar: Any = EndlessChild()
    # when
    for _ in range(2):
        with pytest.raises(ChildUnreachable):
            read_from_children._read(zone, known.child.id, liar)
    # then
    found = zone.store.read(lambda tx: recovery.count_of(tx, Kind.CHILD, known.child.id))
    assert found == 14
    assert zone.restored.is_under_way


@pytest.mark.parametrize("per_page", [0, 2])
def test_a_child_that_tells_of_ended_instances_without_end_is_not_read_for_ever(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, per_page: int
) -> None:
    # given
    scene.booted(1)
    scene.restore("region", scene.copy("region"))
    monkeypatch.setattr(read_from_children, "FREE_LINES", 1000)
    zone = scene.tree.nodes["region"].zone
    (known,) = zone.children.snapshot()
    pages = []

    class EndedChild(EndlessChild):
        def changes(self, cursor: str, timeout_s: float) -> Changes:
            pages.append(cursor)
            assert len(pages) < 100
            page = super().changes(cursor, timeout_s)
            ended = [replace(one, status=InstanceStatus.DELETED, state=BuildState.GONE) for one in page.items]
            return Changes(tuple(ended[:per_page]), page.cursor, more=True)

    child: Any = EndedChild()
    # when
    with pytest.raises(ChildUnreachable):
        read_from_children._read(zone, known.child.id, child)
    # then
    assert zone.restored.is_under_way


def test_a_recovery_does_not_end_while_an_agent_tells_anew_what_it_has(scene: Scene) -> None:
    # given an agent that has told all that it has
    kept = scene.booted(2)
    scene.restore("leaf", scene.copy("leaf"))
    scene.work(1)
    # when it begins again, as at each poll, and is cut off after the first of its pages
    first = {"service": "agent", "instances": [], "first": True, "last": False}
    assert scene.tree.nodes["leaf"].client("compute").post("/hosts/running", first).status == 204
    scene.repair("leaf")
    # then nothing is decided before it has told the others
    assert scene.kinds("leaf") == {"neighbour_unheard"}
    scene.recovered("leaf")
    assert scene.agents["leaf"].uuids() == kept
    assert scene.servers() == dict.fromkeys(kept, "ACTIVE")
    nothing_is_wrong(scene.tree)
