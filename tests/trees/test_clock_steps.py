"""The wall clock is set, or the machine has slept: what waits by it ends in time, and work goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import (
    FLAVOR,
    a_running_tree,
    a_small_tree,
    boot,
    counts,
    delete_all,
    nothing_is_wrong,
    rows,
    the_boot,
)
from tests.builders.crashes import Killed, Seams, heal, inconsistencies, open_actions
from tests.builders.moving import act, add_host, booted, last, shown
from tests.builders.played_agent import PlayedAgent
from tests.builders.restored import Before
from tests.builders.tree import Node, Tree, a_host
from tests.builders.wsgi_transport import Dead, Refuse
from zonesched.services import background
from zonesched.services.moves import mover
from zonesched.services.placing import build_timeouts

STEP_S = 3 * 3600.0
BUILD_TIMEOUT_S = 900.0
DOWN_TIME_S = 60.0


def step(tree: Tree, seconds: float) -> None:
    """Set the wall clock of the machine on which all zones are."""
    tree.clock.set_to(tree.clock.now() + seconds)


def fast(tree: Tree) -> Tree:
    """Let the clock be fast, as one of a machine that has not asked for the time yet."""
    step(tree, STEP_S)
    for node in tree.nodes.values():
        node.zone.clock_steps.take_set_back()
    tree.beat()
    tree.poll()
    return tree


def stop_one(tree: Tree) -> None:
    server = rows(tree, "leaf-b", "SELECT uuid FROM instances")[0][0]
    assert act(tree.nodes["root"], server, {"os-stop": None}).status == 202


class TestSetBack:
    @pytest.mark.parametrize("at_start", [False, True])
    def test_a_deleted_server_may_be_restored_for_no_longer(self, tmp_path: Path, at_start: bool) -> None:
        # given two deletes while the clock is fast; the option is lowered between them
        tree = Tree(tmp_path)
        node = tree.add("root", hosts_=[a_host("h1", vcpus=4)], reclaim_instance_interval=1200.0)
        node.client().post("/flavors", FLAVOR)
        fast(tree)
        agent = PlayedAgent(node)
        first, second = (booted(tree, agent, "root") for _ in range(2))
        for uuid, seconds in ((first, 1200.0), (second, 600.0)):
            node.zone.conf.set_override("reclaim_instance_interval", seconds)
            assert node.client("member").delete(f"/servers/{uuid}").status == 204
        tree.settle()
        agent.converge()
        # when
        step(tree, -STEP_S)
        if at_start:
            tree.restart("root")
            node = tree.nodes["root"]
        left = []
        for _ in range(3):
            background.reap(node.zone)
            tree.clock.advance(500)
            tree.settle()
            left.append([node.client().get(f"/servers/{uuid}").status for uuid in (first, second)])
        # then
        assert left == [[200, 200], [200, 404], [404, 404]]

    @pytest.mark.parametrize(
        ("begin", "do", "lost"),
        [
            (a_small_tree, boot, ("POST", "/servers")),
            (a_small_tree, boot, ("POST", "/confirm")),
            (a_running_tree, delete_all, ("DELETE", "/servers/")),
            (a_running_tree, stop_one, ("POST", "desired")),
        ],
    )
    def test_an_unanswered_call_is_repeated_in_time(
        self,
        tmp_path: Path,
        begin: Callable[[Path], Tree],
        do: Callable[[Tree], object],
        lost: tuple[str, str],
    ) -> None:
        # given a call that a child refuses once, and the time of its repeat
        tree = fast(begin(tmp_path))
        method, path = lost
        tree.network.fault(tree.nodes["leaf-b"].url, Refuse(times=1, method=method, path=path, status=503))
        do(tree)
        tree.settle(2)
        # when the clock is set right
        step(tree, -STEP_S)
        for _ in range(5):
            tree.clock.advance(15)
            tree.settle(2)
            PlayedAgent(tree.nodes["leaf-b"]).converge()
        tree.settle(2)
        # then all of it has ended a minute later
        assert inconsistencies(tree) == []
        assert open_actions(tree) == []

    @pytest.mark.parametrize("kill_at", [1, 4])
    def test_a_boot_whose_worker_died_is_taken_over_in_time(self, tmp_path: Path, kill_at: int) -> None:
        tree = fast(a_small_tree(tmp_path))
        boot(tree)
        seams = Seams(tree, "root", kill_at)
        with suppress(Killed):
            tree.settle(2)
        # when the clock is right at the next start
        step(tree, -STEP_S)
        seams.restart()
        tree.poll()
        heal(tree)
        # then the boot does not wait until its lease is over by the old time
        nothing_is_wrong(tree)
        assert counts(tree, the_boot(tree)) == {"BUILD": 12}

    def test_a_hold_that_nobody_confirms_ends_in_time(self, tmp_path: Path) -> None:
        # given holds that are cancelled, but the child is cut off until their parent's own holds are over
        tree = fast(a_small_tree(tmp_path))
        leaf = tree.nodes["leaf-b"]
        tree.network.fault(leaf.url, Dead(path="/confirm"))
        tree.network.fault(leaf.url, Dead(path="/cancel"))
        tree.network.fault(tree.nodes["region"].url, Dead(path="/servers"))
        boot(tree)
        background.work_on_boots(tree.nodes["root"].zone)
        held = "SELECT count(*) FROM placements WHERE state = 'held'"
        assert rows(tree, "leaf-b", held) != [(0,)]

        step(tree, -STEP_S)
        tree.clock.advance(leaf.zone.conf.max_hold)
        background.reap(leaf.zone)
        tree.clock.advance(leaf.zone.conf.max_hold)
        background.reap(leaf.zone)

        assert rows(tree, "leaf-b", held) == [(0,)]

    def test_a_build_of_a_lost_agent_ends_in_time(self, tmp_path: Path) -> None:
        tree = a_zone_that_builds(tmp_path, set_forward_s=STEP_S)
        zone = tree.nodes["root"].zone

        step(tree, -STEP_S)
        background.reap(zone)
        tree.clock.advance(BUILD_TIMEOUT_S + 1)
        build_timeouts.end_lost_builds(zone)

        assert counts(tree, the_boot(tree)) == {"ERROR": 1}

    def test_a_move_of_a_lost_agent_ends_in_time(self, tmp_path: Path) -> None:
        tree, uuid = a_server_that_leaves(tmp_path, set_forward_s=STEP_S)
        node = tree.nodes["root"]

        step(tree, -STEP_S)
        background.reap(node.zone)
        tree.clock.advance(BUILD_TIMEOUT_S + 1)
        mover.work(node.zone)

        assert last(node, uuid) == ("migrate", "error", "move_not_left_in_time")

    def test_a_boot_whose_holds_ended_while_the_clock_was_fast_is_placed_again(self, tmp_path: Path) -> None:
        # given holds that end at their confirm, since somebody sets the clock forward just before
        tree = a_small_tree(tmp_path)

        def set_right() -> None:
            step(tree, -STEP_S)

        def set_forward() -> None:
            step(tree, STEP_S)
            # when it is set right before the next select, and no background work has seen it yet
            tree.network.fault(tree.nodes["region"].url, Before(times=1, path="/select", happens=set_right))

        tree.network.fault(tree.nodes["leaf-a"].url, Before(times=1, path="/confirm", happens=set_forward))
        boot(tree)
        tree.settle(2)
        # then the children do not refuse it for them
        assert rows(tree, "leaf-a", "SELECT count(*) FROM placements WHERE reason = 'hold_expired'") != [(0,)]
        assert counts(tree, the_boot(tree)) == {"BUILD": 12}
        nothing_is_wrong(tree)

    def test_a_parent_with_idle_holds_is_not_refused_for_hours(self, tmp_path: Path) -> None:
        # given a parent that has let holds run out, as far as that is free
        tree = fast(a_small_tree(tmp_path))
        leaf = tree.nodes["leaf-b"]
        tree.network.fault(leaf.url, Dead(path="/confirm"))
        tree.network.fault(tree.nodes["region"].url, Dead(path="/servers"))
        boot(tree)
        tree.settle(2)
        tree.clock.advance(60)
        tree.settle(2)
        assert rows(tree, "leaf-b", "SELECT count(*) FROM idle_holds") == [(1,)]
        tree.network.heal(leaf.url)
        # when its clock is set right
        step(tree, -STEP_S)
        tree.clock.advance(60)
        tree.settle(2)
        # then it still takes that parent's boots
        tree.poll()
        reservation_id = boot(tree, num_instances=4, min_count=4)
        tree.settle(2)
        assert counts(tree, reservation_id) == {"BUILD": 4}


class TestSetForward:
    """A zone that has beaten before."""

    def test_builds_under_way_go_on(self, tmp_path: Path) -> None:
        # given a build that its agent has fetched
        tree = a_zone_that_builds(tmp_path)
        node = tree.nodes["root"]
        background.beat_own(node.zone)
        # when the machine has slept for hours
        step(tree, STEP_S)
        listen(tree, BUILD_TIMEOUT_S - 90)
        # then the build ends as it does
        PlayedAgent(node).converge()
        assert counts(tree, the_boot(tree)) == {"ACTIVE": 1}

    def test_a_build_of_a_lost_agent_ends_after_the_rest_of_its_time(self, tmp_path: Path) -> None:
        tree = a_zone_that_builds(tmp_path)
        background.beat_own(tree.nodes["root"].zone)
        step(tree, STEP_S)
        listen(tree, BUILD_TIMEOUT_S + 10)
        assert counts(tree, the_boot(tree)) == {"ERROR": 1}

    def test_a_move_under_way_goes_on(self, tmp_path: Path) -> None:
        tree, uuid = a_server_that_leaves(tmp_path)
        node = tree.nodes["root"]
        background.beat_own(node.zone)

        step(tree, STEP_S)
        mover.work(node.zone)
        for service in ("agent", "agent-2", "agent"):
            PlayedAgent(node, service=service).converge()

        assert last(node, uuid) == ("migrate", "done", "")
        assert shown(node, uuid) == ("ACTIVE", None, "h2")


def listen(tree: Tree, seconds: float) -> None:
    """Let the zone listen for so long, and look at its builds."""
    zone = tree.nodes["root"].zone
    for _ in range(int(seconds // 10)):
        tree.clock.advance(10)
        background.beat_own(zone)
        build_timeouts.end_lost_builds(zone)


def a_zone_that_builds(folder: Path, set_forward_s: float = 0.0) -> Tree:
    """A zone whose agent has fetched a build; its clock is fast by so much."""
    tree = Tree(folder)
    times: dict[str, Any] = {"instance_build_timeout": BUILD_TIMEOUT_S, "service_down_time": DOWN_TIME_S}
    node = tree.add("root", hosts_=[a_host("h1", vcpus=4)], **times)
    node.client().post("/flavors", FLAVOR)
    step(tree, set_forward_s)
    tree.clock.advance(BUILD_TIMEOUT_S)
    # It has seen that its clock was set forward, if it was, and forgotten it.
    build_timeouts.end_lost_builds(node.zone)
    tree.clock.advance(BUILD_TIMEOUT_S)
    tree.beat()
    node.zone.heartbeats.write()
    boot(tree, num_instances=1)
    tree.settle()
    PlayedAgent(node).work()
    return tree


def a_server_that_leaves(folder: Path, set_forward_s: float = 0.0) -> tuple[Tree, str]:
    """A zone where a server is to leave its host, and the agent of that has not heard of it."""
    tree = a_zone_that_builds(folder, set_forward_s)
    node: Node = tree.nodes["root"]
    PlayedAgent(node).converge()
    add_host(node, "h2", vcpus=4)
    node.zone.heartbeats.write()
    uuid: Any = rows(tree, "root", "SELECT uuid FROM instances")[0][0]
    assert act(node, uuid, {"migrate": None}).status == 202
    mover.work(node.zone)
    return tree, uuid
