"""A zone that did not listen for a while takes nobody for silent: it is stopped, asleep or without rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, boot, counts, rows, the_boot
from tests.builders.moving import add_host
from tests.builders.played_agent import PlayedAgent
from tests.builders.tree import Tree, a_host
from zonesched.services import background
from zonesched.services.hosts import hosts, services
from zonesched.services.placing import build_timeouts
from zonesched.services.state.listening import Gap, Listened
from zonesched.services.zone import Zone

DOWN_TIME_S = 60.0
PAUSE_S = 900.0
LATE_S = 20.0


def a_zone_that_listens(folder: Path, **options: Any) -> Tree:
    """A zone with one host that was heard just now."""
    tree = Tree(folder)
    settings: dict[str, Any] = {
        "service_down_time": DOWN_TIME_S,
        "instance_build_timeout": PAUSE_S,
        **options,
    }
    node = tree.add("root", hosts_=[a_host("h1")], **settings)
    node.client().post("/flavors", FLAVOR)
    tree.clock.advance(DOWN_TIME_S + 1)
    heard(tree)
    return tree


def heard(tree: Tree) -> None:
    """The agent is heard, and the process does its own work."""
    zone = tree.nodes["root"].zone
    tree.beat()
    zone.heartbeats.write()
    background.beat_own(zone)


def listen(tree: Tree, seconds: float) -> None:
    """Time in which the zone listens, and no agent calls."""
    for _ in range(int(seconds / 10)):
        tree.clock.advance(10)
        background.beat_own(tree.nodes["root"].zone)


def stopped(tree: Tree) -> None:
    tree.clock.advance(PAUSE_S)


def asleep(tree: Tree) -> None:
    tree.clock.set_to(tree.clock.now() + PAUSE_S)


def restarted(tree: Tree) -> None:
    tree.clock.advance(PAUSE_S)
    tree.restart("root")


def is_up(zone: Zone) -> bool:
    (agent,) = services.list_services(zone, "agent")
    return agent.is_up


def set_back(folder: Path) -> Tree:
    """A zone whose clock was set back since any agent called; that of `h2` has been down for long."""
    tree = a_zone_that_listens(folder)
    add_host(tree.nodes["root"], "h2")
    tree.nodes["root"].zone.heartbeats.write()
    listen(tree, DOWN_TIME_S + 10)
    heard(tree)
    tree.clock.set_to(tree.clock.now() - 2 * PAUSE_S)
    return tree


def test_a_clock_that_is_set_back_makes_no_agent_down(tmp_path: Path) -> None:
    tree = set_back(tmp_path)
    boot(tree, num_instances=1)
    background.work_on_boots(tree.nodes["root"].zone)
    zone = tree.nodes["root"].zone
    assert {host.name: host.is_up for host in hosts.list_hypervisors(zone)} == {"h1": True, "h2": False}
    assert counts(tree, the_boot(tree)) == {"BUILD": 1}


def test_a_build_that_no_agent_has_fetched_when_the_clock_is_set_back_stays_where_it_is(
    tmp_path: Path,
) -> None:
    tree = a_zone_that_listens(tmp_path)
    zone = tree.nodes["root"].zone
    boot(tree, num_instances=1)
    background.work_on_boots(zone)

    tree.clock.set_to(tree.clock.now() - 2 * PAUSE_S)
    build_timeouts.end_lost_builds(zone)
    assert rows(tree, "root", "SELECT state, reason FROM placements") == [("confirmed", "")]

    # Until its agent has been silent for too long.
    listen(tree, DOWN_TIME_S + 20)
    build_timeouts.end_lost_builds(zone)
    background.work_on_boots(zone)
    assert counts(tree, the_boot(tree)) == {"ERROR": 1}


def test_an_agent_that_is_silent_since_the_clock_was_set_back_is_down_in_time(tmp_path: Path) -> None:
    tree = set_back(tmp_path)
    listen(tree, DOWN_TIME_S - 10)
    assert is_up(tree.nodes["root"].zone)
    listen(tree, 30)
    assert not is_up(tree.nodes["root"].zone)


class TestListened:
    def test_a_gap_counts_for_nobody_and_is_forgotten_in_time(self) -> None:
        listened = Listened(100.0).go_on(110.0, LATE_S).go_on(150.0, LATE_S)
        assert listened == Listened(150.0, (Gap(110.0, 150.0),))
        ten_s_later = listened.go_on(160.0, LATE_S)
        assert [ten_s_later.stretched(10.0), ten_s_later.stretched(11.0)] == [10.0, 51.0]

    def test_gaps_add_up(self) -> None:
        listened = Listened(100.0).go_on(130.0, LATE_S).go_on(140.0, LATE_S).go_on(200.0, LATE_S)
        assert [listened.stretched(s) for s in (5.0, 15.0)] == [65.0, 105.0]

    def test_a_clock_that_was_set_back_begins_anew(self) -> None:
        assert Listened(100.0, (Gap(50.0, 99.0),)).go_on(80.0, LATE_S) == Listened(80.0, ahead_s=20.0)


@pytest.mark.parametrize("host_source", ["memory", "sql"])
@pytest.mark.parametrize("does_not_listen", [stopped, asleep, restarted])
def test_a_boot_just_afterwards_has_its_host(
    tmp_path: Path, does_not_listen: Callable[[Tree], None], host_source: str
) -> None:
    tree = a_zone_that_listens(tmp_path, host_source=host_source)
    does_not_listen(tree)
    # when no agent has called yet
    reservation_id = boot(tree, num_instances=1)
    tree.settle()
    # then
    assert counts(tree, reservation_id) == {"BUILD": 1}


@pytest.mark.parametrize("does_not_listen", [stopped, asleep, restarted])
def test_an_agent_that_stays_silent_is_down_in_time(
    tmp_path: Path, does_not_listen: Callable[[Tree], None]
) -> None:
    tree = a_zone_that_listens(tmp_path)
    does_not_listen(tree)
    zone = tree.nodes["root"].zone
    listen(tree, DOWN_TIME_S)
    assert is_up(zone)
    listen(tree, 10)
    with zone.hosts.current() as table:
        assert [is_up(zone), *table.up[table.alive]] == [False, False]


def test_another_process_that_listened_knows_who_was_silent(tmp_path: Path) -> None:
    # given two processes, one of which is stopped
    tree = a_zone_that_listens(tmp_path)
    paused = tree.nodes["root"].zone
    tree.restart("root")
    other = tree.nodes["root"].zone
    listen(tree, DOWN_TIME_S)
    heard(tree)
    # when an agent calls the other one alone
    assert [is_up(zone) for zone in (other, paused)] == [True, True]
    listen(tree, DOWN_TIME_S + 10)
    # then its silence counts there
    assert not is_up(other)


def test_a_build_that_was_reported_to_nobody_goes_on(tmp_path: Path) -> None:
    tree = a_zone_that_listens(tmp_path)
    node = tree.nodes["root"]
    reservation_id = boot(tree, num_instances=1)
    tree.settle()
    PlayedAgent(node).work()
    stopped(tree)
    tree.clock.advance(1)
    # when its time is over by the clock
    build_timeouts.end_lost_builds(node.zone)
    PlayedAgent(node).converge()
    # then
    assert counts(tree, reservation_id) == {"ACTIVE": 1}
