"""The repair across an edge: of what runs in a child its word counts; a tenant's instance is not ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.audited_tree import a_booted_tree, kinds, plant, root_of
from tests.builders.moving import act
from tests.builders.one_zone import instance_of, places_of, sql
from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead
from zonesched.model.inconsistency import Left, Repaired, RepairResult
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.services.audit import audit, audit_edges, repair
from zonesched.services.audit.audit_edges import across_edges
from zonesched.services.children import children

State, Status = PlacementState, InstanceStatus


def one_below(tmp_path: Path) -> tuple[Tree, str]:
    """A tree with one ACTIVE instance in the leaf, and its uuid."""
    tree = a_booted_tree(tmp_path, count=1)
    for name in ("root", "leaf"):
        plant(tree, name, "update instances set status = 'ACTIVE'")
    (uuid,) = sql(root_of(tree), "select uuid from instances")[0]
    return tree, uuid


def repaired(tree: Tree) -> list[RepairResult]:
    """Repair at the root; once its decisions have reached the children, the audit finds nothing."""
    done = repair.run(root_of(tree))
    tree.settle()
    assert [f"{node.name}: {d}" for node in tree.nodes.values() for d in audit.run(node.zone)] == []
    assert kinds(tree) == []
    assert repair.run(root_of(tree)) == []
    return done


def status_at(tree: Tree, name: str, uuid: str) -> InstanceStatus:
    return instance_of(tree.nodes[name].zone, uuid).status


@pytest.mark.parametrize(
    ("below", "reason"),
    [
        ("update instances set status = 'DELETED'", "deleted_in_child"),
        ("delete from inbound_builds", "lost_in_child"),
    ],
)
def test_what_the_child_does_not_have_is_an_error(tmp_path: Path, below: str, reason: str) -> None:
    tree, uuid = one_below(tmp_path)
    plant(tree, "leaf", below)

    (done,) = repair.run(root_of(tree))

    assert isinstance(done, Repaired)
    assert instance_of(root_of(tree), uuid).reason == reason
    assert kinds(tree) == []


def test_what_was_believed_lost_is_taken_back(tmp_path: Path) -> None:
    tree, uuid = one_below(tmp_path)
    plant(tree, "leaf", "update instances set status = 'DELETED'")
    repair.run(root_of(tree))
    lost = status_at(tree, "root", uuid)
    plant(tree, "leaf", "update instances set status = 'ACTIVE'")

    repaired(tree)

    assert lost is Status.ERROR
    assert status_at(tree, "root", uuid) is status_at(tree, "leaf", uuid) is Status.ACTIVE


def test_an_instance_whose_place_is_missing_here_is_taken_back(tmp_path: Path) -> None:
    tree, uuid = one_below(tmp_path)
    plant(tree, "root", "delete from placements")

    repaired(tree)

    assert [p.state for p in places_of(root_of(tree), uuid)] == [State.CONFIRMED]
    assert status_at(tree, "root", uuid) is status_at(tree, "leaf", uuid) is Status.ACTIVE


@pytest.mark.own_statements
@pytest.mark.parametrize("status", ["DELETED", "ERROR"])
def test_what_its_owner_deleted_or_a_boot_gave_up_is_deleted_there(tmp_path: Path, status: str) -> None:
    tree, uuid = one_below(tmp_path)
    plant(tree, "root", f"update instances set status = '{status}', reason = 'no_valid_host'")
    plant(tree, "root", "update placements set state = 'gone'")

    repaired(tree)

    assert status_at(tree, "leaf", uuid) is Status.DELETED


@pytest.mark.own_statements
@pytest.mark.parametrize("below", ["ERROR", "OFFLOADED"])
def test_what_is_left_there_of_one_that_ended_on_both_sides_is_deleted(tmp_path: Path, below: str) -> None:
    tree, uuid = one_below(tmp_path)
    plant(tree, "root", "update instances set status = 'DELETED', reason = 'deleted'")
    plant(tree, "leaf", f"update instances set status = '{below}', reason = 'build_timeout'")
    plant(tree, "leaf", "update inventories set used = 0")
    for name in ("root", "leaf"):
        plant(tree, name, "update placements set state = 'released'")

    (done,) = repaired(tree)

    assert isinstance(done, Repaired)
    assert status_at(tree, "leaf", uuid) is Status.DELETED


@pytest.mark.parametrize("status", ["ACTIVE", "DELETED"])
def test_a_child_that_is_removed_between_comparison_and_repair_is_sent_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    # Given: the root has lost the place, and its operator removes the leaf while the repair begins
    tree, uuid = one_below(tmp_path)
    plant(tree, "root", f"update instances set status = '{status}'")
    plant(tree, "root", "update placements set state = 'released'")
    root, with_other_places = root_of(tree), audit_edges.with_other_places

    def removing(zone: Any, found: Any) -> Any:
        (child,) = zone.children.snapshot()
        children.remove(zone, child.child.id, force=True)
        return with_other_places(zone, found)

    monkeypatch.setattr(audit_edges, "with_other_places", removing)

    # When
    left = [one for one in repair.run(root) if one.inconsistency.kind == "child_has_unknown_instance"]

    # Then
    assert all(isinstance(one, Left) for one in left) and len(left) == 1
    assert [p.state for p in places_of(root, uuid)] == [State.RELEASED]
    tree.settle()
    assert status_at(tree, "leaf", uuid) is Status.ACTIVE


def test_what_nobody_here_knows_runs_on_and_is_left(tmp_path: Path) -> None:
    tree, uuid = one_below(tmp_path)
    for table in ("placements", "instances", "reservations"):
        plant(tree, "root", f"delete from {table}")

    (left,) = repair.run(root_of(tree))
    tree.settle()

    assert isinstance(left, Left)
    assert left.inconsistency.kind == "child_has_unknown_instance"
    assert status_at(tree, "leaf", uuid) is Status.ACTIVE


@pytest.mark.own_statements
@pytest.mark.parametrize(("here", "below"), [("BUILD", "ACTIVE"), ("ERROR", "ACTIVE"), ("ACTIVE", "ERROR")])
def test_the_childs_status_counts(tmp_path: Path, here: str, below: str) -> None:
    tree, uuid = one_below(tmp_path)
    plant(tree, "root", f"update instances set status = '{here}'")
    plant(tree, "leaf", f"update instances set status = '{below}'")

    # In the leaf itself an instance in ERROR on a host is an inconsistency of its own.
    (done,) = repair.run(root_of(tree))

    assert done.inconsistency.kind == "status_differs"
    assert status_at(tree, "root", uuid).value == below
    assert kinds(tree) == []


@pytest.mark.own_statements
def test_what_was_under_way_on_a_server_ends_where_the_child_has_nothing_left_of_it(tmp_path: Path) -> None:
    tree, uuid = one_below(tmp_path)
    assert act(tree.nodes["root"], uuid, {"reboot": {"type": "HARD"}}).status == 202
    plant(tree, "leaf", "update instances set status = 'OFFLOADED'")

    done, _ = repair.run(root_of(tree))

    assert done.inconsistency.kind == "status_differs"
    assert status_at(tree, "root", uuid) is Status.OFFLOADED
    assert sql(root_of(tree), "select result, reason from instance_actions") == [("error", "host_evacuated")]


def test_a_silent_child_is_left_until_it_answers(tmp_path: Path) -> None:
    tree, uuid = one_below(tmp_path)
    tree.network.fault(tree.nodes["leaf"].url, Dead())

    (left,) = repair.run(root_of(tree))

    assert isinstance(left, Left)
    assert status_at(tree, "root", uuid) is Status.ACTIVE


@pytest.mark.parametrize("steps", range(4))
def test_a_boot_under_way_is_not_disturbed(tmp_path: Path, steps: int) -> None:
    tree = a_booted_tree(tmp_path, count=1)
    plant(tree, "leaf", "update inventories set used = used + 1")
    tree.nodes["root"].client().post(
        "/zones/boot", {"server": {"name": "vm", "flavorRef": "small", "num_instances": 3}}
    )
    for number in range(steps):
        tree.step(("root", "leaf")[number % 2])

    for node in tree.nodes.values():
        repair.run(node.zone)
    tree.settle()

    states = sql(root_of(tree), "select state, count(*) from placements group by state")
    assert states == [("confirmed", 4)]
    assert [
        d for node in tree.nodes.values() for d in (*audit.run(node.zone), *across_edges(node.zone))
    ] == []


# -- the whole tree ----------------------------------------------------------------------------------------


@built_once
def two_above(folder: Path) -> Tree:
    """Root, region, leaf, and a second parent of the region, each with one instance in the leaf."""
    tree = Tree(folder)
    tree.add("root")
    tree.add("region", parent="root")
    tree.add("leaf", parent="region", hosts_=[a_host("secret-host", vcpus=8)])
    tree.add("other")
    tree.join("other", "region")
    tree.poll()
    for name in ("root", "other"):
        client = tree.nodes[name].client()
        client.post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 256, "disk": 1}})
        client.post("/zones/boot", {"server": {"name": "vm", "flavorRef": "small", "num_instances": 1}})
    tree.settle()
    return tree


def a_deep_tree(folder: Path) -> tuple[Tree, str]:
    """Such a tree, and the root's instance."""
    tree = two_above(folder)
    (uuid,) = sql(root_of(tree), "select uuid from instances")[0]
    return tree, uuid


