"""Children are told in the background: nobody waits for them, and none of them for another one."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import (
    FLAVOR,
    a_building_tree,
    a_small_tree,
    boot,
    counts,
    delete_all,
    rows,
    the_boot,
)
from tests.builders.crashes import heal, inconsistencies
from tests.builders.inline_executor import InlineExecutor
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead, LostReply
from zonesched.seams import ThreadExecutor
from zonesched.services import background
from zonesched.services.children.pending_calls import PendingCalls
from zonesched.services.children.sync import Sync

STATES = "SELECT state, count(*) FROM placements GROUP BY state"


def deletes_sent(tree: Tree) -> int:
    return sum(sent.method == "DELETE" for sent in tree.network.sent)


def test_a_delete_is_answered_before_any_child_is_told(tmp_path: Path) -> None:
    tree = a_building_tree(tmp_path)
    reservation_id = the_boot(tree)

    uuids = delete_all(tree)

    root = tree.nodes["root"].client()
    assert deletes_sent(tree) == 0
    assert dict(rows(tree, "root", STATES)) == {"releasing": 12}
    assert {root.get(f"/servers/{uuid}").status for uuid in uuids} == {404}
    assert (root.get("/servers").json["servers"], counts(tree, reservation_id)) == ([], {"DELETED": 12})


def test_a_delete_goes_down_level_by_level_in_the_background(tmp_path: Path) -> None:
    tree = a_building_tree(tmp_path)
    delete_all(tree)

    tree.step("root")
    between = dict(rows(tree, "region", STATES)), dict(rows(tree, "leaf-a", STATES))
    tree.step("region")

    assert [set(states) for states in between] == [{"releasing"}, {"confirmed"}]
    assert inconsistencies(tree) == []
    assert set(dict(rows(tree, "leaf-a", STATES))) == {"released"}


def test_a_delete_ends_the_pause_of_the_loop_that_tells_children(tmp_path: Path) -> None:
    tree = a_building_tree(tmp_path)
    assert isinstance(tree.executor, InlineExecutor)
    background.start(tree.nodes["root"].zone)
    (telling,) = [loop for loop in tree.executor.loops if loop.name == "calls"]

    delete_all(tree)

    assert telling.woken > 0


def test_a_delete_whose_answers_are_lost_gives_back_once(tmp_path: Path) -> None:
    tree = a_building_tree(tmp_path)
    for name in ("region", "leaf-a", "leaf-b"):
        tree.network.fault(tree.nodes[name].url, LostReply(times=5, method="DELETE"))

    delete_all(tree)
    heal(tree)

    assert deletes_sent(tree) > 20
    assert inconsistencies(tree) == []
    for name in ("root", "leaf-a", "leaf-b"):
        assert rows(tree, name, "SELECT sum(used) FROM inventories") == [(0,)]


def test_a_zone_that_routes_no_calls_still_deletes_below_for_its_parent(tmp_path: Path) -> None:
    # Given: half of a boot is on a host of the region, and half in a zone that it routes no calls to
    tree = Tree(tmp_path)
    tree.add("root")
    tree.add("region", parent="root", hosts_=[a_host("h1")], enable_zone_routing=False)
    tree.add("leaf", parent="region", hosts_=[a_host("h2")])
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    boot(tree, num_instances=8)
    tree.settle()
    by_kind = "SELECT kind, state, count(*) FROM placements GROUP BY kind, state"
    assert rows(tree, "region", by_kind) == [("child", "confirmed", 4), ("host", "confirmed", 4)]

    # When
    delete_all(tree)
    tree.settle()

    # Then
    assert dict(rows(tree, "root", STATES)) == {"released": 8}
    assert rows(tree, "leaf", "SELECT sum(used) FROM inventories") == [(0,)]
    assert inconsistencies(tree) == []


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (
            "409 Conflict",
            b'{"conflictingRequest": {"code": 409, "message": "no", "error_code": "not_now"}}',
        ),
        ("500 Internal Server Error", b"{}"),
    ],
    ids=["refused", "failed"],
)
def test_an_instance_that_a_child_does_not_delete_holds_up_no_other_of_its_boot(
    tmp_path: Path, status: str, body: bytes
) -> None:
    # Given
    tree = a_small_tree(tmp_path)
    boot(tree)
    tree.settle()
    app = tree.nodes["region"].app
    held_up = min(uuid for (uuid,) in rows(tree, "region", "SELECT uuid FROM placements"))

    def answering(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "DELETE" and held_up in environ["PATH_INFO"]:
            start_response(status, [("Content-Type", "application/json")])
            return [body]
        return list(app(environ, start_response))

    tree.network.mount(tree.nodes["region"].url, answering)

    # When
    delete_all(tree)
    tree.step("root")

    # Then
    states = dict(rows(tree, "root", STATES))
    assert (states.pop("releasing"), set(states)) == (1, {"released"})


def test_a_slow_child_deletes_some_with_each_call_until_all_are_deleted(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path, build_timeout=4.0)
    boot(tree)
    tree.settle()
    app = tree.nodes["region"].app

    def slow(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "DELETE":
            tree.clock.advance(1.0)
        return list(app(environ, start_response))

    tree.network.mount(tree.nodes["region"].url, slow)
    delete_all(tree)
    left: list[int] = []
    for _ in range(4):
        tree.step("root")
        left.append(dict(rows(tree, "root", STATES)).get("releasing", 0))
        # Those that there was no time for have not failed: none of them waits for a pause that grows.
        tree.clock.advance(tree.nodes["root"].zone.conf.retry_pause)

    assert left == [6, 4, 2, 0]
    assert dict(rows(tree, "region", STATES)) == {"releasing": 8}


def test_confirms_that_a_slow_child_had_no_time_for_wait_for_no_growing_pause(tmp_path: Path) -> None:
    # given six boots whose confirms have been unanswered for some time
    tree = Tree(tmp_path)
    tree.add("root", build_timeout=3.0)
    leaf = tree.add("leaf", parent="root", hosts_=[a_host("h1")])
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    tree.network.fault(leaf.url, Dead(path="/confirm"))
    for _ in range(6):
        boot(tree, num_instances=1)
    for pause_s in (2.0, 4.0, 8.0):
        tree.step("root")
        tree.clock.advance(pause_s)
    tree.network.heal(leaf.url)
    app = leaf.app

    def slow(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"].endswith("/confirm"):
            tree.clock.advance(1.0)
        return list(app(environ, start_response))

    # when the child answers a confirm in a second
    tree.network.mount(leaf.url, slow)
    left: list[int] = []
    for _ in range(3):
        PendingCalls(tree.nodes["root"].zone).step()
        left.append(dict(rows(tree, "root", STATES)).get("confirming", 0))
        tree.clock.advance(tree.nodes["root"].zone.conf.retry_pause)

    # then
    assert left == [3, 0, 0]


def test_a_dead_child_is_called_once_for_all_that_is_to_be_deleted_there(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.add("root")
    tree.add("leaf", parent="root", hosts_=[a_host("h1", vcpus=100, ram_mb=200_000, disk_gb=1000)])
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    boot(tree, num_instances=45)
    tree.settle()
    dead = Dead()
    tree.network.fault(tree.nodes["leaf"].url, dead)
    delete_all(tree)
    tried: list[str] = []
    dead.hits = lambda method, path: not tried.append(method)  # type: ignore[method-assign]

    for _ in range(3):
        PendingCalls(tree.nodes["root"].zone).step()

    assert tried == ["DELETE"]
    assert rows(tree, "root", "SELECT state, calls, count(*) FROM placements GROUP BY 1, 2") == [
        ("releasing", 1, 45)
    ]


def test_a_confirm_is_repeated_only_when_its_first_call_has_had_time(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)

    def looked_at_by(parent: str, child: str) -> None:
        """While it is asked to confirm, the loop that tells children of its parent looks."""
        app, telling = tree.nodes[child].app, PendingCalls(tree.nodes[parent].zone)

        def asked(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            if environ["PATH_INFO"].endswith("/confirm"):
                telling.step()
            return list(app(environ, start_response))

        tree.network.mount(tree.nodes[child].url, asked)

    for parent, child in (("root", "region"), ("root", "leaf-b"), ("region", "leaf-a")):
        looked_at_by(parent, child)
    reservation_id = boot(tree)
    tree.settle(1)

    confirms = [sent.url for sent in tree.network.sent if sent.url.endswith("/confirm")]
    assert len(confirms) == len(set(confirms)) == 3
    assert counts(tree, reservation_id) == {"BUILD": 12}


class Hanging:
    """An application that answers calls of one method and path only when it is let go."""

    def __init__(self, app: Any, method: str, path: str) -> None:
        self.let_go = threading.Event()
        self.asked = 0
        self._app = app
        self._method, self._path = method, path

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == self._method and self._path in environ["PATH_INFO"]:
            self.asked += 1
            assert self.let_go.wait(60)
        return list(self._app(environ, start_response))


class Recording(ThreadExecutor):
    """Threads; `reads`: for each gathering of reads of children, which bulkheads it used."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[list[str]] = []

    def gather(self, calls: Any, timeout_s: float, is_wanted: Any = lambda: True) -> Any:
        calls = list(calls)
        names = [bulkhead.name for bulkhead, _ in calls]
        if all(name.endswith("-sync") for name in names):
            self.reads.append(names)
        return super().gather(calls, timeout_s, is_wanted)


