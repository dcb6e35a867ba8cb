"""No zone is a child twice, by whatever name, URL or user; one that is added again gets back what it has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.audited_tree import left
from tests.builders.boots import FLAVOR, boot, counts, nothing_is_wrong, report_all
from tests.builders.one_zone import sql
from tests.builders.played_agent import PlayedAgent, a_report
from tests.builders.tree import Answer, Node, Tree, a_host
from zonesched.model.agent_instances import AgentState
from zonesched.model.caller import Role
from zonesched.services.audit import audit_edges, repair
from zonesched.services.audit.edge_comparison import Unlike
from zonesched.services.catalog import users
from zonesched.services.children import children
from zonesched.services.zone import Zone

OTHER_URL = "http://127.0.0.1:7999"


def a_tree(folder: Path) -> Tree:
    """A root with one leaf, which answers at a second URL and to a second parent user too."""
    tree = Tree(folder)
    tree.add("root")
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    leaf = tree.add("leaf", hosts_=[a_host("h1")], parent="root")
    leaf.secrets["other"] = users.create(leaf.zone.store, leaf.zone.clock, "other", Role.PARENT, "-").secret
    tree.network.mount(OTHER_URL, leaf.app)
    tree.poll()
    return tree


def a_form(leaf: Node, **changes: str) -> dict[str, Any]:
    form = {
        "name": "again",
        "api_url": leaf.url,
        "username": "parent-root",
        "password": leaf.secrets["parent-root"],
    }
    return {"zone": form | changes}


def refused(answer: Answer) -> tuple[int, str]:
    (fault,) = answer.json.values()
    assert "leaf" in fault["message"]
    return answer.status, fault["error_code"]


@pytest.mark.parametrize("way", ["other name", "other url", "other user"])
def test_the_same_zone_is_not_added_again(tmp_path: Path, way: str) -> None:
    tree = a_tree(tmp_path)
    leaf = tree.nodes["leaf"]
    changes = {
        "other name": {},
        "other url": {"api_url": OTHER_URL},
        "other user": {"username": "other", "password": leaf.secrets["other"]},
    }

    answer = tree.nodes["root"].client().post("/zones", a_form(leaf, **changes[way]))

    assert refused(answer) == (409, "child_registered_twice")
    assert len(children.list_children(tree.nodes["root"].zone.store, tree.nodes["root"].zone.children)) == 1


def test_a_child_is_not_moved_to_the_zone_of_another(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    tree.add("second", hosts_=[a_host("h2")])
    second = tree.join("root", "second")

    leaf = tree.nodes["leaf"]
    moved = {"api_url": OTHER_URL, "username": "other", "password": leaf.secrets["other"]}

    answer = tree.nodes["root"].client().call("PUT", f"/zones/{second}", {"zone": moved})

    assert refused(answer) == (409, "child_registered_twice")
    assert (
        children.show(tree.nodes["root"].zone.store, tree.nodes["root"].zone.children, second).api_url
        == tree.nodes["second"].url
    )


def test_a_child_that_did_not_answer_when_it_was_added_takes_no_part_once_it_does(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    root, leaf = tree.nodes["root"], tree.nodes["leaf"]
    late = "http://127.0.0.1:7998"
    added = root.client().post("/zones", a_form(leaf, api_url=late))
    assert added.status < 300, added.body

    tree.network.mount(late, leaf.app)
    tree.poll()

    states = {
        view.name: (view.state, view.last_error)
        for view in children.list_children(root.zone.store, root.zone.children)
    }
    assert states == {"leaf": ("ready", ""), "again": ("offline", "child_registered_twice")}


class TestAddedAgainAfterARemovalByForce:
    def removed_and_added(
        self,
        folder: Path,
        meanwhile: Callable[[Tree], None] = lambda tree: None,
        action: dict[str, None] | None = None,
    ) -> tuple[Tree, str]:
        """Remove the child while this action on one of its instances is under way there, and add it again."""
        tree = a_tree(folder)
        root, leaf = tree.nodes["root"], tree.nodes["leaf"]
        reservation_id = boot(tree, num_instances=2)
        tree.settle()
        report_all(tree, "leaf", AgentState.ACTIVE)
        tree.clock.advance(2.0)
        tree.settle()
        assert counts(tree, reservation_id) == {"ACTIVE": 2}
        if action is not None:
            (uuid, *_) = sorted(one["id"] for one in root.client().get("/servers").json["servers"])
            assert root.client().post(f"/servers/{uuid}/action", action).status == 202
            tree.settle()
        (child,) = children.list_children(root.zone.store, root.zone.children)
        children.remove(root.zone, child.id, force=True)
        tree.settle()
        assert counts(tree, reservation_id) == {"ERROR": 2}
        meanwhile(tree)
        assert root.client().post("/zones", a_form(leaf)).status < 300
        tree.poll()
        return tree, reservation_id

    def test_the_first_audit_says_that_its_instances_can_be_taken_back(self, tmp_path: Path) -> None:
        tree, _ = self.removed_and_added(tmp_path)

        found = audit_edges.across_edges(tree.nodes["root"].zone)

        assert [one.kind for one in found] == ["child_has_unknown_instance"] * 2
        assert all("was removed; a repair restores it here" in one.detail for one in found)

    def test_a_repair_takes_them_back(self, tmp_path: Path) -> None:
        tree, reservation_id = self.removed_and_added(tmp_path)

        done = repair.run(tree.nodes["root"].zone)
        tree.settle()

        assert left(done) == []
        assert counts(tree, reservation_id) == {"ACTIVE": 2}
        assert sql(tree.nodes["leaf"].zone, "select uuid from instances where status != 'ACTIVE'") == []
        nothing_is_wrong(tree)

    def test_of_two_repairs_at_one_time_the_later_one_keeps_them(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Given a repair that has compared them, and is about to ask where else they are
        tree, reservation_id = self.removed_and_added(tmp_path)
        root = tree.nodes["root"].zone
        go_on = audit_edges.with_other_places

        def let_another_go_first(zone: Zone, compared: list[Unlike]) -> list[Unlike]:
            monkeypatch.setattr(audit_edges, "with_other_places", go_on)
            assert left(repair.run(zone)) == []
            return go_on(zone, compared)

        # When another repair takes them back before it
        monkeypatch.setattr(audit_edges, "with_other_places", let_another_go_first)
        done = repair.run(root)
        tree.settle()

        # Then
        assert {one.why for one in left(done)} == {"it has moved since it was compared: run it again"}
        assert counts(tree, reservation_id) == {"ACTIVE": 2}
        nothing_is_wrong(tree)

    def test_one_that_ended_by_itself_meanwhile_is_shown_as_it_is(self, tmp_path: Path) -> None:
        def end_one(tree: Tree) -> None:
            agent = PlayedAgent(tree.nodes["leaf"])
            agent.report([a_report(agent.work()[0], 0, "stopped", "ended_by_itself")])

        tree, _ = self.removed_and_added(tmp_path, end_one)
        # The feed is read before the repair, and is not read again.
        tree.settle()

        repair.run(tree.nodes["root"].zone)
        tree.settle()

        shown = tree.nodes["root"].client().get("/servers/detail").json["servers"]
        assert sorted(server["status"] for server in shown) == ["ACTIVE", "SHUTOFF"]
        nothing_is_wrong(tree)

    def test_what_is_left_there_of_one_that_ended_meanwhile_is_deleted(self, tmp_path: Path) -> None:
        def lose_one(tree: Tree) -> None:
            agent = PlayedAgent(tree.nodes["leaf"])
            line = {name: agent.work()[0][name] for name in ("uuid", "attempt")}
            agent.report([{**line, "state": "gone"}])

        tree, reservation_id = self.removed_and_added(tmp_path, lose_one)

        done = repair.run(tree.nodes["root"].zone)
        tree.settle()

        assert left(done) == []
        assert counts(tree, reservation_id) == {"ACTIVE": 1, "ERROR": 1}
        there = sql(tree.nodes["leaf"].zone, "select status from instances order by status")
        assert [row.status for row in there] == ["ACTIVE", "DELETED"]
        assert repair.run(tree.nodes["root"].zone) == []
        nothing_is_wrong(tree)

    def test_what_its_owner_has_deleted_since_is_deleted_there(self, tmp_path: Path) -> None:
        tree, _ = self.removed_and_added(tmp_path)
        client = tree.nodes["root"].client()
        for server in client.get("/servers").json["servers"]:
            assert client.delete(f"/servers/{server['id']}").status == 204

        done = repair.run(tree.nodes["root"].zone)
        tree.settle()

        assert left(done) == []
        assert sql(tree.nodes["leaf"].zone, "select uuid from instances where status != 'DELETED'") == []
        nothing_is_wrong(tree)

    def test_one_that_was_shelved_meanwhile_rests(self, tmp_path: Path) -> None:
        def shelve_one(tree: Tree) -> None:
            PlayedAgent(tree.nodes["leaf"]).converge()

        tree, _ = self.removed_and_added(tmp_path, shelve_one, {"shelve": None})

        done = repair.run(tree.nodes["root"].zone)
        tree.settle()

        root = tree.nodes["root"].client()
        servers = root.get("/servers/detail").json["servers"]
        (resting,) = [server["id"] for server in servers if server["status"] == "SHELVED_OFFLOADED"]
        assert left(done) == []
        assert sorted(server["status"] for server in servers) == ["ACTIVE", "SHELVED_OFFLOADED"]
        nothing_is_wrong(tree)
        # and comes back
        assert root.post(f"/servers/{resting}/action", {"unshelve": None}).status == 202
        for _ in range(2):
            tree.clock.advance(10.0)
            tree.settle()
            PlayedAgent(tree.nodes["leaf"]).converge()
        tree.clock.advance(10.0)
        tree.settle()
        assert root.get(f"/servers/{resting}").json["server"]["status"] == "ACTIVE"
        nothing_is_wrong(tree)


class TestAddedAgainByAZoneBetween:
    """The servers are those of a zone above the one that removes the child by force, and adds it again."""

    def removed(self, folder: Path) -> tuple[Tree, str]:
        tree = Tree(folder)
        tree.add("root")
        tree.nodes["root"].client().post("/flavors", FLAVOR)
        region = tree.add("region", parent="root")
        tree.add("leaf", hosts_=[a_host("h1")], parent="region")
        for _ in range(2):
            tree.poll()
        reservation_id = boot(tree, num_instances=2)
        tree.settle()
        report_all(tree, "leaf", AgentState.ACTIVE)
        self._later(tree)
        assert counts(tree, reservation_id) == {"ACTIVE": 2}
        (child,) = children.list_children(region.zone.store, region.zone.children)
        children.remove(region.zone, child.id, force=True)
        self._later(tree)
        assert counts(tree, reservation_id) == {"ERROR": 2}
        assert list(audit_edges.across_edges(tree.nodes["root"].zone)) == []
        return tree, reservation_id

    def _later(self, tree: Tree) -> None:
        for _ in range(2):
            tree.clock.advance(2.0)
            tree.settle()

    def _add(self, tree: Tree) -> None:
        tree.join("region", "leaf")
        tree.poll()

    def test_a_repair_takes_them_back(self, tmp_path: Path) -> None:
        tree, reservation_id = self.removed(tmp_path)
        self._add(tree)

        done = repair.run(tree.nodes["region"].zone)
        self._later(tree)

        assert left(done) == []
        assert counts(tree, reservation_id) == {"ACTIVE": 2}
        assert sql(tree.nodes["leaf"].zone, "select uuid from instances where status != 'ACTIVE'") == []
        nothing_is_wrong(tree)

    def test_what_its_owner_has_deleted_since_is_deleted_there(self, tmp_path: Path) -> None:
        tree, _ = self.removed(tmp_path)
        root = tree.nodes["root"].client()
        for server in root.get("/servers").json["servers"]:
            assert root.delete(f"/servers/{server['id']}").status == 204
        self._later(tree)
        assert sql(tree.nodes["region"].zone, "select distinct status from instances") == [("DELETED",)]
        self._add(tree)

        done = repair.run(tree.nodes["region"].zone)
        self._later(tree)

        assert left(done) == []
        assert sql(tree.nodes["leaf"].zone, "select uuid from instances where status != 'DELETED'") == []
        nothing_is_wrong(tree)

    def test_a_drain_says_who_ends_them(self, tmp_path: Path) -> None:
        tree, _ = self.removed(tmp_path)
        root = tree.nodes["root"].client()
        (child,) = root.get("/zones/detail").json["zones"]
        assert root.call("PUT", f"/zones/{child['id']}", {"zone": {"state": "disabled"}}).status == 200

        drained = root.post(f"/zones/{child['id']}/action", {"drain": {"count": 4, "retry": True}}).json[
            "drain"
        ]

        assert (drained["waiting"], drained["staying_count"]) == (0, 2)
        said = {(one["error_code"], one["message"]) for one in drained["staying"]}
        assert said == {("has_ended", "The server is in ERROR: its owner deletes it.")}
