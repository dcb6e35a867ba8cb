"""The audit across an edge: what a zone built below, by its own rows and by its child's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.audited_tree import FLAVOR, a_booted_tree, kinds, plant, root_of
from tests.builders.one_zone import sql
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead
from zonesched.services.audit.audit_edges import across_edges
from zonesched.store import identity


def test_a_zone_without_children_has_no_edges(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.add("root")

    assert kinds(tree) == []


def test_what_was_booted_below_is_the_same_on_both_sides(tmp_path: Path) -> None:
    tree = a_booted_tree(tmp_path)

    assert sql(root_of(tree), "select state, count(*) from placements group by state") == [("confirmed", 2)]
    assert kinds(tree) == []


def test_what_was_deleted_is_no_inconsistency(tmp_path: Path) -> None:
    tree = a_booted_tree(tmp_path)
    (uuid, *_) = (row.uuid for row in sql(root_of(tree), "select uuid from instances order by uuid"))

    tree.nodes["root"].client().delete(f"/servers/{uuid}")
    tree.settle()

    assert kinds(tree) == []


def test_what_the_child_has_not_told_yet_is_no_inconsistency(tmp_path: Path) -> None:
    tree = a_booted_tree(tmp_path)

    change = tree.nodes["leaf"].zone.store.write(identity.next_change)
    plant(tree, "leaf", f"update instances set status = 'ACTIVE', changed_seq = {change}")

    assert kinds(tree) == []


def test_an_instance_that_the_child_does_not_know_is_found(tmp_path: Path) -> None:
    tree = a_booted_tree(tmp_path)
    (uuid,) = sql(tree.nodes["leaf"].zone, "select min(uuid) from instances")[0]

    plant(tree, "leaf", "delete from inbound_builds where uuid = (select min(uuid) from instances)")

    (found,) = across_edges(root_of(tree))
    assert found.kind == "child_lacks_instance"
    assert str(found.subject).startswith(f"instance {uuid} attempt 1 in child ")
    assert found.detail == "the child zone does not know it"


def test_an_instance_that_the_child_deleted_unnoticed_is_found(tmp_path: Path) -> None:
    tree = a_booted_tree(tmp_path)

    plant(tree, "leaf", "update instances set status = 'DELETED'")

    assert kinds(tree) == ["child_lacks_instance"] * 2


def test_an_instance_that_nobody_sent_is_found(tmp_path: Path) -> None:
    tree = a_booted_tree(tmp_path)

    plant(tree, "root", "delete from placements where uuid = (select min(uuid) from instances)")

    (found,) = across_edges(root_of(tree))
    assert (found.kind, found.detail) == ("child_has_unknown_instance", "never placed there")


@pytest.mark.parametrize("state", ["gone", "failed", "released"])
def test_an_instance_that_is_over_here_and_lives_below_is_found(tmp_path: Path, state: str) -> None:
    tree = a_booted_tree(tmp_path, count=1)
    plant(tree, "leaf", "update instances set status = 'ACTIVE'")

    plant(tree, "root", f"update placements set state = '{state}'")

    (found,) = across_edges(root_of(tree))
    assert (found.kind, found.detail) == ("child_has_unknown_instance", f"its place is {state}")


def test_a_hold_below_may_live_until_its_time_is_over(tmp_path: Path) -> None:
    tree = a_booted_tree(tmp_path, count=1)
    plant(tree, "root", "update placements set state = 'gone'")

    live = kinds(tree)
    tree.clock.advance(30 + 2 * 30 + 5 + 60 + 1)

    assert live == []
    assert kinds(tree) == ["child_has_unknown_instance"]


@pytest.mark.own_statements
@pytest.mark.parametrize("state", ["confirming", "cancelling", "releasing", "held"])
def test_a_call_under_way_is_no_inconsistency(tmp_path: Path, state: str) -> None:
    tree = a_booted_tree(tmp_path)

    plant(tree, "root", f"update placements set state = '{state}'")

    assert kinds(tree) == []


@pytest.mark.own_statements
@pytest.mark.parametrize("state", ["intended", "held", "confirming", "cancelling", "releasing", "gone"])
def test_the_child_need_not_know_what_is_not_confirmed(tmp_path: Path, state: str) -> None:
    tree = a_booted_tree(tmp_path)

    plant(tree, "leaf", "delete from inbound_builds")
    plant(tree, "root", f"update placements set state = '{state}'")

    assert kinds(tree) == []


def test_the_child_need_not_know_what_has_ended_here(tmp_path: Path) -> None:
    tree = a_booted_tree(tmp_path)

    plant(tree, "leaf", "delete from inbound_builds")
    plant(tree, "root", "update instances set status = 'ERROR'")

    assert kinds(tree) == []


def test_each_child_is_compared_with_what_is_there(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.add("root")
    for name in ("leaf-a", "leaf-b"):
        tree.add(name, parent="root", hosts_=[a_host("h1", vcpus=4)])
    tree.poll()
    root = tree.nodes["root"].client()
    root.post("/flavors", FLAVOR)
    root.post("/zones/boot", {"server": {"name": "vm", "flavorRef": "small", "num_instances": 4}})
    tree.settle()

    assert sql(root_of(tree), "select count(distinct child_id) from placements") == [(2,)]
    assert kinds(tree) == []


def test_another_status_below_is_found(tmp_path: Path) -> None:
    tree = a_booted_tree(tmp_path, count=1)

    plant(tree, "leaf", "update instances set status = 'ACTIVE'")

    (found,) = across_edges(root_of(tree))
    assert (found.kind, found.detail) == ("status_differs", "BUILD here, ACTIVE in the child")


def test_a_child_without_an_answer_cannot_be_compared(tmp_path: Path) -> None:
    tree = a_booted_tree(tmp_path)

    tree.network.fault(tree.nodes["leaf"].url, Dead())

    (found,) = across_edges(root_of(tree))
    assert (found.kind, found.detail) == ("child_not_compared", "child_unreachable")


def test_other_parents_instances_are_none_of_ours(tmp_path: Path) -> None:
    tree = a_booted_tree(tmp_path)
    tree.add("second")
    tree.join("second", "leaf")
    tree.poll()
    second = tree.nodes["second"].client()
    second.post("/flavors", FLAVOR)
    second.post("/zones/boot", {"server": {"name": "vm", "flavorRef": "small", "num_instances": 3}})
    tree.settle()

    assert kinds(tree) == []
    assert across_edges(tree.nodes["second"].zone) == []
