"""What a child tells late, early or twice ends in the same picture above."""

from __future__ import annotations

from pathlib import Path

from tests.crashes import differences, heal
from tests.test_boot import a_small_tree
from tests.test_boot_faults import boot, counts
from tests.tree import Tree
from tests.wsgi_transport import LostReply
from zonesched.model.views import AgentReport, AgentState
from zonesched.services import audit, audit_edges, hosts


def report_all(tree: Tree, name: str, state: AgentState) -> None:
    node = tree.nodes[name]
    assert node.compute is not None
    desired = hosts.desired(node.zone, node.compute, "agent")
    hosts.report(node.zone, node.compute, "agent", [AgentReport(d.uuid, d.attempt, state) for d in desired])


def test_what_agents_report_reaches_the_root(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    reservation_id = boot(tree)
    tree.settle()

    for name in ("root", "leaf-a", "leaf-b"):
        report_all(tree, name, AgentState.ACTIVE)
    tree.clock.advance(60)
    tree.settle()

    assert counts(tree, reservation_id) == {"ACTIVE": 12}


def test_an_end_that_is_told_before_the_confirm_is_answered_is_not_lost(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    leaf = tree.nodes["leaf-b"]
    tree.network.fault(leaf.url, LostReply(path="/confirm"))
    reservation_id = boot(tree)
    tree.settle(1)
    unknown = counts(tree, reservation_id)["UNKNOWN"]
    assert unknown > 0

    report_all(tree, "leaf-b", AgentState.ERROR)
    tree.clock.advance(60)
    tree.settle(1)
    tree.network.heal(leaf.url)
    heal(tree)

    assert counts(tree, reservation_id) == {"BUILD": 12 - unknown, "ERROR": unknown}
    assert differences(tree) == []


def test_what_a_child_deleted_by_itself_before_the_confirm_was_answered(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    leaf = tree.nodes["leaf-b"]
    tree.network.fault(leaf.url, LostReply(path="/confirm"))
    reservation_id = boot(tree)
    tree.settle(1)
    unknown = counts(tree, reservation_id)["UNKNOWN"]

    admin = leaf.client()
    for server in admin.get("/servers?all_tenants=1").json["servers"]:
        assert admin.delete(f"/servers/{server['id']}").status == 204
    tree.clock.advance(60)
    tree.settle(1)
    tree.network.heal(leaf.url)
    heal(tree)
    tree.clock.advance(60)
    tree.settle()

    assert counts(tree, reservation_id) == {"BUILD": 12 - unknown, "ERROR": unknown}


def test_a_build_that_lost_its_claim_leaves_no_instance_in_the_child(tmp_path: Path) -> None:
    tree = a_small_tree(tmp_path)
    # Two boots see the same room; what the second one is offered is taken when it comes to claim.
    boot(tree, num_instances=20)
    boot(tree, num_instances=20)

    heal(tree)

    assert differences(tree) == []
    for node in tree.nodes.values():
        assert list(audit.run(node.zone)) == []
        assert list(audit_edges.across_edges(node.zone)) == []
