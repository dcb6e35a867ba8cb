"""A worker that was paused past its lease changes nothing when it wakes: another one has carried on."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import a_small_tree
from tests.builders.crashes import heal, inconsistencies
from tests.builders.tree import Tree
from zonesched.services import background
from zonesched.services.zone import Zone
from zonesched.store import instances, reservations
from zonesched.store.reservations import Lease, ReservationState


class Pause:
    """Stops a zone's worker before its n-th write, while another worker of the zone takes over and ends."""

    def __init__(self, tree: Tree, at: int) -> None:
        self.happened = False
        self.rows: list[Any] = []
        self._tree, self._at, self._writes = tree, at, 0
        self._store = tree.nodes["root"].zone.store
        self._write = self._store.write
        self._store.write = self._paused  # type: ignore[method-assign]

    def _paused(self, fn: Callable[[Any], Any]) -> Any:
        self._writes += 1
        if self._writes == self._at:
            self.happened = True
            self.end()
            self._tree.clock.advance(61)
            self._tree.settle(1)
            self.rows = all_rows(self._tree)
        return self._write(fn)

    def end(self) -> None:
        """From now on nothing pauses."""
        self._store.write = self._write  # type: ignore[method-assign]


def all_rows(tree: Tree) -> list[Any]:
    """Everything the root has stored of boots."""
    tables = ("reservations", "instances", "placements")
    read = tree.nodes["root"].zone.store.read
    return [
        read(lambda tx, t=table: tx.exec_driver_sql(f"SELECT * FROM {t} ORDER BY 1, 2").fetchall())
        for table in tables
    ]


@pytest.fixture
def zone(tmp_path: Path) -> Zone:
    """A zone in which one boot waits for its worker."""
    tree = Tree(tmp_path)
    node = tree.add("root")
    flavor = {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}}
    assert node.client().post("/flavors", flavor).status == 200
    body = {"server": {"name": "vm", "flavorRef": "small"}}
    assert node.client().post("/zones/boot", body).status == 202
    return node.zone


def take(zone: Zone, after_s: float = 0.0) -> Lease | None:
    """Lease that a worker gets so many seconds later."""
    now = zone.clock.now() + after_s
    return zone.store.write(lambda tx: reservations.take_lease(tx, now, duration_s=60.0))


def test_a_boot_has_one_worker_until_its_lease_is_over(zone: Zone) -> None:
    # given a boot whose lease went to the process that accepted it
    first = zone.boots.take()
    assert first is not None and first.lease.number == 1
    assert zone.boots.take() is None
    # then nobody else gets it before that is over
    assert take(zone, after_s=59.9) is None
    second = take(zone, after_s=60.0)
    assert second is not None and second.number == 2


def test_a_boot_is_begun_with_what_its_rows_say(zone: Zone) -> None:
    boot = zone.boots.take()

    assert boot is not None
    where = (boot.lease.caller_id, boot.lease.reservation_id)
    assert boot.reservation == zone.store.read(lambda tx: reservations.read_one(tx, *where))
    assert boot.members == zone.store.read(lambda tx: instances.members(tx, *where))


@pytest.mark.parametrize("woken", [False, True])
def test_what_happens_while_a_worker_ends_makes_its_boot_due_again(zone: Zone, woken: bool) -> None:
    # given a worker that has looked at its boot and found all done
    boot = zone.boots.take()
    assert boot is not None
    lease = boot.lease
    caller_id, reservation_id = lease.caller_id, lease.reservation_id
    seen = zone.store.read(lambda tx: reservations.read_one(tx, caller_id, reservation_id)).wakes
    # when something the boot waits for happens before the worker gives its lease back
    if woken:
        zone.store.write(lambda tx: reservations.wake(tx, caller_id, reservation_id))
    zone.store.write(
        lambda tx: reservations.give_back(tx, lease, ReservationState.SETTLED, 0.0, math.inf, seen)
    )
    # then the boot is due at once, and else not again
    assert (take(zone) is not None) is woken


@pytest.mark.slow
def test_a_worker_paused_before_any_of_its_writes(tmp_path: Path) -> None:
    at, happened = 1, True
    while happened:
        at += 1
        (tmp_path / str(at)).mkdir()
        tree = a_small_tree(tmp_path / str(at))
        root = tree.nodes["root"]
        body = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 12}}
        reservation_id = root.client().post("/zones/boot", body).json["reservation_id"]
        pause = Pause(tree, at)

        background.work_on_boots(root.zone)

        happened = pause.happened
        pause.end()
        assert not happened or all_rows(tree) == pause.rows, f"paused before write {at}"
        heal(tree)
        assert inconsistencies(tree) == [], f"paused before write {at}"
        shown = root.client().get(f"/reservations/{reservation_id}").json["reservation"]
        assert shown["counts"] == {"BUILD": 12}, f"paused before write {at}"
    # One more than the writes of such a boot after its lease: the last play meets none.
    assert at == 5
