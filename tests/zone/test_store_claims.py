"""Claims: no host is ever over-committed, and what is used is what living places take."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.one_zone import (
    a_form,
    a_zone,
    add_hosts,
    put_instance,
    put_place,
    put_reservation,
    sql,
    used_on,
)
from tests.builders.query_plans import record_plans
from zonesched.model.placement import CLAIMING, PlacementState
from zonesched.model.placement_moves import LOCAL_MOVES, IllegalMove, Move
from zonesched.model.views import HostForm, InventoryForm
from zonesched.services.zone import Zone
from zonesched.store import claims, hosts, identity, new_placements, placements
from zonesched.store.placements import AskedChild, ClaimedHost, Placement
from zonesched.store.store import Transaction

State = PlacementState


def claim(zone: Zone, copies: Mapping[str, int], resources: Mapping[str, int]) -> Mapping[str, int]:
    return zone.store.write(lambda tx: claims.claim(tx, identity.next_change(tx), copies, resources))


def release(zone: Zone, host_id: str, resources: Mapping[str, int]) -> None:
    zone.store.write(lambda tx: claims.release(tx, identity.next_change(tx), [(host_id, resources)]))


def a_host(zone: Zone, name: str = "h1", **inventories: InventoryForm) -> str:
    return add_hosts(zone, HostForm(name, "10.0.0.1", "az1", inventories))[0]


def test_a_claim_takes_every_class_or_nothing(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1", VCPU=8, MEMORY_MB=1000))

    first = claim(zone, {host_id: 1}, {"VCPU": 2, "MEMORY_MB": 600})
    second = claim(zone, {host_id: 1}, {"VCPU": 2, "MEMORY_MB": 600})

    assert (first, second) == ({host_id: 1}, {host_id: 0})
    assert used_on(zone, host_id) == {"VCPU": 2, "MEMORY_MB": 600}


def test_a_batch_takes_as_many_copies_as_there_is_room(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    one, two = add_hosts(zone, a_form("h1", VCPU=5), a_form("h2", VCPU=1))

    taken = claim(zone, {one: 4, two: 3}, {"VCPU": 2})

    assert taken == {one: 2, two: 0}
    assert (used_on(zone, one), used_on(zone, two)) == ({"VCPU": 4}, {"VCPU": 0})


def test_a_release_gives_room_again(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1", VCPU=2))
    claim(zone, {host_id: 1}, {"VCPU": 2})

    release(zone, host_id, {"VCPU": 2})

    assert claim(zone, {host_id: 1}, {"VCPU": 2}) == {host_id: 1}


def test_the_capacity_is_what_the_ratio_makes_of_it(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    host_id = a_host(zone, VCPU=InventoryForm(10, reserved=1, allocation_ratio=1.5))

    assert claim(zone, {host_id: 20}, {"VCPU": 1}) == {host_id: 13}


@pytest.mark.parametrize(
    ("form", "amount", "admitted"),
    [
        (InventoryForm(16, min_unit=2), 1, False),
        (InventoryForm(16, min_unit=2), 2, True),
        (InventoryForm(16, max_unit=4), 5, False),
        (InventoryForm(16, max_unit=4), 4, True),
        (InventoryForm(16, step_size=4), 6, False),
        (InventoryForm(16, step_size=4), 8, True),
        (InventoryForm(16), 17, False),
    ],
)
def test_units_are_kept(tmp_path: Path, form: InventoryForm, amount: int, admitted: bool) -> None:
    zone = a_zone(tmp_path)
    host_id = a_host(zone, PGPU=form)

    assert claim(zone, {host_id: 1}, {"PGPU": amount}) == {host_id: int(admitted)}


def test_a_host_with_fewer_slots_than_wanted_takes_copies_of_its_only_unit(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    host_id = a_host(zone, PGPU=InventoryForm(8, min_unit=4, max_unit=4, step_size=4))

    assert claim(zone, {host_id: 3}, {"PGPU": 4}) == {host_id: 2}


def test_a_class_that_a_host_does_not_have_is_never_taken(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1", VCPU=8))

    assert claim(zone, {host_id: 1, "no-such-host": 1}, {"VCPU": 1, "PGPU": 1}) == {
        host_id: 0,
        "no-such-host": 0,
    }
    assert used_on(zone, host_id) == {"VCPU": 0}


def test_a_host_that_shrank_takes_none_until_it_fits(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1", VCPU=8))
    claim(zone, {host_id: 1}, {"VCPU": 6})
    add_hosts(zone, a_form("h1", VCPU=4))

    refused = claim(zone, {host_id: 1}, {"VCPU": 1})
    release(zone, host_id, {"VCPU": 3})

    assert refused == {host_id: 0}
    assert claim(zone, {host_id: 5}, {"VCPU": 1}) == {host_id: 1}


def test_only_hosts_that_took_something_are_read_again(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    one, two = add_hosts(zone, a_form("h1", VCPU=2), a_form("h2", VCPU=1))
    before = hosts.Watermark(zone.store.read(identity.last_change), removals=0)

    claim(zone, {one: 1, two: 1}, {"VCPU": 2})

    changes = zone.store.read(partial(hosts.changes, since=before))
    assert (list(changes.rows), list(changes.uses.ids)) == ([], [one])


def test_many_hosts_are_claimed_at_once(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    ids = add_hosts(zone, *(a_form(f"h{n}", VCPU=n % 3) for n in range(1300)))

    taken = claim(zone, dict.fromkeys(ids, 2), {"VCPU": 1})

    assert taken == {host_id: n % 3 for n, host_id in enumerate(ids)}


def test_claims_of_many_threads_never_exceed_the_capacity(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    ids = add_hosts(zone, *(a_form(f"h{n}", VCPU=10) for n in range(4)))
    taken: Counter[str] = Counter()
    lock = threading.Lock()

    def work() -> None:
        for _ in range(10):
            got = claim(zone, dict.fromkeys(ids, 1), {"VCPU": 1})
            with lock:
                taken.update(got)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert taken == dict.fromkeys(ids, 10)
    assert [used_on(zone, host_id) for host_id in ids] == [{"VCPU": 10}] * 4


def test_a_place_that_is_left_gives_back_once(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1", VCPU=8))
    put_reservation(zone)
    place = _place(zone, host_id, {"VCPU": 2})

    first = move(zone, place, State.GONE)
    second = move(zone, place, State.GONE)

    assert (first, second) == (True, False)
    assert used_on(zone, host_id) == {"VCPU": 0}


def test_a_place_in_a_child_gives_nothing_back_here(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1", VCPU=8))
    put_reservation(zone)
    _place(zone, host_id, {"VCPU": 2})
    below = put_place(zone, put_instance(zone), AskedChild("child-1", ()), state=State.HELD)

    assert move(zone, below, State.GONE)
    assert used_on(zone, host_id) == {"VCPU": 2}


def test_a_confirm_keeps_the_claim(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1", VCPU=8))
    put_reservation(zone)
    place = _place(zone, host_id, {"VCPU": 2})

    def fn(tx: Transaction) -> list[Placement]:
        return placements.move_all(tx, identity.next_change(tx), [place], State.CONFIRMED)

    assert zone.store.write(fn) == [place]
    assert used_on(zone, host_id) == {"VCPU": 2}


def test_an_illegal_move_is_refused_and_gives_nothing_back(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (host_id,) = add_hosts(zone, a_form("h1", VCPU=8))
    put_reservation(zone)
    place = _place(zone, host_id, {"VCPU": 2})

    with pytest.raises(IllegalMove, match="from held to released"):
        move(zone, place, State.RELEASED)

    assert _reread(zone, place).state is State.HELD
    assert used_on(zone, host_id) == {"VCPU": 2}


def move(zone: Zone, place: Placement, to: PlacementState) -> bool:
    return zone.store.write(lambda tx: placements.move(tx, identity.next_change(tx), place, to))


def _place(zone: Zone, host_id: str, resources: Mapping[str, int]) -> Placement:
    """A held place with its claim."""
    uuid = put_instance(zone)
    place = Placement(uuid, 1, zone.uuid, "r", ClaimedHost(host_id, resources), State.HELD, "", 0.0, 0.0)

    def fn(tx: sa.Connection) -> None:
        assert claims.claim(tx, identity.next_change(tx), {host_id: 1}, resources)[host_id] == 1
        new_placements.insert(tx, [place])

    zone.store.write(fn)
    return place


# -- any sequence ------------------------------------------------------------------------------------------


@dataclass
class Plain:
    """The same claims by the plainest arithmetic."""

    capacity: list[dict[str, int]]
    used: list[Counter[str]] = field(default_factory=list)

    def room(self, host: int, resources: Mapping[str, int]) -> int:
        free = [
            max(0, self.capacity[host].get(name, 0) - self.used[host][name]) // amount
            for name, amount in resources.items()
        ]
        return min(free)


amounts = st.dictionaries(st.sampled_from(["VCPU", "MEMORY_MB", "PGPU"]), st.integers(1, 5), min_size=1)
hosts_of_any_size = st.lists(
    st.dictionaries(st.sampled_from(["VCPU", "MEMORY_MB", "PGPU"]), st.integers(0, 12)),
    min_size=1,
    max_size=4,
)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("claim"), amounts, st.dictionaries(st.integers(0, 3), st.integers(0, 4), max_size=4)
        ),
        st.tuples(st.just("move"), st.integers(0, 30), st.sampled_from(list(State))),
        st.tuples(
            st.just("resize"), st.integers(0, 3), st.tuples(st.sampled_from(["VCPU"]), st.integers(0, 12))
        ),
    ),
    max_size=25,
)


@pytest.fixture(scope="module")
def shared_zone(tmp_path_factory: pytest.TempPathFactory) -> Zone:
    """A zone in which each example makes hosts of its own."""
    zone = a_zone(tmp_path_factory.mktemp("claims"))
    put_reservation(zone)
    return zone


@pytest.mark.slow
@settings(max_examples=60)
@given(totals=hosts_of_any_size, work=steps)
def test_no_sequence_of_claims_moves_and_reports_over_commits(
    shared_zone: Zone, totals: list[dict[str, int]], work: list[tuple[Any, ...]]
) -> None:
    zone = shared_zone
    names = [zone.clock.new_uuid() for _ in totals]
    ids = add_hosts(zone, *(_sized(name, total) for name, total in zip(names, totals, strict=True)))
    plain = Plain([dict(total) for total in totals], [Counter() for _ in totals])
    live: list[tuple[int, Placement]] = []
    for step in work:
        match step:
            case ("claim", resources, wanted):
                _claim_both(zone, ids, plain, resources, wanted, live)
            case ("move", which, to) if live:
                _move_both(zone, plain, live, which % len(live), to)
            case ("resize", host, (name, total)) if host < len(ids) and name in totals[host]:
                plain.capacity[host][name] = total
                add_hosts(zone, _sized(names[host], plain.capacity[host]))
        _check_used(zone, ids, plain, live)


def _sized(name: str, totals: Mapping[str, int]) -> HostForm:
    return HostForm(name, "10.0.0.1", "az1", {c: InventoryForm(total) for c, total in totals.items()})


def _claim_both(
    zone: Zone,
    ids: list[str],
    plain: Plain,
    resources: Mapping[str, int],
    wanted: Mapping[int, int],
    live: list[tuple[int, Placement]],
) -> None:
    copies = {host: count for host, count in wanted.items() if host < len(ids)}
    before = [Counter(used) for used in plain.used]
    expected = {host: min(count, plain.room(host, resources)) for host, count in copies.items()}

    taken = claim(zone, {ids[host]: count for host, count in copies.items()}, resources)

    assert taken == {ids[host]: count for host, count in expected.items()}
    for host, count in expected.items():
        live += [(host, place) for place in _insert_held(zone, ids[host], resources, count)]
        plain.used[host].update({name: amount * count for name, amount in resources.items()})
        # What a claim adds always fits, also where the host had shrunk before.
        for name, amount in plain.used[host].items():
            assert amount == before[host][name] or amount <= plain.capacity[host][name]


def _insert_held(zone: Zone, host_id: str, resources: Mapping[str, int], count: int) -> list[Placement]:
    held = [
        Placement(
            put_instance(zone), 1, zone.uuid, "r", ClaimedHost(host_id, resources), State.HELD, "", 0.0, 0.0
        )
        for _ in range(count)
    ]
    zone.store.write(lambda tx: new_placements.insert(tx, held))
    return held


def _move_both(
    zone: Zone, plain: Plain, live: list[tuple[int, Placement]], which: int, to: PlacementState
) -> None:
    host, place = live[which]
    if Move(place.state, to) not in LOCAL_MOVES:
        with pytest.raises(IllegalMove):
            move(zone, place, to)
        return
    assert move(zone, place, to)
    assert isinstance(place.where, ClaimedHost)
    if place.state in CLAIMING and to not in CLAIMING:
        plain.used[host].subtract(place.where.resources)
    live[which] = (host, _reread(zone, place))


def _reread(zone: Zone, place: Placement) -> Placement:
    (found,) = zone.store.read(lambda tx: placements.read_by_uuid(tx, [place.uuid]))
    return found


def _check_used(zone: Zone, ids: list[str], plain: Plain, live: list[tuple[int, Placement]]) -> None:
    rows = sql(zone, "select host_id, resource_class, used from inventories")
    stored = {(row.host_id, row.resource_class): row.used for row in rows if row.used and row.host_id in ids}
    summed: Counter[tuple[str, str]] = Counter()
    for host, place in live:
        if place.state in CLAIMING and isinstance(place.where, ClaimedHost):
            summed.update({(ids[host], name): amount for name, amount in place.where.resources.items()})
    assert stored == {key: amount for key, amount in summed.items() if amount}
    assert stored == {
        (ids[host], name): amount
        for host, used in enumerate(plain.used)
        for name, amount in used.items()
        if amount
    }


@pytest.mark.postgresql
def test_a_claim_on_many_hosts_takes_no_product_of_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL expects one row of such a condition, and would join all hosts to each inventory."""
    zone = a_zone(tmp_path)
    host_ids = add_hosts(zone, *[a_form(f"h{number}", VCPU=8, MEMORY_MB=1000) for number in range(300)])
    zone.store.write(lambda tx: tx.execute(sa.text("ANALYZE inventories")))
    plans = record_plans(monkeypatch, "UPDATE inventories")

    taken = claim(zone, dict.fromkeys(host_ids[:100], 2), {"VCPU": 2, "MEMORY_MB": 100})

    assert taken == dict.fromkeys(host_ids[:100], 2)
    assert sum("Function Scan" in line for line in plans) == 1
