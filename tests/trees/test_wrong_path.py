"""A child whose URL has a wrong path: that it knows no such call says nothing about its servers."""

from __future__ import annotations

from pathlib import Path

from tests.builders.boots import a_running_tree, rows, the_boot
from tests.builders.tree import Tree


def with_wrong_path(folder: Path) -> tuple[Tree, str]:
    """A tree whose root calls its child `region` below a path that this does not serve; a server there."""
    tree = a_running_tree(folder)
    root = tree.nodes["root"].client()
    found = root.get(f"/servers/detail?all_tenants=1&reservation_id={the_boot(tree)}").json["servers"]
    uuid = next(one["id"] for one in found if one.get("child_zone") == "region")
    child = next(one for one in root.get("/zones/detail").json["zones"] if one["name"] == "region")
    form = {"zone": {"api_url": tree.nodes["region"].url + "/elsewhere"}}
    changed = root.call("PUT", f"/zones/{child['id']}", form)
    assert changed.status == 200, changed.body
    return tree, uuid


def test_a_server_that_is_shown_stays_as_it_was(tmp_path: Path) -> None:
    tree, uuid = with_wrong_path(tmp_path)

    shown = tree.nodes["root"].client("admin").get(f"/servers/{uuid}").json["server"]

    assert (shown["status"], shown["stale"]) == ("ACTIVE", True)


def test_a_delete_waits_until_the_child_has_answered_it(tmp_path: Path) -> None:
    tree, uuid = with_wrong_path(tmp_path)

    deleted = tree.nodes["root"].client("admin").delete(f"/servers/{uuid}")
    for _ in range(5):
        tree.clock.advance(60.0)
        tree.settle(2)

    assert deleted.status == 204
    assert rows(tree, "root", f"SELECT state FROM placements WHERE uuid = '{uuid}'") == [("releasing",)]
