"""Writers of one zone side by side on PostgreSQL: none waits for others' hosts, and no change is missed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.builders.migrated import ask
from tests.builders.one_zone import (
    a_form,
    a_zone,
    add_hosts,
    instance_of,
    places_of,
    put_instance,
    put_place,
    put_reservation,
    sql,
    used_on,
)
from zonesched.model.place import LocalPlace
from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.model.request_spec import GroupPolicy, ServerGroup
from zonesched.services.placing import group_policy
from zonesched.services.zone import Zone
from zonesched.store import claims, feed, group_places, hosts, identity, inbound, instances, locks, placements
from zonesched.store.inbound import InboundBuild
from zonesched.store.placements import AskedChild, ClaimedHost
from zonesched.store.store import Transaction

pytestmark = pytest.mark.postgresql

RESOURCES = {"VCPU": 1}
PARENT = "parent-user"


@contextmanager
def another_writer(zone: Zone) -> Iterator[Transaction]:
    """A transaction of another process, open for as long as the block."""
    with zone.store._write_transaction() as tx:
        yield tx


def impatient(tx: Transaction) -> Transaction:
    """Whoever has to wait fails instead."""
    tx.execute(sa.text("SET LOCAL lock_timeout = '500ms'"))
    return tx


def claim(tx: Transaction, host_id: str) -> int:
    return claims.claim(tx, identity.next_change(tx), {host_id: 1}, RESOURCES)[host_id]


def changed_in(changes: hosts.Changes) -> set[str]:
    """Transactions in the server's other databases hold `until` back: more is read again then, and whole."""
    return {row.facts.id for row in changes.rows} | set(changes.uses.ids)


def test_claims_of_other_hosts_wait_for_nobody(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    first, second = add_hosts(zone, a_form("h1"), a_form("h2"))

    with another_writer(zone) as earlier:
        claim(earlier, first)
        taken = zone.store.write(lambda tx: claim(impatient(tx), second))

    assert (taken, used_on(zone, first)["VCPU"], used_on(zone, second)["VCPU"]) == (1, 1, 1)


def test_claims_of_one_host_wait_for_each_other(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))

    with another_writer(zone) as earlier:
        claim(earlier, host_id)
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
            zone.store.write(lambda tx: claim(impatient(tx), host_id))


