"""A parent's secret is replaced in the middle of a boot, between any two of its calls: nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import a_building_tree, a_small_tree, the_boot
from tests.builders.crashes import heal, inconsistencies
from tests.builders.tree import Answer, Node, Tree
from zonesched.services.children import children

pytestmark = pytest.mark.once

FORM = {"name": "vm", "flavorRef": "small", "num_instances": 12}


class Rotation:
    """Gives the root another secret in a zone when the n-th call of a boot arrives there."""

    def __init__(self, tree: Tree, name: str, at_call: int) -> None:
        self.calls = 0
        self.secret = ""
        self._node = tree.nodes[name]
        self._at_call = at_call
        tree.network.mount(self._node.url, self._serve)

    def _serve(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        self.calls += 1
        if self.calls == self._at_call:
            self.secret = rotate(self._node)
        return self._node.app(environ, start_response)


def rotate(node: Node) -> str:
    """A new secret for the user that the root is there."""
    reply = node.client().call("PUT", "/users/parent-root", {"user": {"new_secret": True}})
    assert reply.status == 200, reply.body
    return str(reply.json["user"]["secret"])


def tell_root(tree: Tree, child: str, secret: str) -> Answer:
    """Give the root the new secret, as the operator does next."""
    root = tree.nodes["root"]
    child_id = next(
        view.id for view in children.list_children(root.zone.store, root.zone.children) if view.name == child
    )
    return root.client().call("PUT", f"/zones/{child_id}", {"zone": {"password": secret}})


def boot(tree: Tree) -> str:
    answer = tree.nodes["root"].client().post("/zones/boot", {"server": FORM})
    assert answer.status == 202, answer.body
    return str(answer.json["reservation_id"])


def counts(tree: Tree, reservation_id: str) -> dict[str, int]:
    shown = tree.nodes["root"].client().get(f"/reservations/{reservation_id}").json["reservation"]
    return dict(shown["counts"])


@pytest.mark.parametrize("at_call", [1, 2, 3])
@pytest.mark.parametrize("name", ["region", "leaf-b"])
def test_a_secret_replaced_in_flight_loses_nothing(tmp_path: Path, name: str, at_call: int) -> None:
    """Calls of a boot to a zone: select, build, confirm."""
    tree = a_small_tree(tmp_path)
    rotation = Rotation(tree, name, at_call)
    reservation_id = boot(tree)
    tree.step("root")
    assert rotation.secret, f"there was no call {at_call}"

    assert tell_root(tree, name, rotation.secret).status == 200
    heal(tree)

    assert inconsistencies(tree) == []
    assert counts(tree, reservation_id) in ({"BUILD": 12}, {"ERROR": 12} if name == "region" else {})
    for node in tree.nodes.values():
        assert node.client().get("/audit").json["inconsistencies"] == []


def test_what_a_parent_has_stays_its_own(tmp_path: Path) -> None:
    tree = a_building_tree(tmp_path)
    reservation_id = the_boot(tree)
    root = tree.nodes["root"].client()

    for name in ("region", "leaf-b"):
        assert tell_root(tree, name, rotate(tree.nodes[name])).status == 200
        assert tree.nodes[name].client().delete("/users/parent-root").status == 409
    tree.poll()
    for server in root.get(f"/servers?reservation_id={reservation_id}").json["servers"]:
        assert root.get(f"/servers/{server['id']}").json["server"]["stale"] is False
        assert root.delete(f"/servers/{server['id']}").status == 204
    tree.settle()

    assert inconsistencies(tree) == []
    assert counts(tree, reservation_id) == {"DELETED": 12}
    for name in ("region", "leaf-b"):
        assert tree.nodes[name].client().delete("/users/parent-root").status == 204


@pytest.mark.parametrize(
    "user",
    [{}, {"new_secret": False}, {"new_secret": True, "password": "x"}, {"password": ""}, {"name": "x"}],
)
def test_a_change_names_one_thing_that_proves_who_a_user_is(tmp_path: Path, user: dict[str, Any]) -> None:
    node = Tree(tmp_path).add("leaf")
    reply = node.client().call("PUT", "/users/reader", {"user": user})
    assert reply.status == 400
    assert reply.json["badRequest"]["field"].startswith("user.")
    assert node.client("reader").get("/servers").status == 200
