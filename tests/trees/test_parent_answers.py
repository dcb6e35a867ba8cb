"""Answers to a parent about an attempt: its stored state, and the reason for that state."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.parent_calls import (
    RESERVATION,
    a_parent,
    a_spec,
    confirm,
    of_builds,
    offered,
    send,
    uuid,
)
from tests.builders.played_agent import PlayedAgent
from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Node, Tree, a_host
from zonesched.model.request_wire import spec_to_wire

OTHER = "44444444-4444-4444-8444-444444444444"


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.add("leaf", hosts_=[a_host("leaf-1")])
    a_parent(tree.nodes["leaf"], "parent-a")
    return tree


@pytest.fixture
def leaf(tree: Tree) -> Node:
    return tree.nodes["leaf"]


def with_one_blob(leaf: Node, blob: str, **server: object) -> Answer:
    body = {"server": {"blob": blob, **server}, "request_spec": spec_to_wire(a_spec(1))}
    return leaf.client("parent-a").post("/servers", body)


def test_a_confirmed_attempt_whose_instance_was_deleted_has_no_reason_of_a_failed_build(leaf: Node) -> None:
    (blob,) = offered(leaf, "parent-a", a_spec(1))
    send(leaf, "parent-a", a_spec(1), {1: blob})
    confirm(leaf, "parent-a", [1])
    PlayedAgent(leaf).converge()
    assert leaf.client("parent-a").delete(f"/servers/{uuid(1)}?attempt=1").status == 204

    again = (confirm(leaf, "parent-a", [1]), send(leaf, "parent-a", a_spec(1), {1: blob}))

    for answer in again:
        assert (of_builds(answer, "state"), of_builds(answer, "reason")) == (["confirmed"], [""])


def test_a_server_that_ran_and_ended_by_its_drivers_word_is_told_as_ended(leaf: Node) -> None:
    (blob,) = offered(leaf, "parent-a", a_spec(1))
    send(leaf, "parent-a", a_spec(1), {1: blob})
    confirm(leaf, "parent-a", [1])
    report = {"uuid": uuid(1), "attempt": 1}
    for more in ({"state": "active"}, {"state": "error", "reason": "fan_of_rack_7_broke"}):
        leaf.client("compute").post("/hosts/reports", {"service": "agent", "reports": [report | more]})

    parent = leaf.client("parent-a")
    (changed,) = parent.get("/reservations?cursor=").json["instances"]
    reasons = parent.get(f"/reservations/{RESERVATION}").json["reservation"]["reasons"]

    assert (changed["status"], changed["state"], changed["reason"]) == ("ERROR", "confirmed", "ended_on_host")
    assert [line["code"] for line in reasons] == ["ended_on_host"]


def test_a_repeat_of_one_blob_is_answered_with_its_stored_state_and_its_reservation(leaf: Node) -> None:
    (blob,) = offered(leaf, "parent-a", a_spec(1))
    named = {"uuid": uuid(1), "attempt": 3}

    first = with_one_blob(leaf, blob, **named)
    again = with_one_blob(leaf, blob, **named)

    assert of_builds(first, "state") == of_builds(again, "state") == ["held"]
    assert first.json["reservation_id"] == again.json["reservation_id"]


def test_a_known_attempt_is_answered_with_its_stored_state_under_any_reservation(leaf: Node) -> None:
    (blob,) = offered(leaf, "parent-a", a_spec(1))
    send(leaf, "parent-a", a_spec(1), {1: blob})
    builds = [{"uuid": uuid(1), "attempt": 1, "blobs": [blob]}]
    body = {
        "server": {"reservation_id": OTHER, "builds": builds},
        "request_spec": spec_to_wire(a_spec(1)),
    }

    elsewhere = leaf.client("parent-a").post("/servers", body)
    confirmed = confirm(leaf, "parent-a", [1])

    assert of_builds(elsewhere, "state") == ["held"]
    assert of_builds(confirmed, "state") == ["confirmed"]
