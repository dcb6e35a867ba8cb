"""Boots of small trees, and the steps that end them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.builders.crashes import Killed, Seams, inconsistencies
from tests.builders.migrated import ask
from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from zonesched.model.agent_instances import AgentReport, AgentState
from zonesched.services.audit import audit, audit_edges
from zonesched.services.hosts import hosts

FLAVOR: dict[str, dict[str, Any]] = {"flavor": {"name": "small", "vcpus": 2, "ram": 2048, "disk": 10}}


@built_once
def a_small_tree(folder: Path, **root: Any) -> Tree:
    tree = Tree(folder)
    tree.add("root", hosts_=[a_host("r1", vcpus=4)], **root)
    tree.add("region", parent="root")
    tree.add("leaf-a", parent="region", hosts_=[a_host("a1"), a_host("a2")])
    tree.add("leaf-b", parent="root", hosts_=[a_host("b1")])
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    return tree


BODY = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 12}}


def boot(tree: Tree, **server: object) -> str:
    answer = tree.nodes["root"].client().post("/zones/boot", {"server": BODY["server"] | server})
    assert answer.status == 202, answer.body
    reservation_id: str = answer.json["reservation_id"]
    return reservation_id


def counts(tree: Tree, reservation_id: str) -> dict[str, int]:
    found = tree.nodes["root"].client().get(f"/reservations/{reservation_id}").json["reservation"]["counts"]
    return dict(found)


EVERYTHING = "SELECT uuid, number, state, hold_expires_at FROM placements ORDER BY uuid, number"


def rows(tree: Tree, name: str, statement: str = EVERYTHING) -> list[Any]:
    return ask(tree.folder / f"{name}.sqlite", statement)


def delete_all(tree: Tree) -> list[str]:
    root = tree.nodes["root"].client()
    uuids = [server["id"] for server in root.get("/servers").json["servers"]]
    assert {root.delete(f"/servers/{uuid}").status for uuid in uuids} == {204}
    return uuids


def report_all(tree: Tree, name: str, state: AgentState) -> None:
    node = tree.nodes[name]
    assert node.compute is not None
    desired = hosts.desired(node.zone.store, node.zone.heartbeats, node.compute, "agent")
    hosts.report(node.zone, node.compute, "agent", [AgentReport(d.uuid, d.attempt, state) for d in desired])


def all_active(tree: Tree) -> None:
    for name in ("root", "leaf-a", "leaf-b"):
        report_all(tree, name, AgentState.ACTIVE)


@built_once
def a_building_tree(folder: Path, count: int = 12) -> Tree:
    """The small tree with so many servers of one boot, which have places and are not built yet."""
    tree = a_small_tree(folder)
    boot(tree, num_instances=count)
    tree.settle()
    return tree


@built_once
def a_running_tree(folder: Path, count: int = 12) -> Tree:
    """The small tree with so many servers of one boot that run."""
    tree = a_building_tree(folder, count)
    all_active(tree)
    tree.settle(3)
    return tree


def the_boot(tree: Tree) -> str:
    """The id of the only reservation of the root."""
    ((found,),) = rows(tree, "root", "SELECT id FROM reservations")
    return str(found)


def settle_until_killed(tree: Tree, seams: Seams) -> bool:
    """Let the tree work; whether the victim died of it. It is started again."""
    with suppress(Killed):
        tree.settle(2)
    killed = seams.killed
    seams.restart()
    return killed


def the_server(tree: Tree, user: str = "admin") -> dict[str, Any]:
    client = tree.nodes["root"].client(user)
    ((server,),) = [client.get("/servers").json["servers"]]
    shown: dict[str, Any] = client.get(f"/servers/{server['id']}").json["server"]
    return shown


def nothing_is_wrong(tree: Tree) -> None:
    assert inconsistencies(tree) == []
    for node in tree.nodes.values():
        assert list(audit.run(node.zone)) == []
        assert list(audit_edges.across_edges(node.zone)) == []
