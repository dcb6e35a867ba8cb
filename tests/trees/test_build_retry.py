"""A build that fails on its host is tried on another one, here or in another zone, and ends with reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from requests import ConnectionError as NotThere

from tests.builders.boots import (
    FLAVOR,
    a_building_tree,
    a_small_tree,
    boot,
    counts,
    delete_all,
    nothing_is_wrong,
    rows,
    the_boot,
    the_server,
)
from tests.builders.crashes import Killed, Seams, heal, inconsistencies
from tests.builders.one_zone import sql
from tests.builders.parent_calls import a_parent, a_spec, confirm, offered, send_choices
from tests.builders.scenes import built_once
from tests.builders.sealed_builds import RESERVATION, UUID, Stage
from tests.builders.tree import Node, Tree, a_host
from tests.builders.wsgi_transport import Dead
from zonesched.model.agent_instances import AgentReport, AgentState, DesiredInstance
from zonesched.model.placement import InstanceStatus
from zonesched.model.request_wire import spec_to_wire
from zonesched.services.audit import audit
from zonesched.services.hosts import hosts

Outcome = Callable[[DesiredInstance], AgentState]


def to_run(tree: Tree) -> Iterator[tuple[Node, list[DesiredInstance]]]:
    """By zone with hosts, what they have to run."""
    for node in tree.nodes.values():
        if rows(tree, node.name, "SELECT id FROM hosts"):
            assert node.compute is not None
            yield node, hosts.desired(node.zone.store, node.zone.heartbeats, node.compute, "agent")


def agents_report(tree: Tree, outcome: Outcome, reason: str = "") -> None:
    """Every agent tells the outcome of all that is to run on its hosts."""
    for node, wanted in to_run(tree):
        assert node.compute is not None
        told = [AgentReport(d.uuid, d.attempt, outcome(d), reason) for d in wanted]
        hosts.report(node.zone, node.compute, "agent", told)


def failing_on(*names: str) -> Outcome:
    """Builds on these hosts fail; what runs already goes on."""

    def outcome(wanted: DesiredInstance) -> AgentState:
        fails = wanted.host in names and wanted.status is not InstanceStatus.ACTIVE
        return AgentState.ERROR if fails else AgentState.ACTIVE

    return outcome


def ended_on(*names: str) -> Outcome:
    return lambda wanted: AgentState.ERROR if wanted.host in names else AgentState.ACTIVE


def go_on(tree: Tree, outcome: Outcome, rounds: int = 6) -> None:
    """Agents report, zones work, and again, while the time goes on."""
    for _ in range(rounds):
        agents_report(tree, outcome)
        tree.clock.advance(2.0)
        tree.settle(2)


def built_on(tree: Tree) -> dict[str, list[str]]:
    """By instance, the hosts in the whole tree that have to run it."""
    found: dict[str, list[str]] = {}
    for _, all_wanted in to_run(tree):
        for wanted in all_wanted:
            found.setdefault(wanted.uuid, []).append(wanted.host)
    return found


@built_once
def one_zone(folder: Path, *names: str, **options: Any) -> Tree:
    tree = Tree(folder)
    tree.add("root", hosts_=[a_host(name) for name in names], **options)
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    return tree


def host_id(tree: Tree, zone: str) -> str:
    return str(rows(tree, zone, "SELECT id FROM hosts")[0][0])


class TestInOneZone:
    def test_it_is_built_on_another_host(self, tmp_path: Path) -> None:
        tree = one_zone(tmp_path, "h1", "h2", "h3")
        reservation_id = boot(tree, num_instances=1)
        tree.settle()
        ((first,),) = built_on(tree).values()

        go_on(tree, failing_on(first))

        ((second,),) = built_on(tree).values()
        assert second != first
        assert counts(tree, reservation_id) == {"ACTIVE": 1}
        failed = sql(tree.nodes["root"].zone, "select name from hosts where failed_builds > 0")
        assert [row.name for row in failed] == [first]
        nothing_is_wrong(tree)

    def test_it_is_tried_max_attempts_times_and_ends_with_the_reason_of_each(self, tmp_path: Path) -> None:
        tree = one_zone(tmp_path, "h1", "h2", "h3", "h4", max_attempts=3)
        reservation_id = boot(tree, num_instances=1)
        tree.settle()
        reasons = ["image_broken", "no_network", "disk_full", "never_told"]

        for reason in reasons:
            agents_report(tree, lambda wanted: AgentState.ERROR, reason)
            tree.settle()

        assert counts(tree, reservation_id) == {"ERROR": 1}
        fault = the_server(tree)["fault"]
        assert fault["error_code"] == "disk_full"
        assert [line["reason"] for line in fault["attempts"]] == reasons[:3]
        assert len({line["host"] for line in fault["attempts"]}) == 3
        assert all(
            set(line) == {"attempt", "reason"} for line in the_server(tree, "member")["fault"]["attempts"]
        )
        nothing_is_wrong(tree)

    def test_without_another_host_it_ends_with_the_reason_of_the_build(self, tmp_path: Path) -> None:
        tree = one_zone(tmp_path, "h1")
        reservation_id = boot(tree, num_instances=1)
        tree.settle()

        go_on(tree, failing_on("h1"))

        assert counts(tree, reservation_id) == {"ERROR": 1}
        assert the_server(tree)["fault"]["error_code"] == "build_failed"
        nothing_is_wrong(tree)

    # PostgreSQL: a zone reads again what is as young as the oldest transaction in any database of the server.
    @pytest.mark.sqlite
    def test_where_other_hosts_are_full_it_ends_with_the_reason_of_the_build(self, tmp_path: Path) -> None:
        tree = one_zone(tmp_path, "h1", "h2", "h3")
        reservation_id = boot(tree, num_instances=1)
        tree.settle()
        ((first,),) = built_on(tree).values()
        # Unseen by the zone, which offers them and loses the claims.
        sql(tree.nodes["root"].zone, "update inventories set used = capacity")

        go_on(tree, failing_on(first))

        assert counts(tree, reservation_id) == {"ERROR": 1}
        fault = the_server(tree)["fault"]
        assert [line["reason"] for line in fault["attempts"]] == ["build_failed", "claim_lost", "claim_lost"]
        assert fault["error_code"] == "build_failed"

    def test_each_instance_of_a_batch_is_tried_again_for_itself(self, tmp_path: Path) -> None:
        tree = one_zone(tmp_path, "h1", "h2", "h3", "h4", "h5")
        reservation_id = boot(tree, num_instances=20)
        tree.settle()

        agents_report(tree, failing_on("h1", "h2"))
        tree.settle()
        agents_report(tree, failing_on("h3"))
        tree.settle()
        between = counts(tree, reservation_id)
        agents_report(tree, failing_on())

        assert between["BUILD"] > 0
        assert counts(tree, reservation_id) == {"ACTIVE": 20}
        nothing_is_wrong(tree)

    def test_an_all_or_nothing_batch_keeps_the_others_when_one_cannot_be_built(self, tmp_path: Path) -> None:
        tree = one_zone(tmp_path, "h1", "h2")
        reservation_id = boot(tree, num_instances=16, min_count=16)
        tree.settle()

        go_on(tree, failing_on("h2"))

        assert counts(tree, reservation_id) == {"ACTIVE": 8, "ERROR": 8}
        nothing_is_wrong(tree)

    def test_a_part_of_an_affinity_request_is_not_built_elsewhere(self, tmp_path: Path) -> None:
        tree = one_zone(tmp_path, "h1", "h2")
        root = tree.nodes["root"].client()
        hints = {"os:scheduler_hints": {"group_policy": "affinity"}}
        server = {"name": "vm", "flavorRef": "small", "num_instances": 3}
        reservation_id = root.post("/zones/boot", {"server": server, **hints}).json["reservation_id"]
        tree.settle()
        first = min(built_on(tree))

        agents_report(tree, lambda d: AgentState.ERROR if d.uuid == first else AgentState.ACTIVE)
        tree.settle()

        assert counts(tree, reservation_id) == {"ACTIVE": 2, "ERROR": 1}
        nothing_is_wrong(tree)

    def test_what_ran_and_ended_by_itself_is_not_built_again(self, tmp_path: Path) -> None:
        tree = one_zone(tmp_path, "h1", "h2")
        reservation_id = boot(tree, num_instances=1)
        tree.settle()
        agents_report(tree, lambda wanted: AgentState.ACTIVE)

        go_on(tree, lambda wanted: AgentState.ERROR)

        assert counts(tree, reservation_id) == {"ERROR": 1}
        assert the_server(tree)["fault"]["error_code"] == "ended_on_host"
        nothing_is_wrong(tree)

    def test_a_boot_that_has_used_up_its_selects_selects_again_for_a_build_that_failed(
        self, tmp_path: Path
    ) -> None:
        tree = one_zone(tmp_path, "h1", "h2", max_attempts=2)
        reservation_id = boot(tree, num_instances=1)
        tree.settle()
        sql(tree.nodes["root"].zone, "update reservations set selects = 2")
        ((first,),) = built_on(tree).values()

        go_on(tree, failing_on(first))

        assert counts(tree, reservation_id) == {"ACTIVE": 1}


class TestAcrossZones:
    def test_a_child_whose_host_failed_is_left_for_another_zone(self, tmp_path: Path) -> None:
        tree = a_building_tree(tmp_path, 6)
        reservation_id = the_boot(tree)

        go_on(tree, failing_on("b1", "r1"))

        assert counts(tree, reservation_id) == {"ACTIVE": 6}
        assert {host for where in built_on(tree).values() for host in where} <= {"a1", "a2"}
        nothing_is_wrong(tree)

    def test_the_child_keeps_nothing_of_it(self, tmp_path: Path) -> None:
        tree = a_building_tree(tmp_path, 6)
        had = sql(tree.nodes["leaf-b"].zone, "select uuid from instances")
        assert had

        go_on(tree, failing_on("b1"))

        left = sql(tree.nodes["leaf-b"].zone, "select status, count(*) as n from instances group by status")
        assert [(row.status, row.n) for row in left] == [("DELETED", len(had))]
        assert tree.nodes["leaf-b"].client("parent-root").get("/servers").json["servers"] == []

    def test_a_zone_in_the_middle_passes_a_failure_on(self, tmp_path: Path) -> None:
        tree = a_building_tree(tmp_path, 6)
        reservation_id = the_boot(tree)

        go_on(tree, failing_on("a1", "a2"))

        assert counts(tree, reservation_id) == {"ACTIVE": 6}
        assert {host for where in built_on(tree).values() for host in where} <= {"r1", "b1"}
        nothing_is_wrong(tree)

    def test_it_ends_with_the_reason_of_each_attempt(self, tmp_path: Path) -> None:
        tree = a_small_tree(tmp_path, max_attempts=2)
        reservation_id = boot(tree, num_instances=1)
        tree.settle()

        for _ in range(4):
            agents_report(tree, lambda wanted: AgentState.ERROR, "disk_of_a1_broken")
            tree.clock.advance(2.0)
            tree.settle(2)

        assert counts(tree, reservation_id) == {"ERROR": 1}
        fault = the_server(tree)["fault"]
        assert len(fault["attempts"]) == 2
        assert all(line.get("host") or line.get("zone") in ("region", "leaf-b") for line in fault["attempts"])
        # What an agent calls it stays in its own zone.
        assert all("host" in line or line["reason"] == "build_failed" for line in fault["attempts"])
        nothing_is_wrong(tree)

    def test_where_calls_are_routed_to_no_child_what_failed_there_can_still_be_deleted(
        self, tmp_path: Path
    ) -> None:
        # Given
        tree = Tree(tmp_path)
        tree.add("root", max_attempts=1, enable_zone_routing=False).client().post("/flavors", FLAVOR)
        tree.add("leaf", parent="root", hosts_=[a_host("l1")])
        tree.poll()
        reservation_id = boot(tree, num_instances=1)
        tree.settle()
        refused = tree.nodes["root"].client().delete(f"/servers/{the_server(tree)['id']}")
        go_on(tree, failing_on("l1"))
        assert (refused.status, counts(tree, reservation_id)) == (409, {"ERROR": 1})

        # When
        delete_all(tree)
        tree.settle()

        # Then
        assert counts(tree, reservation_id) == {"DELETED": 1}
        nothing_is_wrong(tree)

    def test_a_zone_that_does_not_answer_the_next_confirm_hides_no_reason(self, tmp_path: Path) -> None:
        # Given a build that fails here, and a child that is asked to build it and does not answer
        tree = Tree(tmp_path)
        tree.add("root", hosts_=[a_host("h1", vcpus=8)]).client().post("/flavors", FLAVOR)
        leaf = tree.add("leaf", parent="root", hosts_=[a_host("l1", vcpus=4)])
        tree.poll()
        reservation_id = boot(tree, num_instances=1)
        tree.settle()
        tree.network.fault(leaf.url, Dead(path="/confirm"))
        agents_report(tree, failing_on("h1"))
        tree.settle(2)
        unknown = rows(tree, "root", "SELECT status, reason FROM instances")

        # When the hold ends there, and no zone has room
        leaf.client().call("PUT", f"/os-services/{host_id(tree, 'leaf')}", {"status": "disabled"})
        tree.clock.advance(60.0)
        tree.network.heal(leaf.url)
        tree.poll()
        heal(tree)

        # Then it ends for what has failed
        assert unknown == [("UNKNOWN", "build_failed")]
        assert counts(tree, reservation_id) == {"ERROR": 1}
        assert the_server(tree)["fault"]["error_code"] == "build_failed"
        nothing_is_wrong(tree)

    def test_who_looks_at_it_meanwhile_ends_nothing(self, tmp_path: Path) -> None:
        tree = a_building_tree(tmp_path, 6)
        reservation_id = the_boot(tree)
        uuids = [s["id"] for s in tree.nodes["root"].client().get("/servers").json["servers"]]

        agents_report(tree, failing_on("b1"))
        shown = [tree.nodes["root"].client().get(f"/servers/{uuid}") for uuid in uuids]

        assert {answer.json["server"]["status"] for answer in shown} == {"ACTIVE", "BUILD"}
        go_on(tree, failing_on("b1"))
        assert counts(tree, reservation_id) == {"ACTIVE": 6}

    def test_what_ended_below_after_it_ran_leaves_nothing_there(self, tmp_path: Path) -> None:
        tree = a_building_tree(tmp_path, 12)
        reservation_id = the_boot(tree)
        go_on(tree, lambda wanted: AgentState.ACTIVE, rounds=2)

        go_on(tree, ended_on("b1", "a1"), rounds=3)

        on_failed = 12 - len(built_on(tree))
        assert counts(tree, reservation_id) == {"ACTIVE": 12 - on_failed, "ERROR": on_failed}
        for name in ("leaf-a", "leaf-b", "region"):
            assert sql(tree.nodes[name].zone, "select uuid from instances where status = 'ERROR'") == []
        nothing_is_wrong(tree)


def test_a_parents_instance_that_returns_has_the_builds_of_a_new_one(tmp_path: Path) -> None:
    # given: one whose builds on all hosts have failed
    tree = one_zone(tmp_path, "h1", "h2", "h3")
    node = tree.nodes["root"]
    parent, spec = a_parent(node, "parent"), a_spec(6)
    assert send_choices(node, parent, spec, {1: offered(node, parent, spec)}).status == 202
    confirm(node, parent, [1])
    for _ in range(3):
        agents_report(tree, failing_on("h1", "h2", "h3"))
    assert built_on(tree) == {}

    # when it is placed there again, and fails on the first host
    tree.clock.advance(2 * node.zone.conf.retry_window)
    tree.beat()
    node.zone.hosts.expire()
    assert send_choices(node, parent, spec, {1: offered(node, parent, spec)}, attempt=2).status == 202
    confirm(node, parent, [1], attempt=2)
    ((first,),) = built_on(tree).values()
    agents_report(tree, failing_on(first))

    # then
    ((second,),) = built_on(tree).values()
    assert second != first


class ParentsBuild:
    """A build that a parent has sent with several entries and confirmed; the leaf has two hosts."""

    def __init__(self, stage: Stage, count: int = 4) -> None:
        self.tree, self.zone = stage.tree, stage.tree.nodes["leaf"].zone
        self._parent = stage.tree.nodes["leaf"].client("parent-root")
        # Alternating hosts: what is alike is spread.
        builds = [{"uuid": UUID.format(1), "attempt": 7, "blobs": stage.blobs[:count]}]
        server = {"reservation_id": RESERVATION, "hold_s": 30.0, "builds": builds}
        self._body = {"server": server, "request_spec": spec_to_wire(stage.spec)}
        assert self.send() == "held"
        assert self.confirm() == "confirmed"

    def send(self) -> str:
        return str(self._parent.post("/servers", self._body).json["builds"][0]["state"])

    def confirm(self) -> str:
        return str(self.answer_of_confirm()["state"])

    def answer_of_confirm(self) -> dict[str, Any]:
        body = {"builds": [{"uuid": UUID.format(1), "attempt": 7}]}
        answer = self._parent.post(f"/reservations/{RESERVATION}/confirm", body)
        found: dict[str, Any] = answer.json["builds"][0]
        return found

    def told(self) -> dict[str, Any]:
        (line,) = self._parent.get("/reservations?cursor=").json["instances"]
        shown = self._parent.get(f"/servers/{UUID.format(1)}").json["server"]
        assert {key: shown[key] for key in ("attempt", "status", "state", "reason")} == {
            key: line[key] for key in ("attempt", "status", "state", "reason")
        }
        found: dict[str, Any] = line
        return found

    def report(self, state: AgentState, reason: str = "") -> str:
        """The agent's word of what it has to run; the host on which that was."""
        ((_, (wanted,)),) = [(n, w) for n, w in to_run(self.tree) if w]
        agents_report(self.tree, lambda _: state, reason)
        return wanted.host