def test_a_change_that_ends_after_a_later_one_is_read_all_the_same(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    first, second = add_hosts(zone, a_form("h1"), a_form("h2"))
    moment = zone.store.read(hosts.moment)

    with another_writer(zone) as earlier:
        claim(earlier, first)
        zone.store.write(lambda tx: claim(tx, second))
        seen = zone.store.read(lambda tx: hosts.changes(tx, moment))
    then = zone.store.read(lambda tx: hosts.changes(tx, seen.until))

    assert changed_in(seen) >= {second}
    assert changed_in(then) >= {first}


def test_a_host_is_read_once_while_a_transaction_of_another_database_is_open(tmp_path: Path) -> None:
    zone, other = a_zone(tmp_path / "one"), a_zone(tmp_path / "two")
    (other_host,) = add_hosts(other, a_form("elsewhere"))

    with another_writer(other) as elsewhere:
        claim(elsewhere, other_host)
        (host_id,) = add_hosts(zone, a_form("h1"))
        moment = hosts.Watermark(seq=0, removals=0)
        first = zone.store.read(lambda tx: hosts.changes(tx, moment))
        again = zone.store.read(lambda tx: hosts.changes(tx, first.until, first.later))
        zone.store.write(lambda tx: claim(tx, host_id))
        then = zone.store.read(lambda tx: hosts.changes(tx, again.until, again.later))

    assert (changed_in(first), changed_in(again), changed_in(then)) == ({host_id}, set(), {host_id})


def put_built(zone: Zone, position: int) -> str:
    """An instance that a parent sent and that is being built; its uuid."""
    uuid = put_instance(zone, caller_id=PARENT, status=InstanceStatus.BUILD)
    build = InboundBuild(uuid, PARENT, 1, "r", 1, (), 0.0)
    zone.store.write(lambda tx: inbound.insert(tx, [build]))
    put_place(zone, uuid, AskedChild("child", ("blob",)), caller_id=PARENT)
    return uuid


def activate(zone: Zone, tx: Transaction, uuid: str) -> None:
    change = identity.next_change(tx)
    instances.set_status(tx, change, [uuid], InstanceStatus.ACTIVE, zone.clock.now())


def told_after(zone: Zone, seq: int) -> tuple[list[str], int]:
    """The uuids that changed after this number, and the number of their last change."""
    watermark = zone.store.read(identity.low_watermark)

    def fn(tx: Transaction) -> tuple[list[str], int]:
        window = feed.next_window(tx, PARENT, seq, watermark)
        return (feed.next_uuids(tx, PARENT, window, 10), window.until) if window is not None else ([], seq)

    return zone.store.read(fn)


def test_a_parent_is_told_while_a_transaction_of_another_database_is_open(tmp_path: Path) -> None:
    zone, other = a_zone(tmp_path / "one"), a_zone(tmp_path / "two")
    uuid = put_built(zone, 0)

    with another_writer(other) as elsewhere:
        identity.next_change(elsewhere)
        zone.store.write(lambda tx: activate(zone, tx, uuid))
        told, _ = told_after(zone, 0)

    assert told == [uuid]


def test_a_parent_is_told_every_change_whichever_ends_first(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    first, second = put_built(zone, 0), put_built(zone, 1)
    read, last = told_after(zone, 0)

    with another_writer(zone) as earlier:
        activate(zone, earlier, first)
        zone.store.write(lambda tx: activate(zone, tx, second))
        meanwhile, _ = told_after(zone, last)
    told, _ = told_after(zone, last)

    assert (len(read), meanwhile) == (2, [])
    assert told == sorted([first, second])


def test_numbers_go_on_from_those_that_another_server_gave(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    ahead = zone.store.read(identity.last_change) + 10**9
    sql(zone, "UPDATE hosts SET changed_seq = :ahead", ahead=ahead)

    again = a_zone(tmp_path)
    last = again.store.read(identity.last_change)
    again.store.write(lambda tx: claim(tx, host_id))

    assert last >= ahead
    changes = again.store.read(lambda tx: hosts.changes(tx, hosts.Watermark(last, removals=0)))
    assert list(changes.uses.ids) == [host_id]


def test_a_start_that_no_row_is_ahead_of_raises_no_number(tmp_path: Path) -> None:
    counter = "SELECT value FROM counters WHERE name = 'changes'"
    for _ in range(3):
        add_hosts(a_zone(tmp_path), a_form("h1"))

    assert ask(tmp_path / "zone.sqlite", counter) == [(0,)]


def test_who_leaves_a_groups_place_waits_for_who_comes(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    group = ServerGroup("group-1", GroupPolicy.AFFINITY, 0)
    put_reservation(zone, num_instances=2)
    old, new = (put_instance(zone, group_id="group-1") for _ in range(2))
    place = put_place(zone, old, ClaimedHost(host_id, RESOURCES))
    zone.store.write(lambda tx: group_places.take(tx, zone.uuid, "group-1", LocalPlace(host_id)))

    def leave(tx: Transaction) -> bool:
        locks.instances(impatient(tx), [old])
        return placements.move(tx, identity.next_change(tx), place, PlacementState.RELEASED)

    with another_writer(zone) as coming:
        assert group_policy.refused(coming, zone.uuid, group, {new: LocalPlace(host_id)}) == {}
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
            zone.store.write(leave)


def test_batches_in_any_order_never_wait_in_a_circle(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    ids = add_hosts(zone, *(a_form(f"h{n}", VCPU=1000) for n in range(20)))

    def batch(seed: int) -> int:
        some = random.Random(seed).sample(ids, 15)

        def fn(tx: Transaction) -> int:
            change = identity.next_change(tx)
            taken = claims.claim(tx, change, dict.fromkeys(some, 1), RESOURCES)
            claims.release(tx, change, [(host_id, RESOURCES) for host_id in reversed(some)])
            return sum(taken.values())

        return zone.store.write(fn)

    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(batch, range(60)))

    assert taken == [15] * 60
    assert {used_on(zone, host_id)["VCPU"] for host_id in ids} == {0}
    found = ask(
        tmp_path / "zone.sqlite",
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
    )
    assert found == [(0,)]


def test_an_instance_is_deleted_once_whoever_reports_of_it_meanwhile(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1"))
    put_reservation(zone)
    uuid = put_instance(zone)
    place = put_place(zone, uuid, ClaimedHost(host_id, RESOURCES))

    def end(_: int) -> bool:
        def fn(tx: Transaction) -> bool:
            locks.instances(tx, [uuid])
            return placements.move(tx, identity.next_change(tx), place, PlacementState.RELEASED)

        return zone.store.write(fn)

    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(end, range(8)))

    assert sorted(ended) == [False] * 7 + [True]
    assert used_on(zone, host_id)["VCPU"] == 0
    assert (instance_of(zone, uuid).attempt, len(places_of(zone, uuid))) == (1, 1)
