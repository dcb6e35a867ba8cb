"""A select that has used up its time budget answers what it has, and asks no child."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.own_plugins import SlowFilter
from tests.builders.scenes import built_once
from tests.builders.tree import Answer, Tree, a_host
from zonesched.model.request_spec import Flavor, Image, RequestSpec
from zonesched.model.request_wire import spec_to_wire

pytestmark = pytest.mark.once

SLOW = "tests.builders.own_plugins.SlowFilter"
WEIGHING = {
    "name": "score",
    "scales": [{"weigher": "RAMWeigher", "low": 0.0, "high": 9000.0, "multiplier": 1.0}],
}


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    """root -> region (40 hosts, about each of which a filter takes its time) -> leaf."""
    tree = Tree(tmp_path)
    root = tree.add("root", hosts_=[a_host("r1", ram_mb=512)])
    hosts = [a_host(f"g{n}", capabilities={"serial": n}) for n in range(40)]
    tree.add("region", parent="root", hosts_=hosts, enabled_filters=["ComputeFilter", SLOW])
    tree.add("leaf", parent="region", hosts_=[a_host("l1"), a_host("l2")])
    tree.poll(3)
    root.client().post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 1024, "disk": 1}})
    return tree


def select(tree: Tree, *, seconds: float, **changes: Any) -> Answer:
    """A select of region by its parent, with a budget of one second."""
    SlowFilter.takes(tree.clock, seconds)
    spec = RequestSpec("r1", "p1", 50, Flavor("f", "f", 1, 1024, 1), Image("", ""))
    path = {"path": ["10101010-1010-4010-8010-101010101010"], "weighing": WEIGHING, "time_budget_s": 1.0}
    body = {"version": 1, "request_spec": {**spec_to_wire(spec), **path, **changes}}
    return tree.nodes["region"].client("parent-root").post("/zones/select", body)


def selects_of(tree: Tree, name: str) -> int:
    return sum(sent.url == f"{tree.nodes[name].url}/zones/select" for sent in tree.network.sent)


def test_a_filter_that_uses_up_the_time_budget_leaves_none_for_children(tree: Tree) -> None:
    answer = select(tree, seconds=0.1)

    assert (answer.status, answer.json["complete"], answer.json["weights"]) == (200, False, [])
    assert {"filter": "SlowFilter", "code": "out_of_time"} in answer.json["why"]
    assert selects_of(tree, "leaf") == 0
    assert SlowFilter.asked <= 16


def test_a_filter_that_is_quick_enough_changes_nothing(tree: Tree) -> None:
    answer = select(tree, seconds=0.001)

    assert (answer.status, answer.json["complete"], len(answer.json["weights"])) == (200, True, 50)
    assert selects_of(tree, "leaf") == 1


def test_a_boot_over_a_zone_that_ran_out_of_time_is_told_as_incomplete(tree: Tree) -> None:
    SlowFilter.takes(tree.clock, 1.0)
    root = tree.nodes["root"]
    made = root.client("member").post("/zones/boot", {"server": {"name": "vm", "flavorRef": "small"}})
    for _ in range(9):
        tree.settle(1)
        tree.clock.advance(60)

    shown = root.client().get(f"/reservations/{made.json['reservation_id']}").json["reservation"]
    assert shown["counts"] == {"ERROR": 1}
    assert "no_valid_host_incomplete" in str(shown["reasons"])


def test_a_weigher_that_uses_up_the_time_budget_ends_the_choice_of_the_scale(tmp_path: Path) -> None:
    # given a zone with children, whose own weigher is asked about its hosts before any filter
    tree = Tree(tmp_path)
    SlowFilter.takes(tree.clock, 0.0)
    options: dict[str, Any] = {"weight_classes": ["tests.builders.own_plugins.SlowWeigher"]}
    tree.add("root", hosts_=[a_host(f"r{n}") for n in range(40)], **options)
    tree.add("leaf", parent="root", hosts_=[a_host("l1")], **options)
    tree.poll(2)
    root = tree.nodes["root"].client()
    root.post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 1024, "disk": 1}})
    SlowFilter.takes(tree.clock, 10.0)

    # when
    server = {"name": "vm", "flavorRef": "small", "num_instances": 3}
    said = root.post("/zones/boot", {"server": server, "dry_run": True}).json["dry_run"]

    # then it is given up at the first look at the clock after the budget, and no child is asked
    assert SlowFilter.asked == 16
    assert (said["fits"], said["complete"]) == (0, False)
    own = {"filter": "weighing", "code": "out_of_time", "before": 40, "after": 0}
    assert own in said["why"]["own"]["steps"]
    assert selects_of(tree, "leaf") == 0


def test_the_operator_sees_which_children_had_no_time_left(tree: Tree) -> None:
    SlowFilter.takes(tree.clock, 10.0)
    region = tree.nodes["region"]
    region.client().post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 1024, "disk": 1}})
    server = {"name": "vm", "flavorRef": "small", "num_instances": 1}

    said = region.client().post("/zones/boot", {"server": server, "dry_run": True}).json["dry_run"]

    assert (said["fits"], said["complete"]) == (0, False)
    assert [(child["name"], child["code"]) for child in said["why"]["children"]] == [("leaf", "out_of_time")]


def test_a_query_of_a_parent_is_bounded_when_it_is_read(tree: Tree) -> None:
    query = f'["not", ["in", "$free_ram_mb", {", ".join(["1"] * 256)}]]'
    answer = select(tree, seconds=0.0, filter_query=query)
    assert answer.status == 400
    assert answer.json["badRequest"]["error_code"] == "filter_query_invalid"
    assert selects_of(tree, "leaf") == 0
