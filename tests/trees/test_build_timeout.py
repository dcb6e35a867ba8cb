"""A build whose agent died is placed again where that is safe; else it is ERROR and keeps its claim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, boot, counts, nothing_is_wrong, the_server
from tests.builders.one_zone import sql
from tests.builders.scenes import built_once
from tests.builders.tree import Node, Tree, a_host
from zonesched.model.agent_instances import AgentReport, AgentState, DesiredInstance
from zonesched.model.placement import Attempt, InstanceStatus
from zonesched.services.hosts import hosts
from zonesched.services.placing import build_retry
from zonesched.store import identity, instances
from zonesched.store.store import Transaction

DOWN_TIME_S = 60.0
BUILD_TIMEOUT_S = 900.0


@built_once
def a_zone_with_agents(folder: Path, *names: str) -> Tree:
    """One zone where each host has an agent of its own, named as the host."""
    tree = Tree(folder)
    add_zone(tree, "root", names)
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    tree.clock.advance(DOWN_TIME_S + 1)
    beat(tree.nodes["root"], *names)
    return tree


def add_zone(tree: Tree, name: str, hosts_: Sequence[str], parent: str = "") -> None:
    node = tree.add(
        name, parent=parent, service_down_time=DOWN_TIME_S, instance_build_timeout=BUILD_TIMEOUT_S
    )
    assert node.compute is not None
    for host in hosts_:
        hosts.register(node.zone, node.compute, host, [a_host(host)])


def beat(node: Node, *agents: str) -> None:
    assert node.compute is not None
    for agent in agents:
        hosts.register(node.zone, node.compute, agent, [])
    node.zone.hosts.expire()


def fetch(node: Node, agent: str) -> list[DesiredInstance]:
    assert node.compute is not None
    return hosts.desired(node.zone.store, node.zone.heartbeats, node.compute, agent)


def to_release(node: Node, agent: str) -> list[Attempt]:
    assert node.compute is not None
    return hosts.releasing(node.zone.store, node.zone.heartbeats, node.compute, agent)


def report(node: Node, agent: str, state: AgentState, *, uuid: str, attempt: int) -> None:
    assert node.compute is not None
    hosts.report(node.zone, node.compute, agent, [AgentReport(uuid, attempt, state)])


def place_of(node: Node) -> Any:
    """The last placement on a host of this zone, with its host's name."""
    return sql(
        node.zone,
        "select p.uuid, p.number, p.state, h.name as host from placements p"
        " left join hosts h on h.id = p.host_id order by p.number desc limit 1",
    )[0]


def in_use(node: Node) -> int:
    return int(sql(node.zone, "select coalesce(sum(used), 0) as n from inventories")[0].n)


def a_build(tree: Tree) -> tuple[str, Any]:
    """Boot one instance: its reservation, and its place."""
    reservation_id = boot(tree, num_instances=1)
    tree.settle()
    return reservation_id, place_of(tree.nodes["root"])


