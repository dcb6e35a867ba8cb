"""The repair of an instance that moved between children and that a row, here or there, has in both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.builders.audited_tree import plant
from tests.builders.boots import a_running_tree, the_boot
from tests.builders.one_zone import sql
from tests.builders.scenes import built_once
from tests.builders.tree import Tree
from tests.builders.wsgi_transport import Dead
from tests.trees.test_actions_in_tree import Scene
from zonesched.model.inconsistency import Left, Repaired, RepairResult
from zonesched.services.audit import audit_edges, repair

REASON = "its other place is in a child zone that has not confirmed it: run it again"


@dataclass(frozen=True)
class Moved:
    """An instance of the root that has moved from `region` to `leaf-b`."""

    scene: Scene
    uuid: str

    @property
    def tree(self) -> Tree:
        return self.scene.tree

    def repair(self) -> list[RepairResult]:
        return repair.run(self.tree.nodes["root"].zone)

    def kinds(self) -> list[str]:
        return [found.kind for found in audit_edges.across_edges(self.tree.nodes["root"].zone)]

    def go_on(self) -> None:
        """Pending calls and agents of all zones."""
        self.scene.go_on()

    def state(self) -> tuple[str, list[str], list[str]]:
        """The status that its owner sees, the zones where it is to run, and what the root's audit finds."""
        shown = self.scene.root.client().get(f"/servers/{self.uuid}").json["server"]["status"]
        agents = self.scene.agents.items()
        zones = [name for name, agent in agents if self.uuid in {line["uuid"] for line in agent.work()}]
        return shown, zones, self.kinds()


WHOLE: tuple[str, list[str], list[str]] = ("ACTIVE", ["leaf-b"], [])


@built_once
def _moved_tree(folder: Path) -> Tree:
    tree = a_running_tree(folder, 6)
    scene = Scene(tree, the_boot(tree))
    uuid = scene.in_zone("leaf-a")
    scene.act(uuid, {"shelve": None})
    scene.go_on()
    for client in (tree.nodes["root"].client(), tree.nodes["leaf-a"].client()):
        for host in client.get("/os-services?binary=nova-compute").json["services"]:
            client.call("PUT", f"/os-services/{host['id']}", {"status": "disabled"})
    tree.poll()
    scene.act(uuid, {"unshelve": None})
    scene.go_on()
    return tree


def of_tree(tree: Tree) -> Moved:
    ((uuid,),) = sql(tree.nodes["root"].zone, "select uuid from placements where number = 2")
    one = Moved(Scene(tree, the_boot(tree)), str(uuid))
    assert one.state() == WHOLE
    return one


def with_former_rows(folder: Path) -> Moved:
    """Such an instance; the root has its rows as they were before the move."""
    tree = _moved_tree(folder)
    one = of_tree(tree)
    for statement in (
        "delete from placements where number = 2",
        f"update placements set state = 'confirmed' where uuid = '{one.uuid}'",
        f"update instances set attempt = 1 where uuid = '{one.uuid}'",
    ):
        plant(tree, "root", statement)
    return one


def test_it_is_kept_where_it_runs_and_not_deleted_for_a_place_that_is_empty(tmp_path: Path) -> None:
    one = with_former_rows(tmp_path)
    found = one.kinds()

    done = one.repair()
    one.go_on()

    assert found == ["child_has_unknown_instance", "child_lacks_instance"]
    assert [(line.inconsistency.kind, isinstance(line, Left)) for line in done] == [
        ("child_lacks_instance", False),
        ("child_has_unknown_instance", False),
    ]
    assert one.state() == WHOLE


def test_it_is_left_while_the_child_of_its_other_place_does_not_answer(tmp_path: Path) -> None:
    one = with_former_rows(tmp_path)
    region = one.tree.nodes["region"].url
    one.tree.network.fault(region, Dead())

    done = {line.inconsistency.kind: line for line in one.repair()}
    left = done["child_has_unknown_instance"]
    one.tree.network.heal(region)
    one.repair()
    one.go_on()

    assert isinstance(left, Left) and left.why == REASON
    assert one.state() == WHOLE


def test_it_is_left_until_the_child_of_its_other_place_was_heard(tmp_path: Path) -> None:
    one = with_former_rows(tmp_path)
    plant(one.tree, "root", "update children set cursor = '' where name = 'region'")
    found = one.kinds()

    (left,) = one.repair()
    one.go_on()
    one.repair()
    one.go_on()

    assert found == ["child_has_unknown_instance"]
    assert isinstance(left, Left) and left.why == REASON
    assert one.state() == WHOLE


def test_one_of_two_is_deleted_once_the_child_of_the_other_confirms_it(tmp_path: Path) -> None:
    tree = _moved_tree(tmp_path)
    one = of_tree(tree)
    plant(tree, "region", f"update instances set status = 'ACTIVE' where uuid = '{one.uuid}'")
    leaf_b = tree.nodes["leaf-b"].url
    found = one.kinds()

    tree.network.fault(leaf_b, Dead(method="GET", path=f"/servers/{one.uuid}"))
    (left,) = one.repair()
    tree.network.heal(leaf_b)
    (done,) = one.repair()
    one.go_on()

    assert found == ["child_has_unknown_instance"]
    assert isinstance(left, Left) and left.why == REASON
    assert isinstance(done, Repaired) and done.action == "the child is asked to delete it"
    assert one.state() == WHOLE
    ((status,),) = sql(tree.nodes["region"].zone, f"select status from instances where uuid = '{one.uuid}'")
    assert status == "DELETED"
