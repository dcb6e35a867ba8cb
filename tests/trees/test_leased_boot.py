"""Writes of one worker to a boot that it has leased, or no longer has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.boots import FLAVOR, boot, rows
from tests.builders.one_zone import sql
from tests.builders.tree import Tree, a_host
from zonesched.services.boot.leased_boot import LeasedBoot
from zonesched.services.boot.offers import Selected
from zonesched.services.select import select
from zonesched.services.state.boot_queue import NewBoot
from zonesched.services.zone import Zone
from zonesched.store import reservations
from zonesched.store.reservations import ReservationState


def a_worker(tree: Tree) -> tuple[LeasedBoot, Selected]:
    """The worker of a new boot, and the outcome of its first select, which it has not noted."""
    client = tree.add("root", hosts_=[a_host("h1")]).client()
    assert client.post("/flavors", FLAVOR).status == 200
    boot(tree)
    zone = tree.nodes["root"].zone
    new = zone.boots.take()
    assert isinstance(new, NewBoot)
    spec = new.reservation.spec
    decision = select.decide(zone, spec, new.reservation.caller_id, select.BEST_HOSTS)
    return LeasedBoot.of_new(zone, new), Selected(spec, decision.trace, "no_valid_host")


def test_each_select_is_written_though_nothing_was_decided_after_the_first(tmp_path: Path) -> None:
    # given a worker of which a select found nothing, while a build failed that it may place again
    tree = Tree(tmp_path)
    worker, selected = a_worker(tree)
    worker.note_select(selected)

    # when it selects once more, and decides
    worker.note_select(replace(selected, reason="children_not_answered"))
    worker.write(lambda tx, change, now: None)

    # then both are counted, and the last one's reason is there
    stored = rows(tree, "root", "SELECT selects, reason FROM reservations")
    assert stored == [(2, "children_not_answered")]
    assert worker.reservation.selects == 2


def settle(worker: LeasedBoot, zone: Zone) -> None:
    worker.give_back(ReservationState.SETTLED, zone.clock.now())


def wait(worker: LeasedBoot, zone: Zone) -> None:
    worker.give_back(ReservationState.OPEN, zone.clock.now())


def postpone(worker: LeasedBoot, zone: Zone) -> None:
    zone.store.write(lambda tx: reservations.postpone(tx, worker.lease, zone.clock.now()))


@pytest.mark.parametrize("end", [settle, wait, postpone])
def test_a_worker_whose_boot_another_one_has_taken_over_changes_nothing_as_it_ends(
    tmp_path: Path, end: Callable[[LeasedBoot, Zone], None]
) -> None:
    # given a worker that was paused for longer than its lease, after a select
    tree = Tree(tmp_path)
    worker, selected = a_worker(tree)
    worker.note_select(selected)
    zone = tree.nodes["root"].zone
    tree.clock.advance(zone.conf.boot_lease + 1)
    now = zone.clock.now()
    other = zone.store.write(lambda tx: reservations.take_lease(tx, now, zone.conf.boot_lease))
    assert other is not None
    before = rows(tree, "root", "SELECT * FROM reservations")

    # when it ends its work
    end(worker, zone)

    # then the other one's lease goes on, and nothing is noted
    assert rows(tree, "root", "SELECT * FROM reservations") == before


@pytest.mark.parametrize("flavor", ["small", "huge"])
def test_a_boot_that_the_database_does_not_have_any_more_is_left_without_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, flavor: str
) -> None:
    # given an accepted boot, for which there is a host or none
    tree = Tree(tmp_path)
    root = tree.add("root", hosts_=[a_host("h1")])
    tree.poll()
    for name, vcpus in (("small", 1), ("huge", 1000)):
        body = {"flavor": {"name": name, "vcpus": vcpus, "ram": 64, "disk": 1}}
        assert root.client().post("/flavors", body).status == 200
    boot(tree, flavorRef=flavor, num_instances=1)

    # when a server takes over that lacks its commit
    for table in ("instances", "reservations"):
        sql(root.zone, f"DELETE FROM {table}")
    tree.settle()

    # then its worker leaves it, in a line
    said = [(record.levelname, record.exc_info) for record in caplog.records]
    assert set(said) == {("WARNING", None)}
    assert root.zone.boots.in_hand == 0
    assert rows(tree, "root") == []