class TestThatItsAgentNeverFetched:
    def test_it_is_placed_again_once_its_agent_is_down(self, tmp_path: Path) -> None:
        tree = a_zone_with_agents(tmp_path, "h1", "h2")
        root = tree.nodes["root"]
        reservation_id, first = a_build(tree)
        (other,) = {"h1", "h2"} - {first.host}

        tree.clock.advance(DOWN_TIME_S + 1)
        beat(root, other)
        tree.settle()

        second = place_of(root)
        assert (second.host, second.state) == (other, "confirmed")
        (wanted,) = fetch(root, other)
        report(root, other, AgentState.ACTIVE, uuid=wanted.uuid, attempt=wanted.attempt)
        assert counts(tree, reservation_id) == {"ACTIVE": 1}
        nothing_is_wrong(tree)

    def test_it_is_placed_again_at_once_when_its_host_is_forced_down(self, tmp_path: Path) -> None:
        tree = a_zone_with_agents(tmp_path, "h1", "h2")
        root = tree.nodes["root"]
        _, first = a_build(tree)

        forced = root.client().call(
            "PUT",
            "/os-services/force-down",
            {"host": first.host, "binary": "nova-compute", "forced_down": True},
        )
        tree.settle()

        assert forced.status == 200
        assert place_of(root).host != first.host
        nothing_is_wrong(tree)

    def test_an_agent_that_comes_back_late_is_not_told_of_it(self, tmp_path: Path) -> None:
        tree = a_zone_with_agents(tmp_path, "h1", "h2")
        root = tree.nodes["root"]
        _, first = a_build(tree)
        (other,) = {"h1", "h2"} - {first.host}
        tree.clock.advance(DOWN_TIME_S + 1)
        beat(root, other)
        tree.settle()

        beat(root, first.host)

        assert fetch(root, first.host) == []
        assert len(fetch(root, other)) == 1

    def test_it_is_placed_again_where_a_living_agent_does_not_fetch_it_in_time(self, tmp_path: Path) -> None:
        tree = a_zone_with_agents(tmp_path, "h1", "h2")
        root = tree.nodes["root"]
        _, first = a_build(tree)

        tree.clock.advance(BUILD_TIMEOUT_S + 1)
        beat(root, "h1", "h2")
        tree.settle()

        assert place_of(root).host != first.host
        nothing_is_wrong(tree)

    def test_without_another_host_it_ends_with_the_reason_and_gives_its_claim_back(
        self, tmp_path: Path
    ) -> None:
        tree = a_zone_with_agents(tmp_path, "h1")
        reservation_id, _ = a_build(tree)

        tree.clock.advance(DOWN_TIME_S + 1)
        tree.settle()

        assert counts(tree, reservation_id) == {"ERROR": 1}
        assert the_server(tree)["fault"]["error_code"] == "build_timeout"
        assert in_use(tree.nodes["root"]) == 0
        nothing_is_wrong(tree)

    def test_a_zone_that_has_just_started_waits_for_its_agents(self, tmp_path: Path) -> None:
        tree = a_zone_with_agents(tmp_path, "h1", "h2")
        _, first = a_build(tree)

        tree.clock.advance(DOWN_TIME_S + 1)
        tree.restart("root")
        tree.settle()
        after_start = place_of(tree.nodes["root"])
        tree.clock.advance(DOWN_TIME_S + 1)
        (other,) = {"h1", "h2"} - {first.host}
        beat(tree.nodes["root"], other)
        tree.settle()

        assert (after_start.host, after_start.number) == (first.host, first.number)
        assert place_of(tree.nodes["root"]).host == other