@pytest.fixture
def threads() -> Iterator[Recording]:
    executor = Recording()
    yield executor
    executor.stop()


def test_a_child_that_hangs_is_told_once_at_a_time_and_holds_up_no_other(
    tmp_path: Path, threads: Recording
) -> None:
    tree = Tree(tmp_path, executor=threads)
    tree.add("root", retry_pause=0.2)
    for name in ("leaf-a", "leaf-b"):
        tree.add(name, parent="root", hosts_=[a_host(name)])
    tree.poll(1)
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    boot(tree, num_instances=8)
    tree.settle(1)
    hanging = Hanging(tree.nodes["leaf-a"].app, "DELETE", "/servers")
    tree.network.mount(tree.nodes["leaf-a"].url, hanging)
    delete_all(tree)
    telling = PendingCalls(tree.nodes["root"].zone)

    tell_until_released(tree, telling, "leaf-b")
    telling.step()

    assert set(dict(rows(tree, "leaf-a", STATES))) == {"confirmed"}
    assert hanging.asked == 1

    hanging.let_go.set()
    tell_until_released(tree, telling, "leaf-a")


def test_a_child_that_hangs_is_asked_for_changes_once_and_no_step_waits_for_it_again(
    tmp_path: Path, threads: Recording
) -> None:
    tree = Tree(tmp_path, executor=threads)
    tree.add("root", retry_pause=0.2)
    tree.add("leaf", parent="root", hosts_=[a_host("h1")])
    tree.poll(1)
    hanging = Hanging(tree.nodes["leaf"].app, "GET", "/reservations")
    tree.network.mount(tree.nodes["leaf"].url, hanging)
    asking = Sync(tree.nodes["root"].zone)

    threads.reads.clear()

    for _ in range(3):
        tree.clock.advance(60)
        asking.step()

    assert [len(names) for names in threads.reads] == [1, 0, 0]
    assert hanging.asked == 1
    hanging.let_go.set()


def tell_until_released(tree: Tree, telling: PendingCalls, name: str) -> None:
    """The machine may be slow: many short waits, and an end to them."""
    for _ in range(200):
        telling.step()
        if set(dict(rows(tree, name, STATES))) == {"released"}:
            return
    pytest.fail(f"{name} was not told")
