"""Boots of several parents under one id, which each parent sends: an admin names the one that it means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.command import TreeCommand
from tests.builders.parent_calls import (
    RESERVATION,
    a_parent,
    a_spec,
    confirm,
    hold,
    of_builds,
    offered,
    refusal,
    send,
    uuid,
)
from tests.builders.tree import Answer, Node, Tree, a_host

BOOT = f"/reservations/{RESERVATION}"
CALLS = [
    ("GET", BOOT, None),
    ("GET", f"{BOOT}/why?host=h1", None),
    ("POST", f"{BOOT}/action", {"os-stop": None}),
]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def node(tree: Tree) -> Node:
    """A zone in which two parents have a boot of one id, of one and of two instances."""
    node = tree.add("zone", hosts_=[a_host("h1")])
    first, second = a_parent(node, "parent-a"), a_parent(node, "parent-b")
    hold(node, first, [1])
    blobs = offered(node, second, a_spec(2))
    assert (
        of_builds(send(node, second, a_spec(2), dict(zip([2, 3], blobs, strict=True))), "state")
        == ["held"] * 2
    )
    for user, numbers in ((first, [1]), (second, [2, 3])):
        assert of_builds(confirm(node, user, numbers), "state") == ["confirmed"] * len(numbers)
    return node


def call(node: Node, one: tuple[str, str, Any], sender: str = "", who: str = "admin") -> Answer:
    method, path, body = one
    query = f"{'&' if '?' in path else '?'}caller={sender}" if sender else ""
    return node.client(who).call(method, path + query, body)


def id_of(node: Node, name: str) -> str:
    (found,) = [user["id"] for user in node.client().get("/users").json["users"] if user["name"] == name]
    return str(found)


@pytest.mark.parametrize("one", CALLS, ids=["show", "why", "action"])
def test_an_admin_that_names_no_sender_hears_whom_it_may_name(node: Node, one: tuple[str, str, Any]) -> None:
    refused = call(node, one)

    assert refusal(refused) == (409, "reservation_ambiguous")
    fault = refused.json["conflictingRequest"]
    assert fault["field"] == "caller"
    senders = sorted(id_of(node, name) for name in ("parent-a", "parent-b"))
    assert (
        fault["message"] == f"2 callers have a boot of this id; name one as ?caller=ID: {', '.join(senders)}."
    )


def test_an_admin_sees_the_boot_of_the_sender_that_it_names(node: Node) -> None:
    found = [call(node, CALLS[0], id_of(node, name)).json["reservation"] for name in ("parent-a", "parent-b")]

    assert [boot["num_instances"] for boot in found] == [1, 2]
    assert [[i["uuid"] for i in boot["instances"]] for boot in found] == [[uuid(1)], [uuid(2), uuid(3)]]
    assert call(node, CALLS[1], id_of(node, "parent-a")).status == 200
    assert call(node, CALLS[2], id_of(node, "parent-b")).json["refused"][0]["uuid"] in (uuid(2), uuid(3))
    assert refusal(call(node, CALLS[0], id_of(node, "admin"))) == (404, "reservation_not_found")


def test_each_parent_sees_its_own_and_nobody_else_names_a_sender(node: Node) -> None:
    other = id_of(node, "parent-b")

    assert call(node, CALLS[0], who="parent-a").json["reservation"]["num_instances"] == 1
    for who in ("parent-a", "member"):
        assert refusal(call(node, CALLS[0], other, who)) == (403, "forbidden")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["show", "-c", "num_instances", "-o", "value"], "2"),
        (["why"], "of 2"),
        (["why", "--host", "h1"], "h1"),
    ],
)
def test_the_command_names_the_sender(
    tree: Tree, node: Node, capsys: pytest.CaptureFixture[str], command: list[str], shown: str
) -> None:
    as_admin = TreeCommand(capsys, tree, "zone")
    arguments = ("reservation", *command, RESERVATION)

    assert as_admin(*arguments) == 1
    assert "name one as" in as_admin.err
    assert as_admin(*arguments, "--caller", id_of(node, "parent-b")) == 0
    assert shown in as_admin.out