def told(tree: Tree, name: str = "root") -> dict[str, object]:
    """Report of one child in the audit of the tree."""
    (child,) = tree.nodes[name].client().get("/audit?tree=true").json["children"]
    del child["id"]
    return dict(child)


def test_a_tree_that_is_right_has_no_inconsistency_anywhere(tmp_path: Path) -> None:
    tree, _ = a_deep_tree(tmp_path)

    assert told(tree) == {"name": "region", "inconsistencies": [], "complete": True}


def test_the_root_hears_of_its_own_instance_two_zones_below(tmp_path: Path) -> None:
    tree, uuid = a_deep_tree(tmp_path)

    plant(tree, "leaf", "update placements set state = 'gone'")

    assert told(tree)["inconsistencies"] == [{"kind": "instance_without_place", "id": uuid}]


def test_the_root_hears_of_the_edge_below_its_child(tmp_path: Path) -> None:
    tree, uuid = a_deep_tree(tmp_path)

    plant(tree, "leaf", "delete from inbound_builds")

    assert told(tree)["inconsistencies"] == [{"kind": "child_lacks_instance", "id": uuid}]


def test_what_is_wrong_with_hosts_is_their_own_zones_alone(tmp_path: Path) -> None:
    tree, _ = a_deep_tree(tmp_path)
    plant(tree, "leaf", "update inventories set used = 7")

    assert told(tree)["inconsistencies"] == []
    here = tree.nodes["leaf"].client().get("/audit").json["inconsistencies"]
    assert {found["kind"] for found in here} == {"used_differs"}


