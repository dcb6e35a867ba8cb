"""A booted tree whose rows can be damaged, for its audit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.builders.one_zone import sql
from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from zonesched.model.inconsistency import Left, RepairResult
from zonesched.services.audit.audit_edges import across_edges
from zonesched.services.zone import Zone

FLAVOR = {"flavor": {"name": "small", "vcpus": 2, "ram": 2048, "disk": 10}}


@built_once
def a_booted_tree(folder: Path, count: int = 2) -> Tree:
    """A root over one child that has all the hosts, and `count` instances that were built there."""
    tree = Tree(folder)
    tree.add("root")
    tree.add("leaf", parent="root", hosts_=[a_host("h1", vcpus=8), a_host("h2", vcpus=8)])
    tree.poll()
    root = tree.nodes["root"].client()
    root.post("/flavors", FLAVOR)
    root.post("/zones/boot", {"server": {"name": "vm", "flavorRef": "small", "num_instances": count}})
    tree.settle()
    return tree


def root_of(tree: Tree) -> Zone:
    return tree.nodes["root"].zone


def plant(tree: Tree, name: str, statement: str) -> None:
    """Change a zone's rows behind its back: nobody is told."""
    sql(tree.nodes[name].zone, statement)


def kinds(tree: Tree) -> list[str]:
    return [found.kind for found in across_edges(root_of(tree))]


def left(done: Sequence[RepairResult]) -> list[Left]:
    """Select the inconsistencies that a repair left."""
    return [one for one in done if isinstance(one, Left)]
