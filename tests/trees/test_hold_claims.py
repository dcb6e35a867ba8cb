"""Claims of a parent's holds go into the host table of the zone, and are not read back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders import grouped
from tests.builders.boots import FLAVOR, boot, counts, nothing_is_wrong
from tests.builders.host_tables import hosts_read, table_is_as_stored
from tests.builders.one_zone import sql
from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from tests.trees import test_rebuild
from zonesched.model.new_instances import OwnClaims
from zonesched.services.parent import opening
from zonesched.services.state import host_cache
from zonesched.services.state.host_cache import HostCache
from zonesched.services.zone import Zone
from zonesched.store import claims, identity


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    """A root without hosts over a leaf with three."""
    tree = Tree(tmp_path)
    tree.add("root")
    tree.add("leaf", parent="root", hosts_=[a_host(f"h{n}", vcpus=20 + n) for n in range(3)])
    tree.poll()
    assert tree.nodes["root"].client().post("/flavors", FLAVOR).status == 200
    return tree


def the_leaf(tree: Tree) -> Zone:
    return tree.nodes["leaf"].zone


def after_each_hold(monkeypatch: pytest.MonkeyPatch, zone: Zone, happens: Callable[[], object]) -> None:
    """Let something happen between the commit of a hold in this zone and the note of its claims."""
    note = zone.hosts.note_claims

    def later(own: Any) -> None:
        happens()
        note(own)

    monkeypatch.setattr(zone.hosts, "note_claims", later)


def test_what_was_held_is_in_the_table_and_not_read_back(tree: Tree) -> None:
    leaf = the_leaf(tree)
    table_is_as_stored(leaf)
    with hosts_read(leaf) as read:
        ids = [boot(tree, num_instances=3) for _ in range(2)]
        tree.settle()
        leaf.hosts.read_again()
    assert read == []
    table_is_as_stored(leaf)
    assert [counts(tree, one) for one in ids] == [{"BUILD": 3}] * 2

    # and what a delete changes is read
    deleted = sql(tree.nodes["root"].zone, "SELECT min(uuid) FROM instances")[0][0]
    with hosts_read(leaf) as read:
        assert tree.nodes["root"].client().delete(f"/servers/{deleted}").status == 204
        tree.settle()
        leaf.hosts.read_again()
    assert len(set(read)) == 1
    table_is_as_stored(leaf)
    nothing_is_wrong(tree)


def test_a_read_between_the_commit_and_the_note_counts_nothing_twice(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf = the_leaf(tree)
    table_is_as_stored(leaf)
    after_each_hold(monkeypatch, leaf, leaf.hosts.read_again)

    boot(tree, num_instances=3)
    tree.settle()

    table_is_as_stored(leaf)


def test_a_hold_waits_for_nobody_who_has_the_table_and_is_not_read_back(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf = the_leaf(tree)
    table_is_as_stored(leaf)
    hosts, waited = leaf.hosts, []
    assert isinstance(hosts, HostCache)
    note = hosts.note_claims

    def while_another_has_it(own: OwnClaims) -> None:
        noting = threading.Thread(target=note, args=(own,))
        with hosts._lock:
            noting.start()
            noting.join(5.0)
            waited.append(noting.is_alive())
        noting.join()

    monkeypatch.setattr(hosts, "note_claims", while_another_has_it)
    with hosts_read(leaf) as read:
        for _ in range(2):
            boot(tree, num_instances=3)
        tree.settle()
        hosts.read_again()

    assert (waited, read) == ([False, False], [])
    table_is_as_stored(leaf)


@pytest.mark.parametrize("before", [True, False], ids=["before the claims", "after them"])
def test_what_another_process_claims_meanwhile_is_read(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    # given another process of the zone that uses all hosts between a select and the note of its claims
    leaf = the_leaf(tree)
    every = dict.fromkeys([row[0] for row in sql(leaf, "SELECT id FROM hosts")], 1)

    def use() -> None:
        leaf.store.write(lambda tx: claims.claim(tx, identity.next_change(tx), every, {"MEMORY_MB": 64}))

    open_entries = opening.open_entries

    def use_and_open(*args: Any) -> Any:
        use()
        return open_entries(*args)

    if before:
        monkeypatch.setattr(opening, "open_entries", use_and_open)
    else:
        after_each_hold(monkeypatch, leaf, use)

    # when instances are held there
    boot(tree, num_instances=3)
    tree.settle()

    # then the table has both, each once
    table_is_as_stored(leaf)


def test_a_table_whose_last_read_failed_is_left_to_the_next_one(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a read after each hold that gets all hosts, and then fails to get what has changed meanwhile
    leaf = the_leaf(tree)
    monkeypatch.setattr(host_cache, "REREAD_S", 1e-9)
    tree.clock.advance(601)
    table_is_as_stored(leaf)
    read, failed = leaf.store.read, []

    def fail_to_read() -> None:
        monkeypatch.setattr(host_cache, "REREAD_S", 601.0)
        tree.clock.advance(1e-6)
        pages = iter([read])

        def fail(fn: Any) -> Any:
            for transaction in pages:
                return transaction(fn)
            raise OSError("the disk is gone")

        leaf.store.read = fail  # type: ignore[method-assign]
        with pytest.raises(OSError):
            leaf.hosts.read_again()
        leaf.store.read = read  # type: ignore[method-assign]
        failed.append(True)

    after_each_hold(monkeypatch, leaf, fail_to_read)

    # when instances are held there
    boot(tree, num_instances=3)
    tree.settle()

    # then each counts once
    assert failed
    table_is_as_stored(leaf)


@pytest.mark.parametrize("policy", ["affinity", "anti-affinity"])
def test_the_hosts_of_a_server_group_are_read(tmp_path: Path, policy: str) -> None:
    tree = grouped.a_tree(tmp_path)
    group = grouped.make(tree, policy)
    for name in tree.nodes:
        table_is_as_stored(tree.nodes[name].zone)

    grouped.boot(tree, group, count=2, flavor="only-a")
    tree.settle()

    assert counts_in(tree.nodes["leaf-a"].zone) == 2
    for name in tree.nodes:
        table_is_as_stored(tree.nodes[name].zone)


def counts_in(zone: Zone) -> int:
    return int(sql(zone, "SELECT count(*) FROM placements WHERE state = 'confirmed'")[0][0])


def test_a_server_that_comes_back_is_counted_with_the_image_that_it_has(tmp_path: Path) -> None:
    # given a server below that was rebuilt from another image and shelved
    scene = test_rebuild.Scene(tmp_path)
    for body in (test_rebuild.rebuild(test_rebuild.NEW), {"shelve": None}):
        assert scene.act(body).status == 202
        scene.go_on()
    table_is_as_stored(scene.leaf.zone)

    # when it is placed there again
    assert scene.act({"unshelve": None}).status == 202
    scene.go_on()

    assert scene.shown() == ("ACTIVE", None, test_rebuild.NEW)
    table_is_as_stored(scene.leaf.zone)
