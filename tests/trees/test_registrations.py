"""An agent registers its hosts: what comes late, after another registration, changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders.one_zone import sql
from tests.builders.real_agent import RealAgent, a_machine
from tests.builders.tree import Node, Tree
from tests.builders.wsgi_transport import Duplicate, Fault, LostReply


def totals(tree: Tree) -> dict[str, int]:
    query = "SELECT resource_class, total FROM inventories"
    return {row.resource_class: row.total for row in sql(tree.nodes["zone"].zone, query)}


def registrations(node: Node) -> int:
    (row,) = sql(node.zone, "SELECT registrations FROM services WHERE name = 'agent'")
    return int(row.registrations)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.add("zone")
    return tree


def test_the_registration_of_an_agent_that_died_does_not_undo_that_of_the_next(tree: Tree) -> None:
    # given an agent, and the next one after its machine has lost memory and processors
    RealAgent(tree, "zone", [a_machine("h", vcpus=16)])
    (first,) = [sent for sent in tree.network.sent if sent.method == "PUT"]
    RealAgent(tree, "zone", [a_machine("h", vcpus=8)])
    shrunk = totals(tree)
    # when the call of the first one arrives once more
    late = tree.nodes["zone"].client("compute").call("PUT", "/hosts", json.loads(first.body))
    # then
    assert shrunk["VCPU"] == 8
    assert (late.status, late.json["conflictingRequest"]["error_code"]) == (409, "registered_since")
    assert totals(tree) == shrunk


@pytest.mark.parametrize("fault", [Duplicate(method="PUT"), LostReply(method="PUT")])
def test_an_agent_whose_registration_arrives_twice_or_unanswered_registers_again(
    tree: Tree, fault: Fault
) -> None:
    node = tree.nodes["zone"]
    tree.network.fault(node.url, fault)
    agent = RealAgent(tree, "zone", [a_machine("h", vcpus=16)])
    seen = registrations(node)
    tree.network.heal(node.url)

    agent.work()

    assert seen >= 2
    assert registrations(node) == seen + 1
    assert totals(tree)["VCPU"] == 16


@pytest.mark.parametrize("wrong", [-1, 1.5, "1", True, 2**63])
def test_a_number_of_registrations_that_is_none_is_refused(tree: Tree, wrong: object) -> None:
    body = {"service": "agent", "hosts": [], "registrations": wrong}

    reply = tree.nodes["zone"].client("compute").call("PUT", "/hosts", body)

    assert (reply.status, reply.json["badRequest"]["field"]) == (400, "registrations")
