"""Pruning: what was deleted long ago goes whole; what anybody may still ask for stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.boots import a_building_tree, a_small_tree, all_active, boot, delete_all, rows, the_boot
from tests.builders.crashes import heal, inconsistencies
from tests.builders.sealed_builds import UUID, Stage
from tests.builders.stores import statements_written_by
from tests.builders.sync import ask_all
from tests.builders.tree import Tree
from tests.builders.wsgi_transport import Dead
from zonesched.services.audit import audit, audit_edges
from zonesched.services.placing import pruning
from zonesched.services.placing.pruning import Pruning

TABLES = ("reservations", "instances", "placements", "inbound_builds")
WEEK_S = 604_800.0


def left(tree: Tree, name: str) -> list[int]:
    return [rows(tree, name, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES]


def prune(tree: Tree) -> None:
    for node in tree.nodes.values():
        Pruning(node.zone).step()


def inconsistencies_of_all(tree: Tree) -> list[object]:
    found: list[object] = list(inconsistencies(tree))
    for node in tree.nodes.values():
        found += [*audit.run(node.zone), *audit_edges.across_edges(node.zone)]
    return found


def test_boots_that_were_deleted_leave_nothing_after_the_retention(tmp_path: Path) -> None:
    tree = a_building_tree(tmp_path)
    delete_all(tree)
    heal(tree)
    tree.clock.advance(WEEK_S - 300)
    prune(tree)
    before = [left(tree, name) for name in tree.nodes]

    tree.clock.advance(600)
    prune(tree)

    assert all(min(counts[:3]) > 0 for counts in before)
    assert [left(tree, name) for name in tree.nodes] == [[0, 0, 0, 0]] * 4
    assert inconsistencies_of_all(tree) == []


def test_a_boot_of_which_anything_is_left_stays_whole(tmp_path: Path) -> None:
    tree = a_building_tree(tmp_path)
    root = tree.nodes["root"].client()
    for server in root.get("/servers").json["servers"][:11]:
        root.delete(f"/servers/{server['id']}")
    heal(tree)
    before = left(tree, "root")
    tree.clock.advance(2 * WEEK_S)

    prune(tree)

    assert left(tree, "root") == before
    assert inconsistencies_of_all(tree) == []


@pytest.mark.sqlite
def test_instances_of_boots_that_stay_are_not_read_while_other_writers_wait(tmp_path: Path) -> None:
    tree = a_building_tree(tmp_path)
    root = tree.nodes["root"]
    for server in root.client().get("/servers").json["servers"][:11]:
        root.client().delete(f"/servers/{server['id']}")
    heal(tree)
    tree.clock.advance(2 * WEEK_S)

    statements = statements_written_by(root.zone.store, Pruning(root.zone).step)

    read = [text for text in statements if "FROM instances" in text]
    assert ["EXISTS (SELECT" in text for text in read] == [True]


def test_an_error_that_its_user_has_not_deleted_stays(tmp_path: Path) -> None:
    tree = a_building_tree(tmp_path, 27)
    root = tree.nodes["root"].client()
    servers = root.get("/servers").json["servers"]
    root.delete(f"/servers/{servers[0]['id']}")
    tree.clock.advance(2 * WEEK_S)

    prune(tree)

    assert left(tree, "root")[:2] == [1, 27]
    assert len(root.get("/servers").json["servers"]) == 26


def test_what_a_child_has_still_to_be_told_stays(tmp_path: Path) -> None:
    tree = a_building_tree(tmp_path)
    for name in ("region", "leaf-b"):
        tree.network.fault(tree.nodes[name].url, Dead())
    delete_all(tree)
    tree.clock.advance(2 * WEEK_S)
    prune(tree)
    waiting = left(tree, "root")

    for name in ("region", "leaf-b"):
        tree.network.heal(tree.nodes[name].url)
    heal(tree)
    prune(tree)

    assert waiting[:2] == [1, 12]
    assert left(tree, "root") == [0, 0, 0, 0]
    assert inconsistencies_of_all(tree) == []


def test_a_parent_that_was_away_for_longer_than_the_retention_is_still_told(tmp_path: Path) -> None:
    tree = a_building_tree(tmp_path)
    reservation_id = the_boot(tree)
    all_active(tree)
    tree.settle()
    admin = tree.nodes["leaf-b"].client()
    lost = [server["id"] for server in admin.get("/servers?all_tenants=1").json["servers"]]
    for uuid in lost:
        assert admin.delete(f"/servers/{uuid}").status == 204
    tree.clock.advance(2 * WEEK_S)

    prune(tree)
    while ask_all(tree.nodes["root"].zone).behind:
        pass

    shown = tree.nodes["root"].client().get(f"/reservations/{reservation_id}").json["reservation"]
    assert lost
    assert shown["counts"] == {"ACTIVE": 12 - len(lost), "ERROR": len(lost)}
    assert shown["reasons"][0]["code"] == "deleted_in_child"


def test_an_ended_attempt_is_answered_from_its_row_until_the_retention_and_never_built_again(
    stage: Stage,
) -> None:
    build = stage.good()
    stage.send(build)
    stage.tree.clock.advance(31)
    stage.tree.step("leaf")
    stage.tree.clock.advance(WEEK_S - 300)
    Pruning(stage.tree.nodes["leaf"].zone).step()
    late = stage.send(build)

    stage.tree.clock.advance(600)
    Pruning(stage.tree.nodes["leaf"].zone).step()
    too_late = stage.send(build)

    assert late.json["builds"] == [
        {"uuid": UUID.format(1), "attempt": 1, "state": "gone", "hold_s": 0.0, "reason": "hold_expired"}
    ]
    assert (too_late.status, too_late.json["badRequest"]["error_code"]) == (400, "blob_refused")
    assert left(stage.tree, "leaf") == [0, 0, 0, 0]


def test_an_attempt_outlives_a_short_retention_until_nobody_can_repeat_it(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path, ended_retention=1.0)
    boot(tree)
    tree.settle()
    delete_all(tree)
    heal(tree)
    tree.clock.advance(60)

    prune(tree)

    assert left(tree, "root")[:2] == [1, 12]
    tree.clock.advance(3700)
    prune(tree)
    assert left(tree, "root") == [0, 0, 0, 0]


def test_a_round_goes_on_after_what_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = a_building_tree(tmp_path)
    root = tree.nodes["root"].client()
    for server in root.get("/servers").json["servers"][:11]:
        root.delete(f"/servers/{server['id']}")
    kept = left(tree, "root")[1]
    tree.clock.advance(5)
    second = boot(tree, num_instances=2)
    tree.settle()
    for server in root.get(f"/servers?reservation_id={second}").json["servers"]:
        root.delete(f"/servers/{server['id']}")
    heal(tree)
    tree.clock.advance(2 * WEEK_S)
    monkeypatch.setattr(pruning, "BATCH", 5)
    step = Pruning(tree.nodes["root"].zone).step

    pauses = [step() for _ in range(3)]

    assert pauses == [1.0, 1.0, 60.0]
    assert left(tree, "root")[1] == kept
