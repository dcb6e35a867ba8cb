"""The hints `same_host` and `different_host`, in trees of real zones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.migrated import ask
from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from zonesched.model.caller import Role
from zonesched.services.catalog import users

pytestmark = pytest.mark.once

FLAVOR = {"flavor": {"id": "small", "name": "small", "vcpus": 1, "ram": 512, "disk": 5}}
NOBODYS = "00000000-0000-4000-8000-00000000dead"


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    """A root with one host, and a leaf with three."""
    tree = Tree(tmp_path)
    root = tree.add("root", hosts_=[a_host("r1")])
    tree.add("leaf", parent="root", hosts_=[a_host(f"l{n}") for n in range(1, 4)])
    tree.poll()
    root.client().post("/flavors", FLAVOR)
    root.secrets["stranger"] = users.create(
        root.zone.store, root.zone.clock, "stranger", Role.MEMBER, "project-2"
    ).secret
    return tree


def boot(tree: Tree, count: int = 1, user: str = "member", **hints: Any) -> list[str]:
    """Boot at the root; the instances' uuids."""
    body = {
        "server": {"name": "vm", "flavorRef": "small", "num_instances": count},
        "os:scheduler_hints": hints,
    }
    answer = tree.nodes["root"].client(user).post("/zones/boot", body)
    assert answer.status == 202, answer.body
    tree.settle()
    reservation_id = answer.json["reservation_id"]
    path = f"/servers?reservation_id={reservation_id}&all_tenants=1"
    return sorted(server["id"] for server in tree.nodes["root"].client().get(path).json["servers"])


PLACES = """
    SELECT placements.uuid, hosts.name FROM placements JOIN hosts ON hosts.id = placements.host_id
    WHERE placements.state = 'confirmed'
"""


def host_of(tree: Tree) -> dict[str, str]:
    """Hosts of every instance of the tree."""
    found: dict[str, str] = {}
    for name in tree.nodes:
        found |= dict(ask(tree.folder / f"{name}.sqlite", PLACES))
    return found


def test_an_instance_is_put_beside_another_one_wherever_it_is(tree: Tree) -> None:
    before = boot(tree, 8)
    hosts = {host_of(tree)[uuid]: uuid for uuid in before}
    assert set(hosts) == {"r1", "l1", "l2", "l3"}

    for host in ("r1", "l2"):
        new = boot(tree, 2, same_host=hosts[host])
        assert {host_of(tree)[uuid] for uuid in new} == {host}


def test_one_of_several_instances_is_enough(tree: Tree) -> None:
    hosts = {host_of(tree)[uuid]: uuid for uuid in boot(tree, 8)}
    new = boot(tree, 12, same_host=[hosts["r1"], hosts["l2"], NOBODYS])
    assert {host_of(tree)[uuid] for uuid in new} == {"r1", "l2"}


def test_an_instance_is_kept_off_the_hosts_of_others(tree: Tree) -> None:
    hosts = {host_of(tree)[uuid]: uuid for uuid in boot(tree, 8)}
    new = boot(tree, 12, different_host=[hosts["r1"], hosts["l2"]])
    assert {host_of(tree)[uuid] for uuid in new} == {"l1", "l3"}


def test_a_deleted_instance_holds_nobody_off(tree: Tree) -> None:
    hosts = {host_of(tree)[uuid]: uuid for uuid in boot(tree, 8)}
    for uuid in hosts.values():
        tree.nodes["root"].client().delete(f"/servers/{uuid}")
    tree.settle()
    new = boot(tree, 12, different_host=list(hosts.values()))
    assert {host_of(tree)[uuid] for uuid in new} == set(hosts)


def test_instances_of_another_project_are_as_if_they_were_not_there(tree: Tree) -> None:
    theirs = boot(tree, 8)
    new = boot(tree, user="stranger", different_host=theirs)
    assert set(new) <= host_of(tree).keys()
    [refused] = boot(tree, user="stranger", same_host=theirs)
    assert refused not in host_of(tree)


def test_no_host_is_beside_an_instance_that_nobody_knows(tree: Tree) -> None:
    [refused] = boot(tree, same_host=NOBODYS)
    root = tree.nodes["root"].client()
    server = root.get(f"/servers/{refused}").json["server"]
    assert (server["status"], refused in host_of(tree)) == ("ERROR", False)
    shown = root.get(f"/reservations/{server['reservation_id']}").json["reservation"]
    assert "not_the_same_host" in str(shown["reasons"])
