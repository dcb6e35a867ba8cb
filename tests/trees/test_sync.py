"""Changes that a child reports late, early or twice: the parent's rows end the same."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.builders.boots import (
    FLAVOR,
    a_building_tree,
    a_small_tree,
    all_active,
    boot,
    counts,
    report_all,
    rows,
    the_boot,
)
from tests.builders.crashes import heal, inconsistencies
from tests.builders.inline_executor import InlineExecutor, InlineLoop
from tests.builders.migrated import ask, url_of
from tests.builders.one_zone import a_zone, places_of
from tests.builders.played_agent import agents_of
from tests.builders.sync import ask_all
from tests.builders.tree import Tree
from tests.builders.wsgi_transport import LostReply, Replace
from zonesched.model.agent_instances import AgentState
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.seams import ThreadLoop
from zonesched.services import background
from zonesched.services.audit import audit, audit_edges
from zonesched.services.children import children
from zonesched.services.children.pending_calls import PendingCalls
from zonesched.services.children.sync import Sync, pause_s
from zonesched.services.zone import Zone
from zonesched.store import identity, instances
from zonesched.store.store import Store


def test_what_agents_report_reaches_the_root(tmp_path: Path) -> None:
    tree = a_building_tree(tmp_path)
    reservation_id = the_boot(tree)

    for name in ("root", "leaf-a", "leaf-b"):
        report_all(tree, name, AgentState.ACTIVE)
    tree.clock.advance(60)
    tree.settle()

    assert counts(tree, reservation_id) == {"ACTIVE": 12}


def test_a_child_at_rest_costs_its_parent_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # given a parent that has read all that its child has to say
    tree = a_building_tree(tmp_path)
    zone = tree.nodes["root"].zone
    monkeypatch.setattr(zone.store, "write", no_write)
    # when it asks again
    asked = ask_all(zone)
    # then both children answer, and nothing is written
    assert (sorted(asked.lines.values()), asked.behind) == ([0, 0], frozenset())


def no_write(*_: object) -> None:
    raise AssertionError("a commit")


def test_an_end_that_is_told_before_the_confirm_is_answered_is_not_lost(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    leaf = tree.nodes["leaf-b"]
    reservation_id, unknown = a_boot_with_unanswered_confirms(tree)
    tree.network.fault(leaf.url, LostReply(path="/confirm"))

    report_all(tree, "leaf-b", AgentState.GONE)
    tree.clock.advance(60)
    tree.settle(1)

    assert counts(tree, reservation_id) == {"BUILD": 12 - unknown, "ERROR": unknown}
    tree.network.heal(leaf.url)
    heal(tree)
    assert inconsistencies(tree) == []


def test_an_instance_that_its_child_has_deleted_keeps_no_place(tmp_path: Path) -> None:
    # given a boot of which a child deletes one instance by itself
    tree = a_building_tree(tmp_path)
    reservation_id = the_boot(tree)
    root, leaf = tree.nodes["root"].zone, tree.nodes["leaf-b"].zone
    ((uuid,), *_) = ask(tree.folder / "leaf-b.sqlite", "SELECT uuid FROM instances")
    leaf.store.write(
        lambda tx: instances.set_status(
            tx, identity.next_change(tx), [uuid], InstanceStatus.DELETED, leaf.clock.now(), reason=""
        )
    )
    # when its parent reads that
    tree.clock.advance(60)
    tree.settle()
    # then the parent has no place for it any more
    assert counts(tree, reservation_id) == {"BUILD": 11, "ERROR": 1}
    assert [(place.state, place.reason) for place in places_of(root, uuid)] == [
        (PlacementState.RELEASED, "deleted_in_child")
    ]


def a_boot_with_unanswered_confirms(tree: Tree) -> tuple[str, int]:
    """A boot whose leaf-b has confirmed its part without being heard, and the size of that part."""
    leaf = tree.nodes["leaf-b"]
    # Of a confirm and of what has changed.
    tree.network.fault(leaf.url, LostReply(path="/reservations"))
    reservation_id = boot(tree)
    tree.settle(1)
    unknown = counts(tree, reservation_id)["UNKNOWN"]
    assert unknown > 0
    tree.network.heal(leaf.url)
    return reservation_id, unknown


def test_what_a_child_tells_is_as_good_as_the_answer_of_the_confirm(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    reservation_id, _ = a_boot_with_unanswered_confirms(tree)
    tree.network.fault(tree.nodes["leaf-b"].url, LostReply(path="/confirm"))

    tree.settle(1)

    assert counts(tree, reservation_id) == {"BUILD": 12}


def test_what_a_child_deleted_by_itself_before_the_confirm_was_answered(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    leaf = tree.nodes["leaf-b"]
    reservation_id, unknown = a_boot_with_unanswered_confirms(tree)
    tree.network.fault(leaf.url, LostReply(path="/confirm"))

    admin = leaf.client()
    for server in admin.get("/servers?all_tenants=1").json["servers"]:
        assert admin.delete(f"/servers/{server['id']}").status == 204
    tree.clock.advance(60)
    tree.settle(1)
    tree.network.heal(leaf.url)
    heal(tree)
    tree.clock.advance(60)
    tree.settle()

    assert counts(tree, reservation_id) == {"BUILD": 12 - unknown, "ERROR": unknown}


def test_a_build_that_lost_its_claim_leaves_no_instance_in_the_child(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    # Two boots see the same room; what the second one is offered is taken when it comes to claim.
    boot(tree, num_instances=20)
    boot(tree, num_instances=20)

    heal(tree)

    assert inconsistencies(tree) == []
    for node in tree.nodes.values():
        assert list(audit.run(node.zone)) == []
        assert list(audit_edges.across_edges(node.zone)) == []


class Looking:
    """Runs loops when they are due or were woken, as threads would, while the clock goes on."""

    def __init__(self, tree: Tree, loops: Sequence[InlineLoop]) -> None:
        self._clock, self._loops = tree.clock, loops
        self._due_at = [tree.clock.monotonic()] * len(loops)
        self._woken = [loop.woken for loop in loops]

    def go_on(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while self._clock.monotonic() < until:
            for n, loop in enumerate(self._loops):
                if loop.woken > self._woken[n] or self._clock.monotonic() >= self._due_at[n]:
                    self._woken[n] = loop.woken
                    self._due_at[n] = self._clock.monotonic() + loop.step()
            self._clock.advance(0.25)


def started_sync(tree: Tree, name: str) -> InlineLoop:
    """The sync loop of a zone whose background work was started."""
    executor = tree.executor
    assert isinstance(executor, InlineExecutor)
    background.start(tree.nodes[name].zone)
    return next(loop for loop in reversed(executor.loops) if loop.name == "sync")


def work_all(tree: Tree) -> None:
    """Boots are carried on, with no sync anywhere."""
    for node in tree.nodes.values():
        while background.work_on_boots(node.zone) == 0.0:
            pass


def test_a_boot_after_an_idle_time_is_seen_active_within_a_short_pause_for_each_level(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    looking = Looking(tree, [started_sync(tree, "root"), started_sync(tree, "region")])
    looking.go_on(100.0)
    reservation_id = boot(tree)
    work_all(tree)
    all_active(tree)

    looking.go_on(2 * 1.25)

    assert counts(tree, reservation_id) == {"ACTIVE": 12}


def test_a_confirm_ends_the_pause_of_the_sync_in_each_zone_that_passed_it_on(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    loops = [started_sync(tree, "root"), started_sync(tree, "region")]
    before = [loop.woken for loop in loops]

    boot(tree)
    work_all(tree)

    assert all(loop.woken > woken for loop, woken in zip(loops, before, strict=True))


def another_process(tree: Tree, name: str) -> Zone:
    """The same zone in a process of its own: its rows are all that they share."""
    zone = tree.nodes[name].zone
    other = Zone.open(
        zone.conf,
        clock=zone.clock,
        executor=InlineExecutor(),
        transport=zone.transport,
        store=Store.open(url_of(tree.folder / f"{name}.sqlite")),
    )
    other.children.poll()
    return other


def test_what_one_process_sent_another_one_finds_in_bounded_time(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    step = Sync(another_process(tree, "root")).step
    regional = started_sync(tree, "region")
    pause_s = step()
    reservation_id = boot(tree)
    work_all(tree)
    all_active(tree)
    regional.step()
    conf = tree.nodes["root"].zone.conf
    ends_at = tree.clock.monotonic() + conf.boot_poll_interval + conf.retry_pause

    while tree.clock.monotonic() + pause_s < ends_at:
        tree.clock.advance(max(0.01, pause_s))
        pause_s = step()

    assert counts(tree, reservation_id) == {"ACTIVE": 12}


def test_nothing_unfinished_is_asked_for_each_interval_and_not_before(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    looking = Looking(tree, [started_sync(tree, "root")])
    looking.go_on(1.0)
    tree.network.sent.clear()

    looking.go_on(61.0)

    asked = [sent for sent in tree.network.sent if "/reservations" in sent.url]
    assert len(asked) == 2 * 2


@pytest.mark.parametrize(
    ("age_s", "expected"),
    [(-5.0, 1.0), (0.0, 1.0), (8.0, 2.0), (60.0, 15.0), (1e6, 30.0), (float("inf"), 30.0)],
)
def test_pauses_grow_with_what_is_waited_for_and_end_at_the_interval(
    tmp_path: Path, age_s: float, expected: float
) -> None:
    assert pause_s(a_zone(tmp_path).conf, age_s) == expected


def test_an_older_page_does_not_undo_what_another_process_has_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = a_small_tree(tmp_path)
    reservation_id = boot(tree)
    work_all(tree)
    zone, other = tree.nodes["root"].zone, another_process(tree, "root")
    call = zone.children.call

    def overtaken(*args: Any, **more: Any) -> Any:
        answers = call(*args, **more)
        all_active(tree)
        ask_all(tree.nodes["region"].zone)
        ask_all(other)
        return answers

    monkeypatch.setattr(zone.children, "call", overtaken)
    ask_all(zone)

    assert counts(tree, reservation_id) == {"ACTIVE": 12}


@pytest.mark.parametrize(
    ("status", "state"), [("DELETED", "confirmed"), ("ERROR", "confirmed"), ("DELETED", "failed")]
)
def test_a_child_that_speaks_of_another_childs_instances_changes_nothing(
    tmp_path: Path, status: str, state: str
) -> None:
    # Given
    tree = a_small_tree(tmp_path)
    reservation_id = boot(tree)
    work_all(tree)
    root, liar = tree.nodes["root"], tree.nodes["leaf-b"]
    (liar_id,) = [
        c.id for c in children.list_children(root.zone.store, root.zone.children) if c.name == "leaf-b"
    ]
    of_others = rows(
        tree, "root", f"SELECT uuid, number FROM placements WHERE kind = 'child' AND child_id != '{liar_id}'"
    )
    assert of_others
    before = counts(tree, reservation_id), rows(tree, "root")

    # When
    lines = [
        {"uuid": uuid, "attempt": number, "status": status, "state": state, "reason": "made_up"}
        for uuid, number in of_others
    ]
    body = orjson.dumps({"instances": lines, "cursor": "made-up", "more": False})
    tree.network.fault(liar.url, Replace(path="/reservations", method="GET", body=body))
    ask_all(root.zone)

    # Then
    assert (counts(tree, reservation_id), rows(tree, "root")) == before


FAILED = {"status": "DELETED", "state": "failed", "reason": "build_failed"}
DELETED = {"status": "DELETED", "state": "confirmed", "reason": ""}
ERROR = {"status": "ERROR", "state": "confirmed", "reason": ""}


@pytest.mark.parametrize(
    ("lines", "place", "status"),
    [
        ([FAILED, DELETED], ("released", "deleted_in_child"), "ERROR"),
        ([DELETED, FAILED], ("failed", "build_failed"), "DELETED"),
        # An ERROR has a reason, whatever a child says.
        ([ERROR], ("releasing", "build_failed"), "ERROR"),
    ],
)
def test_of_the_lines_about_one_attempt_the_last_one_counts(
    tmp_path: Path, lines: list[dict[str, str]], place: tuple[str, str], status: str
) -> None:
    # given an instance that a zone has from its parent, and in a child
    tree = a_small_tree(tmp_path)
    boot(tree)
    work_all(tree)
    region, liar = tree.nodes["region"], tree.nodes["leaf-a"]
    ((uuid, number), *_) = rows(
        tree, "region", "SELECT uuid, number FROM placements WHERE kind = 'child' AND state = 'confirmed'"
    )
    # when that child says of it on one page that it has failed, was deleted, or both
    told = [{"uuid": uuid, "attempt": number, **line} for line in lines]
    body = orjson.dumps({"instances": told, "cursor": "made-up", "more": False})
    tree.network.fault(liar.url, Replace(path="/reservations", method="GET", body=body))
    ask_all(region.zone)
    # then its place and its status are those of one line: the parent deletes an ERROR, and places a failed
    # build elsewhere
    path = tree.folder / "region.sqlite"
    assert ask(path, "SELECT state, reason FROM placements WHERE uuid = ?", (uuid,)) == [place]
    assert ask(path, "SELECT status, reason FROM instances WHERE uuid = ?", (uuid,)) == [(status, place[1])]


def placed_in(tree: Tree, child: str) -> tuple[str, int]:
    """Uuid and number of a place that the root has in a child, confirmed."""
    ((uuid, number),) = ask(
        tree.folder / "root.sqlite",
        "SELECT p.uuid, p.number FROM placements p JOIN children c ON c.id = p.child_id"
        f" WHERE c.name = '{child}' AND p.state = 'confirmed' ORDER BY p.uuid LIMIT 1",
    )
    return uuid, number


def hears(tree: Tree, child: str, line: dict[str, Any]) -> None:
    """The root asks its children, of which this one says only that."""
    body = {"instances": [line], "cursor": "made-up", "more": False}
    answer = Replace(path="/reservations", method="GET", body=orjson.dumps(body), times=1)
    tree.network.fault(tree.nodes[child].url, answer)
    ask_all(tree.nodes["root"].zone)


RUNNING = {"status": "ACTIVE", "state": "confirmed", "reason": ""}
RUNS = {"generation": 0, "power": "running"}


@pytest.mark.parametrize("moves", [{"begun": 1, "ended": 0}, {"begun": 0, "ended": 0}])
def test_what_is_under_way_on_a_built_instance_ends_where_its_build_has_failed_after_all(
    tmp_path: Path, moves: dict[str, int]
) -> None:
    # given an instance of which its child says that it runs and moves there, or whose owner resizes it
    tree = a_small_tree(tmp_path)
    boot(tree)
    work_all(tree)
    path, admin = tree.folder / "root.sqlite", tree.nodes["root"].client()
    uuid, number = placed_in(tree, "leaf-b")
    line = {"uuid": uuid, "attempt": number}
    hears(tree, "leaf-b", {**line, **RUNNING, "observed": RUNS, "moves": moves})
    if not moves["begun"]:
        admin.post("/flavors", {"flavor": {**FLAVOR["flavor"], "id": "big", "name": "big", "vcpus": 2}})
        assert admin.post(f"/servers/{uuid}/action", {"resize": {"flavorRef": "big"}}).status == 202
    # when the child says that its build has failed, and it is built elsewhere
    hears(tree, "leaf-b", {**line, **FAILED})
    tree.network.heal(tree.nodes["leaf-b"].url)
    work_all(tree)
    # then nothing goes on that only the last place knew of, and its flavor is the one that it had
    assert ask(path, "SELECT attempt FROM instances WHERE uuid = ?", (uuid,)) == [(number + 1,)]
    ((begun, ended, resizes),) = ask(
        path, "SELECT moves_begun, moves_ended, resizes_begun FROM instance_states WHERE uuid = ?", (uuid,)
    )
    assert (begun, ended, resizes) == (0, 0, 0)
    actions = admin.get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"]
    assert {action["action"]: action["result"] for action in actions} == (
        {"create": "done"} if moves["begun"] else {"create": "done", "resize": "error"}
    )
    assert admin.get(f"/servers/{uuid}").json["server"]["flavor"]["original_name"] == "small"


def test_one_whose_build_has_failed_after_all_is_stopped_at_its_next_place_if_its_owner_stopped_it(
    tmp_path: Path,
) -> None:
    # given an instance of which its child says that it runs, and which its owner stops
    tree = a_small_tree(tmp_path)
    boot(tree)
    work_all(tree)
    root = tree.nodes["root"]
    uuid, number = placed_in(tree, "leaf-b")
    line = {"uuid": uuid, "attempt": number}
    hears(tree, "leaf-b", {**line, **RUNNING, "observed": RUNS})
    assert root.client().post(f"/servers/{uuid}/action", {"os-stop": None}).status == 202
    PendingCalls(root.zone).step()
    # when the child says that its build has failed, and it is built elsewhere
    hears(tree, "leaf-b", {**line, **FAILED})
    tree.network.heal(tree.nodes["leaf-b"].url)
    work_all(tree)
    for _ in range(3):
        tree.settle()
        for agent in agents_of(tree).values():
            agent.converge()
        tree.clock.advance(60)
    # then the next place is told so as well
    assert root.client().get(f"/servers/{uuid}").json["server"]["status"] == "SHUTOFF"


def test_a_loop_that_is_stopped_between_two_steps_starts_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    stopping = threading.Event()
    clear = stopping.clear

    def stop_then_clear() -> None:
        loop.stop()
        clear()

    def step() -> float:
        steps.append(1)
        raise SystemExit

    monkeypatch.setattr(threading.Thread, "start", lambda thread: None)
    loop = ThreadLoop("late", step)
    monkeypatch.setattr(loop, "_wake", stopping)
    monkeypatch.setattr(stopping, "clear", stop_then_clear)
    with suppress(SystemExit):
        loop.thread.run()

    assert steps == []