class TestAlternates:
    def test_a_child_builds_on_the_next_host_that_its_parent_named_and_asks_nobody(
        self, stage: Stage
    ) -> None:
        build = ParentsBuild(stage)

        first = build.report(AgentState.ERROR, "secret_word")
        told = build.told()
        second = build.report(AgentState.ACTIVE)

        assert second != first
        assert (told["attempt"], told["status"], told["state"]) == (7, "BUILD", "confirmed")
        assert build.told()["status"] == "ACTIVE"
        assert list(audit.run(build.zone)) == []

    def test_without_another_host_the_parent_is_told_that_it_failed_and_not_in_the_agents_words(
        self, stage: Stage
    ) -> None:
        build = ParentsBuild(stage)

        build.report(AgentState.ERROR, "secret_word")
        build.report(AgentState.ERROR, "secret_word")

        told = build.told()
        assert (told["attempt"], told["state"], told["reason"]) == (7, "failed", "build_failed")
        assert build.answer_of_confirm()["reason"] == "build_failed"
        assert (build.confirm(), build.send()) == ("failed", "failed")
        assert built_on(stage.tree) == {}
        assert list(audit.run(build.zone)) == []

    def test_an_entry_is_not_used_after_its_time(self, stage: Stage) -> None:
        build = ParentsBuild(stage)
        stage.tree.clock.advance(61)

        build.report(AgentState.ERROR)

        assert build.told()["state"] == "failed"

    def test_a_zone_tries_max_attempts_times(self, stage: Stage) -> None:
        stage.tree.nodes["leaf"].zone.conf.set_override("max_attempts", 1)
        build = ParentsBuild(stage)

        build.report(AgentState.ERROR)

        assert build.told()["state"] == "failed"

    def test_a_host_that_is_full_meanwhile_is_passed_over(self, stage: Stage) -> None:
        build = ParentsBuild(stage)
        sql(build.zone, "update inventories set capacity = 0")

        build.report(AgentState.ERROR)

        assert build.told()["state"] == "failed"
        assert sql(build.zone, "select rest from inbound_builds") == [("[]",)]

    def test_what_is_still_to_be_tried_is_not_told_as_failed(self, stage: Stage) -> None:
        build = ParentsBuild(stage)
        sql(build.zone, "update placements set state = 'failed'")

        assert build.told()["state"] == "pending"
        sql(build.zone, "update inbound_builds set rest = '[]'")
        sql(build.zone, "update placements set reason = 'claim_lost'")
        sql(build.zone, "update instances set status = 'DELETED'")
        assert (build.told()["state"], build.told()["reason"]) == ("failed", "claim_lost")


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["root", "region", "leaf-a", "leaf-b"])
def test_a_zone_killed_at_any_step_while_builds_fail(tmp_path: Path, victim: str) -> None:
    before = a_small_tree(tmp_path)
    reservation_id = boot(before, num_instances=6)
    before.settle()
    kill_at, killed = 0, True
    while killed:
        kill_at += 1
        tree = before.copy_to(tmp_path / str(kill_at))
        tree.poll()
        seams = Seams(tree, victim, kill_at)

        for _ in range(2):
            with suppress(Killed, NotThere):
                agents_report(tree, failing_on("a1", "b1"))
                tree.clock.advance(2.0)
                tree.settle(1)
        killed = seams.killed
        seams.restart()
        tree.poll()

        for _ in range(12):
            agents_report(tree, failing_on("a1", "b1"))
            heal(tree, minutes=1)
            if counts(tree, reservation_id) == {"ACTIVE": 6}:
                break
        assert inconsistencies(tree) == [], f"killed at {kill_at}"
        assert counts(tree, reservation_id) == {"ACTIVE": 6}, f"killed at {kill_at}"
        assert max(map(len, built_on(tree).values())) == 1
    assert kill_at > 3
