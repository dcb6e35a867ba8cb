"""Zones of one tree whose operators have set different limits of a request."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR, boot, counts, nothing_is_wrong, rows
from tests.builders.timed_network import NEVER, SideBySide, TimedNetwork, Timeline
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead
from zonesched.services import background

STATES = "SELECT state, count(*) FROM placements GROUP BY state"


def a_tree(folder: Path, leaf: Mapping[str, Any], **region: Any) -> Tree:
    tree = Tree(folder)
    tree.add("root", build_plan_blob_size=65_536)
    tree.add("region", parent="root", **region)
    tree.add(
        "leaf", parent="region", hosts_=[a_host("h1", vcpus=800, ram_mb=1_000_000, disk_gb=4000)], **leaf
    )
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    return tree


@pytest.mark.parametrize(("region", "leaf"), [(7, 7), (10_000, 7), (7, 10_000)])
def test_a_child_takes_more_instances_of_its_parent_than_of_its_own_users(
    tmp_path: Path, region: int, leaf: int
) -> None:
    options = {"max_instances_per_request": leaf}
    tree = a_tree(tmp_path, options, max_instances_per_request=region)

    reservation_id = boot(tree, num_instances=100)
    tree.settle()

    assert counts(tree, reservation_id) == {"BUILD": 100}
    assert dict(rows(tree, "leaf", STATES)) == {"confirmed": 100}
    body = {"server": {"name": "vm", "flavorRef": "small", "num_instances": leaf + 1}}
    answer = tree.nodes["leaf"].client().post("/zones/boot", body)
    assert (answer.status, answer.json["badRequest"]["error_code"]) == (400, "out_of_range")
    nothing_is_wrong(tree)


@pytest.mark.parametrize(
    "leaf",
    [
        {"max_entries_per_select": 40, "max_instances_per_request": 30},
        {"max_body_bytes": 20_000},
    ],
)
def test_a_child_that_takes_less_in_one_call_is_called_more_often(
    tmp_path: Path, leaf: Mapping[str, Any]
) -> None:
    tree = a_tree(tmp_path, leaf)

    reservation_id = boot(tree, num_instances=100, min_count=30)
    tree.settle()

    assert counts(tree, reservation_id) == {"BUILD": 100}
    assert dict(rows(tree, "leaf", STATES)) == {"confirmed": 100}
    nothing_is_wrong(tree)


def test_a_boot_whose_entries_are_larger_than_a_body_is_sent_in_several_calls(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, {}, build_plan_blob_size=32_768)

    reservation_id = boot(tree, num_instances=400)
    tree.settle()

    assert counts(tree, reservation_id) == {"BUILD": 400}
    nothing_is_wrong(tree)


def test_a_boot_of_more_than_its_child_offers_to_one_select_gets_all_its_places(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, {"max_entries_per_select": 40})

    reservation_id = boot(tree, num_instances=100)
    tree.settle()

    assert counts(tree, reservation_id) == {"BUILD": 100}
    assert dict(rows(tree, "leaf", STATES)) == {"confirmed": 100}
    nothing_is_wrong(tree)


def test_a_zone_that_is_down_ends_no_boot_of_more_than_another_offers_to_one_select(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.add("root", build_plan_blob_size=65_536)
    hosts = [a_host("h1", vcpus=800, ram_mb=1_000_000, disk_gb=4000)]
    tree.add("leaf", parent="root", hosts_=hosts, max_entries_per_select=40)
    down = tree.add("down", parent="root", hosts_=[a_host("h2")])
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    tree.network.fault(down.url, Dead())

    reservation_id = boot(tree, num_instances=100)
    # Each select waits longer for the zone that is down than the one before.
    for _ in range(3):
        tree.settle()
        tree.clock.advance(4.0 * tree.nodes["root"].zone.conf.retry_pause)
        tree.beat()

    assert counts(tree, reservation_id) == {"BUILD": 100}
    assert dict(rows(tree, "leaf", STATES)) == {"confirmed": 100}


def test_a_boot_of_more_than_is_offered_to_all_its_selects_says_so_and_keeps_nothing(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, {"max_entries_per_select": 40})

    reservation_id = boot(tree, num_instances=121)
    tree.settle()

    root = tree.nodes["root"].client()
    shown = root.get(f"/reservations/{reservation_id}").json["reservation"]
    assert counts(tree, reservation_id) == {"ERROR": 121}
    assert [reason["code"] for reason in shown["reasons"]] == ["offers_limited"]
    assert "offers_limited" in shown["reasons"][0]["refused_by"]
    assert {row[0] for row in rows(tree, "leaf", STATES)} <= {"gone"}
    nothing_is_wrong(tree)


def test_an_affinity_boot_larger_than_a_zone_offers_ends_at_once_and_says_so(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, {"max_entries_per_select": 5})
    body = {
        "server": {"name": "vm", "flavorRef": "small", "num_instances": 6},
        "os:scheduler_hints": {"group_policy": "affinity"},
    }
    root = tree.nodes["root"].client()

    answer = root.post("/zones/boot", body)
    tree.settle()

    shown = root.get(f"/reservations/{answer.json['reservation_id']}").json["reservation"]
    assert shown["counts"] == {"ERROR": 6}
    assert [reason["code"] for reason in shown["reasons"]] == ["offers_limited"]
    assert "offers_limited" in shown["reasons"][0]["refused_by"]
    dry = root.post("/zones/boot", {**body, "dry_run": True}).json["dry_run"]
    assert (dry["fits"], dry["complete"]) == (0, True)
    assert dry["runs_out"] == [{"filter": "max_entries_per_select", "code": "offers_limited"}]


def test_a_dry_run_says_that_a_zone_offers_no_more_to_one_select(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, {"max_entries_per_select": 40})
    server = {"name": "vm", "flavorRef": "small", "num_instances": 100}

    answer = tree.nodes["root"].client().post("/zones/boot", {"server": server, "dry_run": True})

    found = answer.json["dry_run"]
    assert (found["fits"], found["complete"]) == (40, True)
    assert found["runs_out"] == [{"filter": "max_entries_per_select", "code": "offers_limited"}]


@pytest.mark.parametrize(
    ("path", "region", "places"),
    [
        ("/servers", {"max_body_bytes": 6000}, {"confirmed": 15, "gone": 15}),
        (
            "/reservations",
            {"max_entries_per_select": 8, "max_instances_per_request": 2},
            {"confirmed": 12, "confirming": 12},
        ),
    ],
)
def test_one_leaf_that_hangs_leaves_time_for_each_part_of_a_call(
    tmp_path: Path, path: str, region: Mapping[str, Any], places: Mapping[str, int]
) -> None:
    # given a zone that takes a few builds in one call, and whose two leaves get half of a boot each
    clock = Timeline()
    network = TimedNetwork(clock)
    tree = Tree(tmp_path, clock, network=network, executor=SideBySide(clock))
    tree.add("root", build_plan_blob_size=4096)
    tree.add("region", parent="root", **region)
    for name in ("a", "b"):
        tree.add(name, parent="region", hosts_=[a_host(name, vcpus=60, ram_mb=100_000, disk_gb=1000)])
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    network.takes = {tree.nodes["a"].url + path: NEVER}

    # when
    boot(tree, num_instances=30, min_count=8)
    background.work_on_boots(tree.nodes["root"].zone)

    # then all first places in the other leaf count at once
    first = "SELECT state, count(*) FROM placements WHERE number = 1 GROUP BY state"
    assert dict(rows(tree, "root", first)) == places
