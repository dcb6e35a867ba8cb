"""Server groups in trees of zones: making them, booting into them, and where their instances came to be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.builders.crashes import inconsistencies
from tests.builders.migrated import ask
from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Tamper
from zonesched.services.audit import audit, audit_edges

SMALL = {"name": "small", "vcpus": 2, "ram": 2048, "disk": 10}
MARKS = ("a", "b", "c", "r")
"""Each zone with hosts has a trait of its own, and a flavor `only-X` asks for that of zone X."""


@built_once
def a_tree(folder: Path, hosts_per_zone: int = 2, vcpus: int = 16, **overrides: Any) -> Tree:
    """root (r1...) with region (none) over leaf-a (a1...) and leaf-c (c1...), and leaf-b (b1...)."""
    tree = Tree(folder)

    def some(mark: str) -> list[Any]:
        trait = f"CUSTOM_{mark.upper()}"
        return [a_host(f"{mark}{n + 1}", vcpus=vcpus, traits=[trait]) for n in range(hosts_per_zone)]

    tree.add("root", hosts_=some("r"), **overrides)
    tree.add("region", parent="root")
    tree.add("leaf-a", parent="region", hosts_=some("a"))
    tree.add("leaf-c", parent="region", hosts_=some("c"))
    tree.add("leaf-b", parent="root", hosts_=some("b"))
    tree.poll()
    root = tree.nodes["root"].client()
    root.post("/flavors", {"flavor": SMALL})
    for mark in MARKS:
        specs = {f"trait:CUSTOM_{mark.upper()}": "required"}
        root.post("/flavors", {"flavor": SMALL | {"name": f"only-{mark}", "extra_specs": specs}})
    return tree


def make(tree: Tree, policy: str, most: int = 0) -> str:
    """A group at the root; its id."""
    group: dict[str, Any] = {"name": "g", "policy": policy}
    if most:
        group["rules"] = {"max_server_per_host": most}
    answer = tree.nodes["root"].client().post("/os-server-groups", {"server_group": group})
    assert answer.status == 200, answer.body
    return str(answer.json["server_group"]["id"])


def boot(tree: Tree, group: str, count: int = 1, flavor: str = "small", **server: Any) -> str:
    """A boot at the root into a group, accepted and not worked on yet; its reservation."""
    wanted = {"name": "vm", "flavorRef": flavor, "num_instances": count, **server}
    body = {"server": wanted, "os:scheduler_hints": {"group": group}}
    answer = tree.nodes["root"].client().post("/zones/boot", body)
    assert answer.status == 202, answer.body
    return str(answer.json["reservation_id"])


def shown(tree: Tree, reservation_id: str) -> Any:
    return tree.nodes["root"].client().get(f"/reservations/{reservation_id}").json["reservation"]


def counts(tree: Tree, reservation_id: str) -> dict[str, int]:
    return dict(shown(tree, reservation_id)["counts"])


def hosts_of(tree: Tree, *reservation_ids: str) -> Counter[str]:
    """Count the instances of these boots by the name of the host in the tree."""
    found: Counter[str] = Counter()
    for node in tree.nodes.values():
        for reservation_id in reservation_ids:
            found.update(
                name
                for (name,) in ask(
                    tree.folder / f"{node.name}.sqlite",
                    "SELECT hosts.name FROM placements JOIN hosts ON hosts.id = host_id"
                    " WHERE state IN ('held', 'confirmed') AND reservation_id = ?",
                    (reservation_id,),
                )
            )
    return found


def zones_with_a_place(tree: Tree) -> list[str]:
    """The zones that know a place of any group, one line for each group."""
    found: list[str] = []
    for node in tree.nodes.values():
        places = ask(tree.folder / f"{node.name}.sqlite", "SELECT * FROM group_places")
        found += [node.name for _ in places]
    return sorted(found)


def wrong(tree: Tree) -> list[str]:
    """Violated rules in any zone, found by SQL and by each zone's own audit."""
    found = inconsistencies(tree)
    for node in tree.nodes.values():
        found += [f"{node.name}: {d}" for d in (*audit.run(node.zone), *audit_edges.across_edges(node.zone))]
    return found


def meanwhile(tree: Tree, edge: str, path: str, action: Callable[[], object]) -> None:
    """While the next answer of this zone to this call is on its way, something else happens."""

    def act(body: bytes) -> bytes:
        action()
        return body

    tree.network.fault(tree.nodes[edge].url, Tamper(act, times=1, path=path))


def delete_all(tree: Tree, reservation_id: str) -> None:
    root = tree.nodes["root"].client()
    for instance in shown(tree, reservation_id)["instances"]:
        if instance["status"] != "DELETED":
            assert root.delete(f"/servers/{instance['uuid']}").status == 204