class TestThatItsAgentHasFetched:
    def test_it_stays_while_it_may_still_be_reported(self, tmp_path: Path) -> None:
        tree = a_zone_with_agents(tmp_path, "h1", "h2")
        root = tree.nodes["root"]
        reservation_id, first = a_build(tree)
        fetch(root, first.host)

        tree.clock.advance(BUILD_TIMEOUT_S - 1)
        (other,) = {"h1", "h2"} - {first.host}
        beat(root, other)
        tree.settle()

        assert counts(tree, reservation_id) == {"BUILD": 1}
        assert place_of(root).host == first.host

    def test_after_the_time_out_it_is_an_error_that_keeps_its_claim(self, tmp_path: Path) -> None:
        tree = a_zone_with_agents(tmp_path, "h1", "h2")
        root = tree.nodes["root"]
        reservation_id, first = a_build(tree)
        fetch(root, first.host)
        taken = in_use(root)

        tree.clock.advance(BUILD_TIMEOUT_S + 1)
        tree.settle()

        assert counts(tree, reservation_id) == {"ERROR": 1}
        assert the_server(tree)["fault"]["error_code"] == "build_timeout"
        assert place_of(root).state == "releasing"
        assert in_use(root) == taken > 0
        nothing_is_wrong(tree)

    def test_one_that_is_reported_while_its_end_waits_for_the_locks_runs_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Given: one overdue build that its agent reports in another process of the zone, which has the locks
        tree = a_zone_with_agents(tmp_path, "h1", "h2")
        reservation_id, first = a_build(tree)
        fetch(tree.nodes["root"], first.host)
        lock, built = build_retry.lock_with_alternates, InstanceStatus.ACTIVE

        def locked_after_the_report(tx: Transaction, uuids: Sequence[str], failed: Sequence[str]) -> None:
            lock(tx, uuids, failed)
            instances.set_status(tx, identity.next_change(tx), uuids, built, tree.clock.now())

        monkeypatch.setattr(build_retry, "lock_with_alternates", locked_after_the_report)
        # When
        tree.clock.advance(BUILD_TIMEOUT_S + 1)
        tree.settle()
        # Then
        assert counts(tree, reservation_id) == {"ACTIVE": 1}
        assert place_of(tree.nodes["root"]).state == "confirmed"

    def test_a_zone_that_was_away_for_longer_takes_the_report_of_what_was_built_meanwhile(
        self, tmp_path: Path
    ) -> None:
        # Given
        tree = a_zone_with_agents(tmp_path, "h1", "h2")
        reservation_id, first = a_build(tree)
        fetch(tree.nodes["root"], first.host)

        # When: the zone is back, and works before the agent has called again
        tree.clock.advance(BUILD_TIMEOUT_S + 1)
        tree.restart("root")
        tree.settle()
        after_start = counts(tree, reservation_id)
        root = tree.nodes["root"]
        report(root, first.host, AgentState.ACTIVE, uuid=first.uuid, attempt=first.number)

        # Then
        assert after_start == {"BUILD": 1}
        assert counts(tree, reservation_id) == {"ACTIVE": 1}
        nothing_is_wrong(tree)

    def test_a_zone_that_was_away_for_longer_ends_it_once_its_agent_had_time(self, tmp_path: Path) -> None:
        tree = a_zone_with_agents(tmp_path, "h1", "h2")
        reservation_id, first = a_build(tree)
        fetch(tree.nodes["root"], first.host)
        tree.clock.advance(BUILD_TIMEOUT_S + 1)
        tree.restart("root")

        tree.clock.advance(DOWN_TIME_S + 1)
        tree.settle()

        assert counts(tree, reservation_id) == {"ERROR": 1}

    def test_its_claim_ends_when_its_agent_is_back_and_says_that_it_is_gone(self, tmp_path: Path) -> None:
        tree = a_zone_with_agents(tmp_path, "h1", "h2")
        root = tree.nodes["root"]
        _, first = a_build(tree)
        fetch(root, first.host)
        tree.clock.advance(BUILD_TIMEOUT_S + 1)
        tree.settle()

        # It was built meanwhile: that comes too late, and it has to go.
        report(root, first.host, AgentState.ACTIVE, uuid=first.uuid, attempt=first.number)
        wanted, releasing = fetch(root, first.host), to_release(root, first.host)
        before = in_use(root)
        report(root, first.host, AgentState.GONE, uuid=first.uuid, attempt=first.number)

        assert wanted == []
        assert releasing == [Attempt(first.uuid, first.number)]
        assert before > 0
        assert in_use(root) == 0
        assert to_release(root, first.host) == []
        assert the_server(tree)["fault"]["error_code"] == "build_timeout"
        nothing_is_wrong(tree)

    def test_deleting_it_does_not_free_what_may_still_run(self, tmp_path: Path) -> None:
        tree = a_zone_with_agents(tmp_path, "h1", "h2")
        root = tree.nodes["root"]
        _, first = a_build(tree)
        fetch(root, first.host)
        tree.clock.advance(BUILD_TIMEOUT_S + 1)
        tree.settle()

        deleted = root.client().delete(f"/servers/{first.uuid}")
        kept = in_use(root)
        report(root, first.host, AgentState.GONE, uuid=first.uuid, attempt=first.number)

        assert deleted.status == 204
        assert kept > 0
        assert in_use(root) == 0
        nothing_is_wrong(tree)

    def test_its_claim_ends_with_its_host(self, tmp_path: Path) -> None:
        tree = a_zone_with_agents(tmp_path, "h1", "h2")
        root = tree.nodes["root"]
        _, first = a_build(tree)
        fetch(root, first.host)
        tree.clock.advance(BUILD_TIMEOUT_S + 1)
        tree.settle()
        (host,) = sql(root.zone, f"select id from hosts where name = '{first.host}'")

        removed = root.client().delete(f"/os-services/{host.id}")

        assert removed.status == 204
        assert place_of(root).state == "released"
        nothing_is_wrong(tree)


