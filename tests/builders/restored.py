"""A tree of three zones with a real agent, of which any zone's database is put back from a copy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.builders.boots import FLAVOR
from tests.builders.migrated import copy_database, following, replace_database, url_of
from tests.builders.one_zone import sql
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.scenes import built_once
from tests.builders.tree import Client, Tree
from tests.builders.wsgi_transport import Fault, Sent
from zonesched.store import copies

INCARNATION = "5e" * 16


@dataclass
class Before(Fault):
    """Nothing goes wrong; this happens just before the call arrives."""

    happens: Callable[[], object] = field(kw_only=False, default=lambda: None)

    def hits(self, method: str, path: str) -> bool:
        if super().hits(method, path):
            self.happens()
        return False


@dataclass
class Scene:
    """A tree of a root, a region and a leaf, whose agents are real."""

    tree: Tree
    agents: dict[str, RealAgent] = field(default_factory=dict)

    def work(self, rounds: int = 4) -> None:
        """Let zones and agents work; it ends early after a round in which no row has changed."""
        with following([self.tree.folder / f"{name}.sqlite" for name in self.tree.nodes]) as changes:
            for _ in range(rounds):
                self.tree.poll(2)
                self.tree.settle()
                for agent in self.agents.values():
                    agent.work()
                self.tree.poll(2)
                self.tree.settle()
                if not changes():
                    return

    def boot(self, count: int = 1, zone: str = "root") -> str:
        body = {"server": {"name": "vm", "flavorRef": "small", "num_instances": count}}
        answer = self.tree.nodes[zone].client().post("/zones/boot", body)
        assert answer.status == 202, answer.body
        return str(answer.json["reservation_id"])

    def servers(self, zone: str = "root") -> dict[str, str]:
        """Status by uuid, as the zone's admin sees it."""
        found = self.tree.nodes[zone].client().get("/servers/detail?all_tenants=true").json["servers"]
        return {server["id"]: server["status"] for server in found}

    def booted(self, count: int = 1, zone: str = "root") -> set[str]:
        """Boot, and return the uuids once they run."""
        before = set(self.servers(zone))
        self.boot(count, zone)
        self.work()
        new = {uuid: status for uuid, status in self.servers(zone).items() if uuid not in before}
        assert set(new.values()) == {"ACTIVE"}, new
        return set(new)

    def delete(self, uuids: set[str], zone: str = "root") -> None:
        for uuid in uuids:
            assert self.tree.nodes[zone].client().delete(f"/servers/{uuid}").status == 204
        self.work()

    def act(self, uuid: str, action: str) -> None:
        answer = self.admin("root").post(f"/servers/{uuid}/action", {action: None})
        assert answer.status == 202, answer.body
        self.work(6)

    def copy(self, zone: str) -> Path:
        path = self.tree.folder / f"{zone}-copy.sqlite"
        copy_database(self.tree.folder / f"{zone}.sqlite", path)
        return path

    def restore(self, zone: str, copy: Path) -> None:
        """Put the copy back, as `zonesched db restore` does, and start the zone."""
        self.tree.nodes[zone].zone.store.close()
        replace_database(self.tree.folder / f"{zone}.sqlite", copy)
        copies.mark_restored(url_of(self.tree.folder / f"{zone}.sqlite"), INCARNATION)
        self.tree.restart(zone)

    def audit(self, zone: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.tree.nodes[zone].client().get("/audit").json["inconsistencies"]
        return found

    def kinds(self, zone: str) -> set[str]:
        return {line["kind"] for line in self.audit(zone)}

    def repair(self, zone: str, **asked: bool) -> list[dict[str, Any]]:
        answer = self.tree.nodes[zone].client().post("/audit", {"repair": asked})
        assert answer.status == 200, answer.body
        found: list[dict[str, Any]] = answer.json["inconsistencies"]
        return found

    def recovered(self, zone: str) -> list[dict[str, Any]]:
        """Let all neighbours say what they have, and end the recovery."""
        self.work(1)
        # They say again and again what they have.
        for agent in self.agents.values():
            agent.work()
        done = self.repair(zone)
        self.work()
        return done

    def admin(self, zone: str) -> Client:
        return self.tree.nodes[zone].client()

    def sent_builds(self, zone: str) -> list[Sent]:
        """The builds that its parent has sent to a zone."""
        url = f"{self.tree.nodes[zone].url}/servers"
        return [sent for sent in self.tree.network.sent if (sent.method, sent.url) == ("POST", url)]

    def health(self, zone: str) -> str:
        return str(self.tree.nodes[zone].client("").get("/health").json["status"])

    def claimed_vcpus(self, zone: str) -> int:
        return int(
            sql(
                self.tree.nodes[zone].zone, "select sum(used) from inventories where resource_class = 'VCPU'"
            )[0][0]
        )


def a_scene(folder: Path) -> Scene:
    """A root, a region below it, and a leaf below that with two hosts of one agent."""
    scene = Scene(a_tree(folder))
    scene.agents["leaf"] = RealAgent(scene.tree, "leaf", [a_machine("l1"), a_machine("l2")])
    scene.tree.poll()
    return scene


@built_once
def a_tree(folder: Path) -> Tree:
    tree = Tree(folder)
    tree.add("root")
    tree.add("region", parent="root")
    tree.add("leaf", parent="region", build_plan_ttl=300.0)
    for node in tree.nodes.values():
        node.client().post("/flavors", FLAVOR)
    return tree
