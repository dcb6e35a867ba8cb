"""Boots that wait together are begun together: each gets what it would get alone, and fails alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import a_small_tree, boot, counts, nothing_is_wrong, rows, settle_until_killed
from tests.builders.crashes import Seams, heal
from tests.builders.host_tables import hosts_read, table_is_as_stored
from tests.builders.inline_executor import InlineLoop
from tests.builders.one_zone import sql
from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from zonesched.model.placement import InstanceStatus
from zonesched.services import background
from zonesched.services.boot import batch
from zonesched.services.state import boot_queue
from zonesched.services.zone import Zone
from zonesched.store import claims, identity, reservations

FLAVORS = {"small": (2, 2048), "large": (4, 1024), "huge": (64, 1024)}


@built_once
def a_flat_zone(folder: Path, hosts: int = 4) -> Tree:
    """One zone with hosts of different sizes, 8 VCPU and more."""
    tree = Tree(folder)
    names = [a_host(f"h{n}", vcpus=8 + 2 * n, ram_mb=16384 + 1024 * n) for n in range(hosts)]
    client = tree.add("root", hosts_=names).client()
    tree.poll()
    for name, (vcpus, ram) in FLAVORS.items():
        flavor = {"flavor": {"name": name, "vcpus": vcpus, "ram": ram, "disk": 1}}
        assert client.post("/flavors", flavor).status == 200
    return tree


def boot_some(tree: Tree, *flavors: str, instances: int = 1) -> list[str]:
    """Accept boots, which wait for a worker; their reservations' ids."""
    return [boot(tree, flavorRef=flavor, num_instances=instances) for flavor in flavors]


def the_zone(tree: Tree) -> Zone:
    return tree.nodes["root"].zone


class BeforeTheWrite:
    """Lets something happen right before the next write of a zone, or after it; counts its writes."""

    def __init__(self, zone: Zone, happens: Callable[[], object], *, after: bool = False) -> None:
        self.writes = 0
        self._happens, self._after = happens, after
        self._store, self._write = zone.store, zone.store.write
        self._store.write = self._watched  # type: ignore[method-assign]

    def _watched(self, fn: Callable[[Any], Any]) -> Any:
        self.writes += 1
        if self.writes > 1:
            return self._write(fn)
        if not self._after:
            self._undisturbed()
            return self._write(fn)
        result = self._write(fn)
        self._undisturbed()
        return result

    def _undisturbed(self) -> None:
        self._store.write = self._write  # type: ignore[method-assign]
        self._happens()
        self._store.write = self._watched  # type: ignore[method-assign]

    def end(self) -> None:
        self._store.write = self._write  # type: ignore[method-assign]


def nothing() -> None:
    """Nothing happens."""


def places(tree: Tree) -> list[Any]:
    statement = (
        "SELECT i.reservation_id, i.position, i.status, i.attempt, h.name, p.state, p.number"
        " FROM instances i LEFT JOIN placements p ON p.uuid = i.uuid AND p.number = i.attempt"
        " LEFT JOIN hosts h ON h.id = p.host_id ORDER BY i.reservation_id, i.position"
    )
    return rows(tree, "root", statement)


def settled_rows(tree: Tree) -> list[Any]:
    statement = (
        "SELECT id, state, reason, why, spec, selects, lease_number, lease_expires_at, next_work_at,"
        " settled_at FROM reservations ORDER BY id"
    )
    return rows(tree, "root", statement)


def test_no_boot_of_a_batch_is_in_hand_once_it_has_ended(tmp_path: Path) -> None:
    tree = a_flat_zone(tmp_path)
    ids = boot_some(tree, "small", "huge", "large")

    while the_zone(tree).boots.unended():
        before = len(the_zone(tree).boots.unended())
        background.work_on_boots(the_zone(tree))
        assert len(the_zone(tree).boots.unended()) < before

    assert [counts(tree, one) for one in ids] == [{"BUILD": 1}, {"ERROR": 1}, {"BUILD": 1}]


def test_boots_that_wait_are_written_by_one_transaction(tmp_path: Path) -> None:
    tree = a_flat_zone(tmp_path)
    ids = boot_some(tree, "small", "large", "small")
    watched = BeforeTheWrite(the_zone(tree), nothing)

    # when the worker takes one step; its poll of the rows is the other write
    background.work_on_boots(the_zone(tree))

    assert watched.writes == 2
    assert [counts(tree, one) for one in ids] == [{"BUILD": 1}] * 3
    nothing_is_wrong(tree)


