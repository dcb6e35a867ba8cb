"""GET /zones/info: the ranges of a whole subtree, no more than a parent reads, and no host by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.child_app import ChildApp, an_info
from tests.builders.own_plugins import SlowFilter
from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead
from zonesched.model.views import ChildForm
from zonesched.scheduler.scale import Range
from zonesched.services.children import children
from zonesched.services.select import subtree
from zonesched.zones.answers import MAX_CAPABILITIES, MAX_INFO_ITEMS, read_info

pytestmark = pytest.mark.once

LIAR = "http://127.0.0.1:7999"


def info_of(tree: Tree, name: str) -> dict[str, Any]:
    answer = tree.nodes[name].client().get("/zones/info")
    zone: dict[str, Any] = answer.json["zone"]
    return zone


@built_once
def a_tree(folder: Path) -> Tree:
    tree = Tree(folder)
    tree.add("root", hosts_=[a_host("r1", vcpus=64)], zone_capabilities=["tier=gold"])
    tree.add("region", parent="root", zone_capabilities=["tier=silver", "continent=europe"])
    some = [a_host("l1", vcpus=4, zone="az2", traits=["CUSTOM_X"]), a_host("l2", vcpus=8, CUSTOM_GPU=2)]
    tree.add("leaf", parent="region", hosts_=some)
    tree.poll(1)
    return tree


def test_a_zone_tells_of_all_below_it(tmp_path: Path) -> None:
    zone = info_of(a_tree(tmp_path), "root")

    assert zone["zone_capabilities"] == ["continent=europe", "tier=gold;silver"]
    assert zone["services"]["compute"]["VCPU"] == "4.0,64.0"
    assert zone["services"]["compute"]["CUSTOM_GPU"] == "2.0,2.0"
    assert zone["weighers"]["CPUWeigher"] == "4.0,64.0"
    assert (zone["traits"], zone["availability_zones"]) == (["CUSTOM_X"], ["az1", "az2"])
    assert (zone["blob_size"], zone["can_seal"], zone["complete"]) == (768, True, True)


def test_a_weigher_that_is_slow_over_all_hosts_holds_up_no_select_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # given a zone whose weigher takes a second for each of many hosts, and has been quick before
    tree = Tree(tmp_path)
    SlowFilter.takes(tree.clock, 0.0)
    root = tree.add("root").zone
    slow = "tests.builders.own_plugins.SlowWeigher"
    leaf = tree.add(
        "leaf", parent="root", hosts_=[a_host(f"l{n}") for n in range(100)], weight_classes=[slow]
    )
    tree.poll()
    SlowFilter.takes(tree.clock, 1.0)

    # when
    answer = leaf.client().get("/zones/info")
    for _ in range(root.conf.zone_failures_to_offline):
        root.children.poll()

    # then it gives up at the first look at the clock after the time of a poll, and its parent goes without it
    assert (answer.status, answer.json["serviceUnavailable"]["error_code"]) == (503, "out_of_time")
    assert SlowFilter.asked == 16 * (1 + root.conf.zone_failures_to_offline)
    assert "weighers take longer than zone_poll_timeout" in caplog.text
    assert [c.state for c in children.list_children(root.store, root.children)] == ["offline"]


def test_a_capability_that_is_named_twice_has_the_values_of_both(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.add("root", zone_capabilities=["gpu=a100;l40", "tier=gold", "gpu = h100"])

    assert info_of(tree, "root")["zone_capabilities"] == ["gpu=a100;h100;l40", "tier=gold"]


def test_it_is_incomplete_while_any_child_below_has_not_been_heard_of(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    tree.add("mute", parent="region")
    tree.network.mount(tree.nodes["mute"].url, ChildApp())
    tree.poll(1)

    assert [info_of(tree, name)["complete"] for name in ("leaf", "region", "root")] == [True, False, False]


def test_entries_keep_their_size_while_a_child_is_away(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    tree.network.fault(tree.nodes["leaf"].url, Dead())
    tree.poll(5)

    assert info_of(tree, "region")["complete"] is False
    assert [info_of(tree, name)["blob_size"] for name in ("region", "root")] == [512, 768]
    tree.restart("region")
    tree.nodes["region"].zone.children.refresh()
    assert info_of(tree, "region")["blob_size"] == 512


def test_what_is_claimed_shows_in_the_weighers_and_never_in_the_capacities(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    before = info_of(tree, "leaf")
    leaf = tree.nodes["leaf"].client()
    leaf.post("/flavors", {"flavor": {"name": "f", "vcpus": 3, "ram": 1024, "disk": 1}})
    leaf.post("/zones/boot", {"server": {"name": "vm", "flavorRef": "f", "num_instances": 3}})
    tree.settle(1)

    after = info_of(tree, "leaf")

    assert after["weighers"]["CPUWeigher"] == "1.0,2.0"
    assert after["services"] == before["services"]


def test_a_zone_without_hosts_has_no_ranges(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.add("root")

    assert (info_of(tree, "root")["weighers"], info_of(tree, "root")["services"]) == ({}, {"compute": {}})


@pytest.mark.parametrize(
    "lie",
    [
        {"traits": [f"HW_{n}" for n in range(MAX_INFO_ITEMS)]},
        {"traits": [f"{n:0>255}" for n in range(MAX_INFO_ITEMS)]},
        {"availability_zones": [f"{n:\N{SNOWMAN}>255}" for n in range(4000)]},
        {"zone_capabilities": [f"k{n}=v" for n in range(MAX_CAPABILITIES)]},
        {"zone_capabilities": ["tier=" + ";".join(f"v{n}" for n in range(600))]},
        {"weighers": {f"W{n:0>120}": "1.0,2.0" for n in range(MAX_INFO_ITEMS)}},
        {"services": {"compute": {f"C{n:0>120}": "1.0,2.0" for n in range(MAX_INFO_ITEMS)}}},
    ],
    ids=["traits", "long-traits", "zones", "capabilities", "values", "weighers", "classes"],
)
def test_a_child_that_tells_of_too_much_leaves_its_parent_one_that_is_heard(
    tmp_path: Path, lie: dict[str, Any]
) -> None:
    tree = a_tree(tmp_path)
    app = ChildApp()
    app.answers("GET", "/zones/info", 200, an_info(7, **lie))
    tree.network.mount(LIAR, app)
    own = [a_host("g1", traits=["ZZ_OWN"], zone="zz-own", ZZ_OWN=1)]
    tree.register("region", own)
    children.add(tree.nodes["region"].zone, ChildForm("liar", LIAR, "parent-region", "secret"))

    tree.poll(1)

    body = tree.nodes["region"].client().get("/zones/info").body
    read = read_info(body)
    assert len(body) < 4 * 2**20
    assert "ZZ_OWN" in read.traits and "zz-own" in read.availability_zones and "ZZ_OWN" in read.capacities
    assert read.zone_capabilities["tier"] >= {"silver"}
    region = children.list_children(tree.nodes["root"].zone.store, tree.nodes["root"].zone.children)[0]
    assert (region.state, region.last_error) == ("ready", "")


@pytest.mark.parametrize("heat", [2e18, -2e18, 1.7e308])
def test_a_metric_beyond_what_a_parent_reads_leaves_the_zone_ready(tmp_path: Path, heat: float) -> None:
    # given
    tree = Tree(tmp_path)
    root = tree.add("root").zone
    tree.add("leaf", parent="root", metrics_weight_setting=["heat=1.0"])

    # when
    metrics = {"cold": 1.0, "broken": heat}
    tree.register("leaf", [replace(a_host(name), metrics={"heat": value}) for name, value in metrics.items()])
    tree.poll(1)

    # then
    leaf = children.list_children(root.store, root.children)[0]
    assert (leaf.state, leaf.last_error) == ("ready", "")
    told = info_of(tree, "leaf")["weighers"]["MetricsWeigher"]
    assert told == ("1.0,1e+18" if heat > 0 else "-1e+18,1.0")


NAMES = st.frozensets(st.text(min_size=1, max_size=40), max_size=30)


@given(own=NAMES, below=st.lists(NAMES, max_size=3))
def test_few_names_are_all_told(own: frozenset[str], below: list[frozenset[str]]) -> None:
    told = subtree.texts(own, below)

    assert told == (sorted(own.union(*below)), True)


def test_what_is_left_out_is_never_an_own_one_and_is_admitted() -> None:
    own = frozenset({"zzz"})
    below = frozenset(f"{n:06}" for n in range(MAX_INFO_ITEMS))

    assert subtree.texts(own, [below]).whole is False
    assert "zzz" in subtree.texts(own, [below]).part
    assert len(subtree.texts(own, [below]).part) == MAX_INFO_ITEMS
    ranges = subtree.ranges({"zzz": Range(1.0, 2.0)}, [dict.fromkeys(below, Range(0.0, 1.0))])
    assert (ranges.part["zzz"], ranges.whole) == ("1.0,2.0", False)
    kept = subtree.capabilities({"k": own}, [{"k": below}])
    assert kept.part[0].endswith("zzz")
    assert (len(kept.part[0]) <= 4098, kept.whole) == (True, False)


def test_a_weigher_is_named_as_its_entry_point_unless_no_parent_reads_that() -> None:
    own = {name: Range(1.0, 2.0) for name in ("few-instances", "acme.Weigher", "few instances", "")}

    told = subtree.ranges(own, [])

    assert told.whole is False
    read = read_info(orjson.dumps(an_info(weighers=told.part)))
    assert read.ranges.keys() == {"few-instances", "acme.Weigher"}


@given(low=st.floats(-1e18, 1e18), high=st.floats(-1e18, 1e18))
def test_a_range_is_read_as_it_was_told(low: float, high: float) -> None:
    low, high = min(low, high), max(low, high)
    told = subtree.ranges({"RAMWeigher": Range(low, high)}, [])

    body = orjson.dumps(an_info(weighers=told.part))

    assert read_info(body).ranges["RAMWeigher"] == Range(low, high)