def test_a_silent_zone_below_makes_the_answer_incomplete(tmp_path: Path) -> None:
    tree, _ = a_deep_tree(tmp_path)
    tree.network.fault(tree.nodes["leaf"].url, Dead())

    assert told(tree) == {"name": "region", "inconsistencies": [], "complete": False}


def test_a_silent_child_makes_the_answer_incomplete(tmp_path: Path) -> None:
    tree, _ = a_deep_tree(tmp_path)
    tree.network.fault(tree.nodes["region"].url, Dead())

    assert told(tree)["complete"] is False


def test_a_parent_may_audit_and_not_repair(tmp_path: Path) -> None:
    tree, _ = a_deep_tree(tmp_path)
    parent = tree.nodes["region"].client("parent-root")

    assert parent.post("/audit", {"repair": {}}).status == 403
    assert parent.get("/audit?budget_s=5").json == {"version": 1, "inconsistencies": [], "complete": True}
    assert [parent.get(f"/audit{query}").status for query in ("", "?budget_s=0", "?budget_s=x")] == [400] * 3


def test_an_admin_repairs_over_the_api(tmp_path: Path) -> None:
    tree, _ = a_deep_tree(tmp_path)
    plant(tree, "leaf", "update inventories set used = used + 2 where resource_class = 'VCPU'")
    admin = tree.nodes["leaf"].client()

    shown, done, again = (
        admin.post("/audit", {"repair": {"dry_run": dry}}).json for dry in (True, False, False)
    )

    assert shown == done
    (line,) = done["inconsistencies"]
    assert (line["kind"], line["repaired"]) == ("used_differs", True)
    assert again == {"inconsistencies": []}