@pytest.mark.parametrize("instances", [1, 3])
def test_a_batch_does_what_its_boots_would_do_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instances: int
) -> None:
    # given two equal zones, one of which begins one boot at a time, as any zone did before
    found = []
    for name, at_once in (("alone", False), ("together", True)):
        tree = a_flat_zone(tmp_path / name)
        monkeypatch.setattr(batch, "may_share", lambda zone, boot, yes=at_once: yes)
        # when boots of two flavors wait, more than there is room for
        boot_some(tree, *("small", "large", "small", "small", "large") * 3, instances=instances)
        while background.work_on_boots(the_zone(tree)) == 0.0:
            pass
        # then all rows are the same
        found.append((places(tree), settled_rows(tree)))
        nothing_is_wrong(tree)
    assert found[0] == found[1]
    assert {row[2] for row in found[0][0]} >= {"BUILD"}


def test_what_a_batch_has_claimed_is_in_the_table_and_not_read_back(tmp_path: Path) -> None:
    tree = a_flat_zone(tmp_path)
    zone = the_zone(tree)
    boot_some(tree, "small", "large", instances=3)
    background.work_on_boots(zone)
    with hosts_read(zone) as read:
        zone.hosts.read_again()
    assert read == []
    table_is_as_stored(zone)
    # and what others change on these hosts is read
    deleted = sql(zone, "SELECT min(uuid) FROM instances")[0][0]
    assert tree.nodes["root"].client().delete(f"/servers/{deleted}").status == 204
    with hosts_read(zone) as read:
        zone.hosts.read_again()
    assert len(set(read)) == 1
    table_is_as_stored(zone)


def test_a_boot_without_a_host_fails_alone_and_in_its_turn(tmp_path: Path) -> None:
    tree = a_flat_zone(tmp_path)
    ids = boot_some(tree, "small", "huge", "large")
    tree.settle()
    assert [counts(tree, one) for one in ids] == [{"BUILD": 1}, {"ERROR": 1}, {"BUILD": 1}]
    reason = rows(tree, "root", "SELECT reason FROM reservations ORDER BY created_at")
    assert ("no_valid_host",) in reason
    nothing_is_wrong(tree)
    table_is_as_stored(the_zone(tree))


@pytest.mark.parametrize("late", [False, True])
def test_an_instance_that_is_deleted_before_its_boot_is_written(tmp_path: Path, late: bool) -> None:
    # given three boots, of which the second is deleted before a worker looks, or before it writes
    tree = a_flat_zone(tmp_path)
    zone = the_zone(tree)
    ids = boot_some(tree, "small", "small", "small", instances=2)
    [(uuid,)] = rows(
        tree, "root", f"SELECT uuid FROM instances WHERE reservation_id = '{ids[1]}' AND position = 0"
    )

    def delete() -> None:
        assert tree.nodes["root"].client().delete(f"/servers/{uuid}").status == 204

    if late:
        zone.boots.polled(zone.boots.wakes, zone.clock.monotonic() + 60)
        watched = BeforeTheWrite(zone, delete)
    else:
        delete()
        watched = BeforeTheWrite(zone, nothing)

    while background.work_on_boots(zone) == 0.0:
        pass

    watched.end()
    assert [counts(tree, one) for one in ids] == [{"BUILD": 2}, {"BUILD": 1, "DELETED": 1}, {"BUILD": 2}]
    nothing_is_wrong(tree)
    table_is_as_stored(zone)


