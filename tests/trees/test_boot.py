"""A boot through a tree: accepted, placed, confirmed, built, deleted."""

from __future__ import annotations

from pathlib import Path

from tests.builders.boots import a_small_tree


def test_a_boot_reaches_the_leaves(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    root = tree.nodes["root"].client()

    answer = root.post("/zones/boot", {"server": {"name": "vm", "flavorRef": "small", "num_instances": 20}})
    assert answer.status == 202, answer.body
    tree.settle()

    shown = root.get(f"/reservations/{answer.json['reservation_id']}").json["reservation"]
    assert shown["state"] == "BUILD"
    assert shown["counts"] == {"BUILD": 20}


def test_show_reads_an_instance_anew_through_all_zones_above_it(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    root = tree.nodes["root"].client()
    root.post("/zones/boot", {"server": {"name": "vm", "flavorRef": "small", "num_instances": 12}})
    tree.settle()
    leaf = tree.nodes["leaf-a"]
    wanted = leaf.client("compute").get("/hosts/instances?service=agent").json["instances"][0]
    report = {"uuid": wanted["uuid"], "attempt": wanted["attempt"], "state": "active"}
    told = leaf.client("compute").post("/hosts/reports", {"service": "agent", "reports": [report]})
    assert told.status == 204

    shown = root.get(f"/servers/{wanted['uuid']}").json["server"]

    assert (shown["status"], shown["stale"]) == ("ACTIVE", False)
