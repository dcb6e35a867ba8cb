"""A pending boot says how many of its instances wait for which step, and an admin for which child zone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, boot, counts, nothing_is_wrong, report_all
from tests.builders.command import TreeCommand
from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead
from zonesched.model.agent_instances import AgentState
from zonesched.services import background
from zonesched.services.children.returned import ready_ids, wake_waiting_for


@built_once
def a_tree(folder: Path, **root: Any) -> Tree:
    """A root with room for 2 instances and its two children, with room for 4 and 8."""
    tree = Tree(folder)
    full: dict[str, Any] = {"cpu_allocation_ratio": 1.0}
    tree.add("root", hosts_=[a_host("r1", vcpus=4)], **full, **root).client().post("/flavors", FLAVOR)
    tree.add("near", hosts_=[a_host("n1", vcpus=8)], parent="root", **full)
    tree.add("leaf", hosts_=[a_host("h1", vcpus=16)], parent="root", **full)
    tree.poll()
    return tree


class Scene:
    """Such a tree, whose leaf goes away and comes back."""

    def __init__(self, folder: Path, **root: Any) -> None:
        self.tree = a_tree(folder, **root)
        self.root, self.near, self.leaf = (self.tree.nodes[name] for name in ("root", "near", "leaf"))

    def waiting_for(self, reservation_id: str, who: str = "admin") -> Any:
        found = self.root.client(who).get(f"/reservations/{reservation_id}").json["reservation"]
        return found["waiting_for"]

    def leaf_is_away(self, path: str = "") -> None:
        self.tree.network.fault(self.leaf.url, Dead(path=path))

    def leaf_is_back(self) -> None:
        self.tree.network.heal(self.leaf.url)
        self.tree.poll(2)

    def selects(self, child: str = "near") -> int:
        """The selects that reached a child since this was called last."""
        select_url = f"{self.tree.nodes[child].url}/zones/select"
        found = sum(sent.url == select_url for sent in self.tree.network.sent)
        self.tree.network.sent.clear()
        return found


def line(code: str, count: int, **more: str) -> dict[str, object]:
    return {"code": code, "count": count, **more}


def test_a_boot_whose_child_left_after_the_holds_says_so_until_that_child_has_built(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    reservation_id = boot(scene.tree, num_instances=14)
    assert scene.waiting_for(reservation_id) == [line("boot_worker", 14)]
    scene.leaf_is_away("/confirm")

    scene.tree.settle()

    assert scene.waiting_for(reservation_id) == [
        line("confirm_answer", 8, child_zone="leaf"),
        line("build", 2),
        line("build", 4, child_zone="near"),
    ]
    report_all(scene.tree, "root", AgentState.ACTIVE)
    report_all(scene.tree, "near", AgentState.ACTIVE)
    scene.tree.settle()
    assert scene.waiting_for(reservation_id) == [line("confirm_answer", 8, child_zone="leaf")]

    scene.leaf_is_back()
    scene.tree.clock.advance(60)
    scene.tree.settle()
    assert scene.waiting_for(reservation_id) == [line("build", 8, child_zone="leaf")]

    report_all(scene.tree, "leaf", AgentState.ACTIVE)
    scene.tree.settle()
    assert scene.waiting_for(reservation_id) == []
    assert counts(scene.tree, reservation_id) == {"ACTIVE": 14}
    nothing_is_wrong(scene.tree)


def test_others_than_the_admin_read_steps_and_counts_and_never_where(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    reservation_id = boot(scene.tree, num_instances=14)
    scene.leaf_is_away("/confirm")
    scene.tree.settle()

    assert scene.waiting_for(reservation_id, "member") == [line("confirm_answer", 8), line("build", 6)]
    as_parent = scene.near.client("parent-root").get(f"/reservations/{reservation_id}").json["reservation"]
    assert as_parent["waiting_for"] == [line("build", 4)]


def test_a_child_that_answers_no_hold_is_waited_for_until_it_answers_the_cancel(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    reservation_id = boot(scene.tree, num_instances=14)
    scene.leaf_is_away("/servers")
    scene.leaf_is_away("/cancel")

    background.work_on_boots(scene.root.zone)

    assert scene.waiting_for(reservation_id) == [
        line("cancel_answer", 8, child_zone="leaf"),
        line("other_instances", 2),
        line("other_instances", 4, child_zone="near"),
    ]
    held_for_parent = scene.near.client("parent-root").get(f"/reservations/{reservation_id}").json
    assert held_for_parent["reservation"]["waiting_for"] == [line("parent_confirm", 4)]


@pytest.mark.once
class TestABootThatWaitsForASelect:
    @pytest.fixture
    def scene(self, tmp_path: Path) -> Scene:
        return Scene(tmp_path, max_attempts=8, retry_pause=10.0, zone_failures_to_offline=1)

    def test_says_when_it_selects_again(self, scene: Scene) -> None:
        reservation_id = boot(scene.tree, num_instances=14)
        scene.leaf_is_away()
        scene.tree.poll()

        background.work_on_boots(scene.root.zone)

        (waiting,) = scene.waiting_for(reservation_id)
        assert waiting.pop("at") > "2000-01-01T00:00:00Z"
        assert waiting == line("next_select", 14)
        scene.tree.clock.advance(20.0)
        assert scene.waiting_for(reservation_id) == [line("boot_worker", 14)]

    def test_selects_as_soon_as_the_child_is_back(self, scene: Scene) -> None:
        reservation_id = boot(scene.tree, num_instances=14)
        scene.leaf_is_away()
        scene.tree.poll()
        scene.tree.settle()
        assert counts(scene.tree, reservation_id) == {"BUILD": 14}
        scene.selects()

        scene.leaf_is_back()
        scene.tree.settle()

        assert [waiting["code"] for waiting in scene.waiting_for(reservation_id)] == ["build"] * 3
        assert scene.selects() == 1
        nothing_is_wrong(scene.tree)

    def test_gives_one_select_for_a_child_that_leaves_again_at_once(self, scene: Scene) -> None:
        reservation_id = boot(scene.tree, num_instances=14)
        scene.leaf_is_away()
        scene.tree.poll()
        scene.tree.settle()
        scene.selects()

        scene.leaf_is_back()
        scene.leaf_is_away()
        scene.tree.settle()
        scene.tree.poll()
        scene.tree.settle()

        assert scene.selects() == 1
        assert [waiting["code"] for waiting in scene.waiting_for(reservation_id)] == ["next_select"]

    def test_gives_no_further_one_when_other_processes_find_the_same_child_back(self, scene: Scene) -> None:
        reservation_id = boot(scene.tree, num_instances=14)
        scene.leaf_is_away()
        scene.tree.network.fault(scene.near.url, Dead())
        scene.tree.poll()
        scene.tree.settle()
        away = ready_ids(scene.root.zone.children)

        scene.leaf_is_back()
        scene.tree.settle()
        returned = ready_ids(scene.root.zone.children) - away
        assert len(returned) == scene.selects("leaf") == 1
        wake_waiting_for(scene.root.zone.store, scene.root.zone.wake, returned)
        scene.tree.settle()

        assert scene.selects("leaf") == 0
        assert [waiting["code"] for waiting in scene.waiting_for(reservation_id)] == ["next_select"]

    def test_that_can_be_placed_without_the_child_selects_no_more(self, scene: Scene) -> None:
        scene.leaf_is_away()
        scene.tree.poll()
        boot(scene.tree, num_instances=6)
        scene.tree.settle()
        scene.selects()

        scene.leaf_is_back()
        scene.tree.settle()

        assert scene.selects() == 0


@pytest.mark.once
def test_the_command_says_in_words_what_a_boot_waits_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(tmp_path)
    reservation_id = boot(scene.tree, num_instances=14)
    scene.leaf_is_away("/confirm")
    scene.tree.settle()
    command = TreeCommand(capsys, scene.tree, "root")

    for asked in ("show", "why"):
        assert command("reservation", asked, reservation_id) == 0
        assert (
            """
waits for                             instances  child zone
the child zone to answer the confirm          8  leaf
the build                                     2
the build                                     4  near
"""
            in command.out
        )