def test_a_boot_that_loses_its_lease_leaves_the_others_theirs(tmp_path: Path) -> None:
    # given a batch whose worker is paused before it writes
    tree = a_flat_zone(tmp_path)
    zone = the_zone(tree)
    ids = boot_some(tree, "small", "large", "small")
    zone.boots.polled(zone.boots.wakes, zone.clock.monotonic() + 60)
    taken: list[Any] = []

    def take_over() -> None:
        tree.clock.advance(61)
        lease = zone.store.write(lambda tx: reservations.take_lease(tx, zone.clock.now(), 60.0))
        taken.append(lease)

    # when another worker takes over one of its boots
    watched = BeforeTheWrite(zone, take_over)
    background.work_on_boots(zone)
    watched.end()

    # then the batch has changed nothing of that boot, and ended the others
    (lease,) = taken
    open_ones = rows(tree, "root", "SELECT id, lease_number FROM reservations WHERE state = 'open'")
    assert open_ones == [(lease.reservation_id, lease.number)]
    lost = [row for row in places(tree) if row[0] == lease.reservation_id]
    assert [(row[2], row[3], row[5]) for row in lost] == [("BUILD", 0, None)]
    table_is_as_stored(zone)
    # and whoever took it over ends it
    tree.clock.advance(61)
    tree.settle()
    assert [counts(tree, one) for one in ids] == [{"BUILD": 1}] * 3
    nothing_is_wrong(tree)


def test_a_boot_whose_host_is_taken_first_is_placed_again_alone(tmp_path: Path) -> None:
    # given three boots that want three hosts, one of which somebody fills before they are written
    tree = a_flat_zone(tmp_path)
    zone = the_zone(tree)
    with zone.hosts.current() as table:
        ids_of = {table.name(row): table.host_id(row) for row in range(table.size)}
    full = ids_of["h2"]
    ids = boot_some(tree, "large", "large", "large", instances=2)
    zone.boots.polled(zone.boots.wakes, zone.clock.monotonic() + 60)

    def fill() -> None:
        zone.store.write(lambda tx: claims.claim(tx, identity.next_change(tx), {full: 1}, {"VCPU": 12}))

    watched = BeforeTheWrite(zone, fill)
    while background.work_on_boots(zone) == 0.0:
        pass
    watched.end()

    # then nobody is on that host, all are placed, and what was claimed is what they have
    found = places(tree)
    assert {row[2] for row in found} == {"BUILD"} and "h2" not in {row[4] for row in found}
    assert [counts(tree, one) for one in ids] == [{"BUILD": 2}] * 3
    zone.store.write(lambda tx: claims.release(tx, identity.next_change(tx), [(full, {"VCPU": 12})]))
    nothing_is_wrong(tree)
    table_is_as_stored(zone)


def test_a_batch_that_is_not_written_leaves_nothing_on_the_table(tmp_path: Path) -> None:
    # given boots that wait while nothing can be written
    tree = a_flat_zone(tmp_path)
    zone = the_zone(tree)
    ids = boot_some(tree, "small", "large")
    zone.boots.polled(zone.boots.wakes, zone.clock.monotonic() + 60)
    table_is_as_stored(zone)
    write = zone.store.write

    def fail(fn: object) -> None:
        raise RuntimeError("the disk is gone")

    zone.store.write = fail  # type: ignore[method-assign,assignment]

    # when the worker begins them, together and then each by itself
    with pytest.raises(RuntimeError):
        background.work_on_boots(zone)

    # then the table has none of their picks, and no lease is in hand
    zone.store.write = write  # type: ignore[method-assign]
    table_is_as_stored(zone)
    with zone.hosts.current() as table:
        assert not table.used("VCPU").any() and not table.num_instances.any()
    assert zone.boots.in_hand == 0
    # and the boots end once the disk is back
    tree.clock.advance(61)
    tree.settle()
    assert [counts(tree, one) for one in ids] == [{"BUILD": 1}] * 2
    nothing_is_wrong(tree)
    table_is_as_stored(zone)


@pytest.mark.parametrize("after", [False, True])
def test_hosts_that_change_or_are_read_while_a_batch_is_written(tmp_path: Path, after: bool) -> None:
    # given somebody who uses a host of the batch and then asks for the hosts, before its commit or after it
    tree = a_flat_zone(tmp_path)
    zone = the_zone(tree)
    boot_some(tree, "small", "large", "small", instances=3)
    zone.boots.polled(zone.boots.wakes, zone.clock.monotonic() + 60)
    with zone.hosts.current() as table:
        every = [table.host_id(row) for row in range(table.size)]
    for asks in (False, True):

        def use(asks: bool = asks) -> None:
            taken = dict.fromkeys(every, 1)
            zone.store.write(lambda tx: claims.claim(tx, identity.next_change(tx), taken, {"MEMORY_MB": 64}))
            if asks:
                with zone.hosts.current():
                    pass

        watched = BeforeTheWrite(zone, use, after=after)
        background.work_on_boots(zone)
        watched.end()
        # then the table has both, each once
        table_is_as_stored(zone)
        boot_some(tree, "small")
        zone.boots.polled(zone.boots.wakes, zone.clock.monotonic() + 60)