class TestThroughATree:
    def a_tree(self, folder: Path) -> Tree:
        tree = Tree(folder)
        add_zone(tree, "root", ())
        tree.nodes["root"].client().post("/flavors", FLAVOR)
        add_zone(tree, "left", ["l1"], parent="root")
        add_zone(tree, "right", ["r1"], parent="root")
        tree.clock.advance(DOWN_TIME_S + 1)
        beat(tree.nodes["left"], "l1")
        beat(tree.nodes["right"], "r1")
        tree.poll()
        return tree

    def where(self, tree: Tree) -> tuple[Node, str, Node, str]:
        """The zone that builds and its host, and the other one with its own."""
        left, right = tree.nodes["left"], tree.nodes["right"]
        confirmed = "select uuid from placements where state = 'confirmed'"
        if sql(left.zone, confirmed):
            return left, "l1", right, "r1"
        return right, "r1", left, "l1"

    def test_the_child_says_that_it_failed_and_the_parent_places_it_elsewhere(self, tmp_path: Path) -> None:
        tree = self.a_tree(tmp_path)
        reservation_id = boot(tree, num_instances=1)
        tree.settle()
        building, _, other, other_host = self.where(tree)

        tree.clock.advance(DOWN_TIME_S + 1)
        beat(other, other_host)
        tree.poll()
        tree.settle(10)

        assert in_use(building) == 0
        (wanted,) = fetch(other, other_host)
        report(other, other_host, AgentState.ACTIVE, uuid=wanted.uuid, attempt=wanted.attempt)
        tree.clock.advance(2.0)
        tree.settle()
        assert counts(tree, reservation_id) == {"ACTIVE": 1}
        nothing_is_wrong(tree)

    def test_one_that_may_still_run_is_an_error_at_the_top_and_keeps_its_claim_below(
        self, tmp_path: Path
    ) -> None:
        tree = self.a_tree(tmp_path)
        reservation_id = boot(tree, num_instances=1)
        tree.settle()
        building, host, other, other_host = self.where(tree)
        (wanted,) = fetch(building, host)

        tree.clock.advance(BUILD_TIMEOUT_S + 1)
        beat(other, other_host)
        tree.settle()
        tree.clock.advance(2.0)
        tree.settle()
        kept = in_use(building)
        report(building, host, AgentState.GONE, uuid=wanted.uuid, attempt=wanted.attempt)
        tree.settle()

        assert counts(tree, reservation_id) == {"ERROR": 1}
        assert the_server(tree)["fault"]["error_code"] == "build_timeout"
        assert fetch(other, other_host) == []
        assert kept > 0
        assert in_use(building) == 0
        nothing_is_wrong(tree)

    def a_build_to_be_shelved(self, tree: Tree, *, is_fetched: bool) -> tuple[Node, str, Any]:
        """The zone that builds it, its host and its place; its parent has just asked that it leaves."""
        boot(tree, num_instances=1)
        tree.settle()
        building, host, *_ = self.where(tree)
        if is_fetched:
            fetch(building, host)
        first = place_of(building)
        numbers = {"attempt": 1, "generation": 1, "reboots": 0, "reboot_type": "SOFT"}
        told = {"servers": [{"uuid": first.uuid, "power": "offloaded", **numbers}]}
        assert building.client("parent-root").post("/servers/desired", told).status == 200
        assert self.status(building) == "BUILD"
        return building, host, first

    def status(self, node: Node) -> str:
        return str(sql(node.zone, "select status from instances")[0].status)

    def test_one_to_be_shelved_that_its_agent_never_fetched_rests_once_that_is_down(
        self, tmp_path: Path
    ) -> None:
        tree = self.a_tree(tmp_path)
        building, host, _ = self.a_build_to_be_shelved(tree, is_fetched=False)

        tree.clock.advance(DOWN_TIME_S + 1)
        tree.step(building.name)

        assert self.status(building) == "OFFLOADED"
        assert (place_of(building).state, in_use(building)) == ("released", 0)
        assert (fetch(building, host), to_release(building, host)) == ([], [])

    def test_one_to_be_shelved_that_may_run_is_an_error_and_keeps_its_claim(self, tmp_path: Path) -> None:
        tree = self.a_tree(tmp_path)
        building, host, first = self.a_build_to_be_shelved(tree, is_fetched=True)

        tree.clock.advance(BUILD_TIMEOUT_S - 1)
        tree.step(building.name)
        before = self.status(building)
        tree.clock.advance(2)
        tree.step(building.name)

        assert (before, self.status(building)) == ("BUILD", "ERROR")
        assert place_of(building).state == "releasing"
        assert in_use(building) > 0
        assert to_release(building, host) == [Attempt(first.uuid, first.number)]
        report(building, host, AgentState.GONE, uuid=first.uuid, attempt=first.number)
        assert in_use(building) == 0
