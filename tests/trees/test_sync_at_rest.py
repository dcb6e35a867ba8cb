"""Children without changes are asked together; what one of them answers is taken as from any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.builders.boots import FLAVOR, boot, counts, report_all, the_boot
from tests.builders.inline_executor import InlineExecutor, InlineLoop
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead, Replace, Tamper
from tests.trees.test_sync_bounds import Changing
from zonesched.model.agent_instances import AgentState
from zonesched.seams import Bulkhead, Done, Failed, Late
from zonesched.services.children.sync import Sync
from zonesched.store import children

T = TypeVar("T")
POLL_S = 60.0
LEAVES = ("leaf-a", "leaf-b", "leaf-c")


class Noting(InlineExecutor):
    """An executor that notes the bulkheads of its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.bulkheads: list[str] = []

    def gather(
        self,
        calls: Iterable[tuple[Bulkhead, Callable[[], T]]],
        timeout_s: float,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> list[Done[T] | Failed | Late]:
        taken = list(calls)
        self.bulkheads += [bulkhead.name for bulkhead, _ in taken]
        return super().gather(taken, timeout_s, is_wanted)


class Scene:
    """A root over three leaves with 12 servers, which are not built yet; the root's sync has read all."""

    def __init__(self, folder: Path) -> None:
        self.executor = Noting()
        self.tree = Tree(folder, executor=self.executor)
        root = self.tree.add("root")
        root.client().post("/flavors", FLAVOR)
        for name in LEAVES:
            self.tree.add(name, hosts_=[a_host("h1")], parent="root")
        self.tree.poll()
        boot(self.tree, num_instances=12)
        self.tree.settle()
        self.loop = Sync(root.zone)
        self.step()
        self.step()

    def all_built(self) -> None:
        for name in LEAVES:
            report_all(self.tree, name, AgentState.ACTIVE)

    def step(self) -> None:
        self.tree.clock.advance(POLL_S)
        self.executor.bulkheads.clear()
        self.tree.network.sent.clear()
        self.loop.step()

    @property
    def own_threads(self) -> set[str]:
        """Names of the children for which the last step took a thread of its own."""
        names = {
            known.child.id: known.child.name for known in self.tree.nodes["root"].zone.children.snapshot()
        }
        found = [name.removesuffix("-sync") for name in self.executor.bulkheads if name.endswith("-sync")]
        return {names[id_] for id_ in found}

    def asked(self, name: str) -> int:
        url = self.tree.nodes[name].url + "/reservations?"
        return sum(sent.url.startswith(url) for sent in self.tree.network.sent)

    @property
    def active(self) -> int:
        return counts(self.tree, the_boot(self.tree)).get("ACTIVE", 0)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_children_at_rest_take_no_thread_of_their_own(scene: Scene) -> None:
    scene.step()

    assert scene.own_threads == set()
    assert [scene.asked(name) for name in LEAVES] == [1, 1, 1]


def test_changes_of_children_at_rest_are_taken_without_a_second_call(scene: Scene) -> None:
    scene.all_built()

    scene.step()

    assert scene.active == 12
    assert [scene.asked(name) for name in LEAVES] == [1, 1, 1]
    # and they are at rest again once they have nothing new
    scene.step()
    assert scene.own_threads == set(LEAVES)
    scene.step()
    assert scene.own_threads == set()


@pytest.mark.parametrize("fault", [Dead(), Replace(status=503), Tamper(change=lambda body: body[:-1])])
def test_one_that_fails_is_asked_by_a_thread_until_it_is_at_rest_again(
    scene: Scene, fault: Dead | Replace | Tamper
) -> None:
    scene.tree.network.fault(scene.tree.nodes["leaf-b"].url, fault)
    scene.all_built()

    scene.step()
    failed, active = scene.own_threads, scene.active
    scene.tree.network.heal(scene.tree.nodes["leaf-b"].url)
    for _ in range(3):
        scene.step()

    assert failed == set(LEAVES)
    assert 0 < active < scene.active == 12
    assert scene.own_threads == set()


def test_a_long_page_is_read_where_its_room_is_counted(scene: Scene) -> None:
    leaf = scene.tree.nodes["leaf-b"]
    feed = Changing(leaf.app, more=False)
    scene.tree.network.mount(leaf.url, feed)

    scene.step()

    assert scene.own_threads == {"leaf-b"}
    assert scene.asked("leaf-b") == 2


def test_one_that_does_not_know_its_cursor_any_more_is_read_from_the_start(scene: Scene) -> None:
    store = scene.tree.nodes["root"].zone.store
    leaf = next(row for row in store.read(children.read_all) if row.name == "leaf-b")
    store.write(lambda tx: children.set_cursor(tx, leaf.id, "of another zone"))
    scene.all_built()

    scene.step()

    assert scene.active == 12
    assert scene.asked("leaf-b") == 3


@pytest.mark.parametrize("more", [True, False])
def test_the_sync_is_woken_where_a_child_has_more(scene: Scene, more: bool) -> None:
    # given
    woken = InlineLoop("sync", lambda: 0.0)
    scene.tree.nodes["root"].zone.wake.sync_loops.append(woken)
    leaf = scene.tree.nodes["leaf-b"]
    scene.tree.network.mount(leaf.url, Changing(leaf.app, more=more))
    # when
    scene.step()
    # then
    assert (woken.woken > 0) is more