@pytest.mark.slow
def test_a_zone_killed_at_any_step_of_a_batch(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    before = a_flat_zone(tmp_path / "0")
    kill_at, killed = 0, True
    while killed:
        kill_at += 1
        tree = before.copy_to(tmp_path / str(kill_at))
        tree.poll()
        ids = boot_some(tree, "small", "huge", "large", "small", instances=2)
        seams = Seams(tree, "root", kill_at)

        killed = settle_until_killed(tree, seams)

        heal(tree)
        found = [counts(tree, one) for one in ids]
        assert found == [{"BUILD": 2}, {"ERROR": 2}, {"BUILD": 2}, {"BUILD": 2}], f"killed at {kill_at}"
        nothing_is_wrong(tree)
    assert kill_at > 5


def test_one_batch_is_in_hand_and_what_comes_meanwhile_shares_the_next(tmp_path: Path) -> None:
    tree = a_flat_zone(tmp_path)
    zone = the_zone(tree)
    boot_some(tree, "small", "small")
    first = zone.boots.take_batch(lambda one: True)
    assert isinstance(first, boot_queue.Batch) and len(first.boots) == 2
    # while it is in hand, no other worker begins one
    boot_some(tree, "large", "large")
    assert zone.boots.take_batch(lambda one: True) is None
    # but one takes a boot that may not share
    alone = zone.boots.take_batch(lambda one: False)
    assert isinstance(alone, boot_queue.NewBoot) and alone.reservation.spec.flavor.name == "large"
    # when it ends with a rest, that comes first
    zone.boots.end_batch(first.boots[1:])
    following = zone.boots.take_batch(lambda one: True)
    assert isinstance(following, boot_queue.Batch)
    assert [one.reservation.spec.flavor.name for one in following.boots] == ["small", "large"]
    assert set(zone.boots.leases) == {one.lease for one in (first.boots[0], alone, *following.boots)}


def test_a_batch_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot_queue, "MAX_BOOTS", 3)
    monkeypatch.setattr(boot_queue, "MAX_INSTANCES", 4)
    tree = a_flat_zone(tmp_path)
    boot_some(tree, *["small"] * 4)
    boot_some(tree, "small", "small", instances=5)
    sizes = []
    for _ in range(4):
        taken = the_zone(tree).boots.take_batch(lambda one: True)
        assert isinstance(taken, boot_queue.Batch)
        sizes.append([len(one.uuids) for one in taken.boots])
        the_zone(tree).boots.end_batch()
    assert sizes == [[1, 1, 1], [1], [5], [5]]


def test_boots_that_depend_on_others_share_no_batch(tmp_path: Path) -> None:
    tree = a_flat_zone(tmp_path)
    zone = the_zone(tree)
    [plain] = boot_some(tree, "small")
    uuid = rows(tree, "root", "SELECT uuid FROM instances")[0][0]
    tree.nodes["root"].client().post(
        "/servers",
        {
            "server": {"name": "vm", "flavorRef": "small", "networks": "none"},
            "os:scheduler_hints": {"different_host": [uuid]},
        },
    )
    tree.settle()
    # then the hint holds, though the boot that it names waited with it
    (one, other) = [row[4] for row in places(tree)]
    assert one != other and plain
    assert all(row[2] == InstanceStatus.BUILD.value for row in places(tree))
    nothing_is_wrong(tree)
    table_is_as_stored(zone)


def test_a_worker_of_a_boot_over_child_zones_wakes_another_for_those_that_wait(tmp_path: Path) -> None:
    # given two boots that share no batch, and a worker that was woken once for both
    tree = a_small_tree(tmp_path)
    zone, other = the_zone(tree), InlineLoop("boot-1", lambda: 60.0)
    for _ in range(2):
        boot(tree, num_instances=1)
    zone.wake.boot_loops.append(other)
    woken: list[int] = []
    # when it works them off
    while zone.boots.waiting:
        background.work_on_boots(zone)
        woken.append(other.woken)
    # then it has asked another one to begin the second, and nobody for those after it
    assert woken[0] == woken[-1] == 1
    nothing_is_wrong(tree)
