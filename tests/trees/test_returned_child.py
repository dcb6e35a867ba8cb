"""A child that answers again is told and asked at once, however long the pauses had grown meanwhile."""

from __future__ import annotations

from pathlib import Path

from tests.builders.boots import FLAVOR, boot, counts, nothing_is_wrong, report_all
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead
from zonesched.model.agent_instances import AgentState
from zonesched.services import background
from zonesched.services.children.pending_calls import PendingCalls
from zonesched.services.children.sync import Sync


class Scene:
    """A root whose one child goes away and comes back, and the root's loops, which live as long as it."""

    def __init__(self, folder: Path) -> None:
        self.tree = Tree(folder)
        self.root = self.tree.add("root", zone_failures_to_offline=1)
        self.root.client().post("/flavors", FLAVOR)
        self.leaf = self.tree.add("leaf", hosts_=[a_host("h1")], parent="root")
        self.tree.poll()
        self.reservation_id = boot(self.tree, num_instances=2)
        self.tree.settle()
        self.calls, self.sync = PendingCalls(self.root.zone), Sync(self.root.zone)
        self.sync.step()

    def leaf_is_away(self) -> None:
        """For long enough that the pauses of repeated calls and of the sync are at their longest."""
        self.tree.network.fault(self.leaf.url, Dead())
        for _ in range(40):
            self.tree.clock.advance(30.0)
            background.poll_children(self.root.zone)
            self.calls.step()
            self.sync.step()

    def leaf_is_back(self) -> None:
        """The leaf answers the next poll; the loops that this wakes take one step."""
        self.tree.network.heal(self.leaf.url)
        background.poll_children(self.root.zone)
        self.calls.step()
        self.sync.step()

    def deletes(self) -> int:
        return sum(sent.method == "DELETE" for sent in self.tree.network.sent)


def test_it_is_told_at_once_what_was_decided_while_it_was_away(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    client = scene.root.client()
    servers = client.get("/servers").json["servers"]
    scene.tree.network.fault(scene.leaf.url, Dead())
    for server in servers:
        assert client.delete(f"/servers/{server['id']}").status == 204
    scene.leaf_is_away()
    before = scene.deletes()

    scene.leaf_is_back()

    assert scene.deletes() == before + len(servers) > 0
    nothing_is_wrong(scene.tree)


def test_it_is_asked_at_once_what_has_changed_while_it_was_away(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.leaf_is_away()
    report_all(scene.tree, "leaf", AgentState.ACTIVE)

    scene.leaf_is_back()

    assert counts(scene.tree, scene.reservation_id) == {"ACTIVE": 2}
    nothing_is_wrong(scene.tree)


def test_what_is_not_away_is_not_told_before_its_time(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    asked = len(scene.tree.network.sent)

    background.poll_children(scene.root.zone)
    scene.calls.step()
    scene.sync.step()

    # The poll alone.
    assert len(scene.tree.network.sent) == asked + 1
