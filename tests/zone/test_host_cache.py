"""The hosts in memory follow the store: what changed, what was missed, who lives."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.builders.clock import FakeClock, clock_of
from tests.builders.host_tables import table_is_as_stored
from tests.builders.one_zone import AGENT, a_form, a_zone, add_hosts, beat, boot_on, sql
from tests.builders.real_processes import eventually
from zonesched.model.host_row import HostRow
from zonesched.model.placement import InstanceStatus
from zonesched.model.views import ServiceChange
from zonesched.services.hosts import evacuation, services
from zonesched.services.hosts.hosts import desired as fetch
from zonesched.services.placing import build_timeouts
from zonesched.services.state import host_cache
from zonesched.services.state.host_cache import HostCache
from zonesched.services.state.listening import Listening
from zonesched.services.state.sql_hosts import SqlHosts
from zonesched.services.zone import Zone
from zonesched.store import hosts
from zonesched.store.hosts import Changes
from zonesched.store.store import Store


class CountingStore(Store):
    """A store that counts the rows of hosts that are read."""

    host_rows = 0

    def read(self, fn: Any) -> Any:
        def counted(tx: sa.Connection) -> Any:
            found = fn(tx)
            pages = [found] if isinstance(found, list) else []
            if isinstance(found, tuple) and isinstance(found[0], Changes):
                pages = [[*found[0].rows, *found[0].uses.ids]]
            self.host_rows += sum(len(page) for page in pages)
            return found

        return super().read(counted)


def free(view: HostCache | SqlHosts, host_id: str) -> float:
    with view.current() as table:
        row = table.row_of(host_id)
        return float(table.capacity("VCPU")[row] - table.used("VCPU")[row])


def is_up(view: HostCache | SqlHosts, host_id: str) -> bool:
    with view.current() as table:
        return bool(table.up[table.row_of(host_id)])


def test_a_new_view_has_all_hosts(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    ids = add_hosts(zone, *(a_form(f"h{n}") for n in range(5)))

    with zone.hosts.current() as table:
        assert len(table) == 5
        assert all(free_of(table, host_id) == 8 for host_id in ids)


def free_of(table: Any, host_id: str) -> float:
    row = table.row_of(host_id)
    return float(table.capacity("VCPU")[row] - table.used("VCPU")[row])


def test_claims_and_new_hosts_are_seen_at_the_next_use(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (one,) = add_hosts(zone, a_form("h1"))
    before = free(zone.hosts, one)

    boot_on(zone, one, {"VCPU": 3})
    (two,) = add_hosts(zone, a_form("h2", VCPU=2))

    assert before == 8
    assert (free(zone.hosts, one), free(zone.hosts, two)) == (5, 2)


def test_owners_are_counted(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (one,) = add_hosts(zone, a_form("h1"))
    boot_on(zone, one)

    with zone.hosts.current() as table:
        assert table.owners.count(table.row_of(one), f"{zone.uuid}:project-1") == 1


def building(zone: Zone, host_id: str) -> int:
    with zone.hosts.current() as table:
        return int(table.num_building[table.row_of(host_id)])


def test_what_an_evacuated_host_was_to_build_is_built_there_no_more(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    (one,) = add_hosts(zone, a_form("h1"))
    boot_on(zone, one, status=InstanceStatus.BUILD)
    services.change(zone, one, ServiceChange(forced_down=True))
    before = building(zone, one)

    evacuation.evacuate_host(zone, "admin-1", one, fenced=True)

    # Nor what is built elsewhere now.
    assert (before, building(zone, one)) == (1, 0)
    table_is_as_stored(zone)


def test_a_build_that_has_timed_out_is_built_no_more(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, instance_build_timeout=100.0)
    (one,) = add_hosts(zone, a_form("h1"))
    boot_on(zone, one, status=InstanceStatus.BUILD)
    fetch(zone.store, zone.heartbeats, AGENT, "agent")
    before = building(zone, one)

    clock_of(zone).advance(zone.conf.instance_build_timeout + zone.conf.service_down_time)
    build_timeouts.end_lost_builds(zone)

    assert (before, building(zone, one)) == (1, 0)
    table_is_as_stored(zone)


# On PostgreSQL more is read again as long as anybody writes in another of the server's databases.
@pytest.mark.sqlite
def test_only_what_changed_is_read(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    ids = add_hosts(zone, *(a_form(f"h{n}") for n in range(50)))
    store = CountingStore.open(str(zone.store.engine.url))
    view = HostCache(store, zone.clock, Listening(zone.clock, 60.0))
    free(view, ids[0])
    boot_on(zone, ids[7])
    store.host_rows = 0

    assert free(view, ids[7]) == 7
    assert store.host_rows == 1


def test_an_agent_that_falls_silent_is_down_and_comes_back(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, service_down_time=60.0)
    (one,) = add_hosts(zone, a_form("h1"))
    (two,) = add_hosts(zone, a_form("h2"), service="other")
    fresh = is_up(zone.hosts, one)

    clock_of(zone).advance(40)
    beat(zone, "other")
    clock_of(zone).advance(30)
    silent = (is_up(zone.hosts, one), is_up(zone.hosts, two))
    beat(zone)

    assert fresh
    assert silent == (False, True)
    assert is_up(zone.hosts, one)


def test_a_beat_written_with_an_earlier_time_by_another_process_counts(tmp_path: Path) -> None:
    zone = a_zone(tmp_path, service_down_time=60.0)
    (one,) = add_hosts(zone, a_form("h1"))
    add_hosts(zone, a_form("h2"), service="other")
    clock_of(zone).advance(61)
    beat(zone, "other")
    assert not is_up(zone.hosts, one)

    late = zone.clock.now() - host_cache.BEAT_OVERLAP_S
    sql(zone, "update services set last_seen_at = :late where name = 'agent'", late=late)

    assert is_up(zone.hosts, one)


def test_a_clock_that_is_set_back_hides_no_beat(tmp_path: Path) -> None:
    clock = FakeClock()
    zone = a_zone(tmp_path, clock, service_down_time=60.0)
    (one,) = add_hosts(zone, a_form("h1"))
    (two,) = add_hosts(zone, a_form("h2"), service="other")
    (dead,) = add_hosts(zone, a_form("h3"), service="dead")
    assert is_up(zone.hosts, one)

    clock.set_to(clock.now() - 3600)
    beat(zone)
    clock.advance(61)
    beat(zone, "other")

    assert (is_up(zone.hosts, one), is_up(zone.hosts, two)) == (False, True)
    assert not is_up(zone.hosts, dead)


# On PostgreSQL it may not be missed, as long as anybody writes in another of the server's databases.
@pytest.mark.sqlite
@pytest.mark.parametrize("turn", [2, 1000])
@pytest.mark.parametrize("uses", [2, 12])
def test_a_change_that_was_missed_is_repaired_within_ten_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn: int, uses: int
) -> None:
    monkeypatch.setattr(host_cache, "TURN", turn)
    zone = a_zone(tmp_path, service_down_time=1e6)
    ids = add_hosts(zone, *(a_form(f"h{n}") for n in range(7)))
    free(zone.hosts, ids[0])
    sql(zone, "update inventories set used = 4 where resource_class = 'VCPU'")
    stale = [free(zone.hosts, host_id) for host_id in ids]

    for _ in range(uses):
        clock_of(zone).advance(host_cache.REREAD_S / uses)
        free(zone.hosts, ids[0])
    clock_of(zone).advance(host_cache.REREAD_S / uses)

    assert stale == [8] * 7
    assert [free(zone.hosts, host_id) for host_id in ids] == [4] * 7


@pytest.mark.parametrize("page", [2, 3, 1000])
def test_a_host_that_is_no_more_goes_and_the_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(host_cache, "PAGE", page)
    monkeypatch.setattr(host_cache, "TURN", page)
    zone = a_zone(tmp_path)
    ids = sorted(add_hosts(zone, *(a_form(f"h{n}") for n in range(6))))
    free(zone.hosts, ids[0])

    sql(zone, "delete from hosts where id in (:a, :b)", a=ids[0], b=ids[5])
    for _ in range(6):
        clock_of(zone).advance(host_cache.REREAD_S)
        free(zone.hosts, ids[1])

    with zone.hosts.current() as table:
        assert sorted(table.host_id(table.row_of(i)) for i in ids[1:5]) == ids[1:5]
        assert len(table) == 4


def test_hosts_are_read_again_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_cache, "TURN", 2)
    zone = a_zone(tmp_path, service_down_time=1e6)
    ids = add_hosts(zone, *(a_form(f"h{n}") for n in range(7)))
    sizes, page = [], hosts.page
    free(zone.hosts, ids[0])

    def noted(tx: Any, after_id: str, limit: int) -> list[HostRow]:
        found = page(tx, after_id, limit)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(hosts, "page", noted)
    for _ in range(8):
        clock_of(zone).advance(host_cache.REREAD_S / 8)
        free(zone.hosts, ids[0])

    assert sizes == [2, 2, 2, 1]


def test_a_view_that_failed_to_read_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_cache, "PAGE", 2)
    zone = a_zone(tmp_path)
    ids = add_hosts(zone, *(a_form(f"h{n}") for n in range(5)))
    store = FailingStore.open(str(zone.store.engine.url))
    store.fail_at = 3
    view = HostCache(store, zone.clock, Listening(zone.clock, 60.0))
    with pytest.raises(RuntimeError), view.current():
        pass

    boot_on(zone, min(ids))

    assert free(view, min(ids)) == 7
    assert free(view, max(ids)) == 8


def test_a_host_that_went_after_a_read_that_failed_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a first read that has failed after two of five hosts
    monkeypatch.setattr(host_cache, "PAGE", 2)
    zone = a_zone(tmp_path)
    ids = sorted(add_hosts(zone, *(a_form(f"h{n}") for n in range(5))))
    store = FailingStore.open(str(zone.store.engine.url))
    store.fail_at = 3
    view = HostCache(store, zone.clock, Listening(zone.clock, 60.0))
    with pytest.raises(RuntimeError), view.current():
        pass
    # when one of them goes before the next read
    sql(zone, "delete from hosts where id = :a", a=ids[0])
    # then
    with view.current() as table:
        assert list(table.ids_between("", "")) == ids[1:]


class FailingStore(Store):
    """A store whose n-th read fails."""

    fail_at = 0
    reads = 0

    def read(self, fn: Any) -> Any:
        self.reads += 1
        if self.reads == self.fail_at:
            raise RuntimeError("the database is away")
        return super().read(fn)


def test_an_empty_zone_has_an_empty_table(tmp_path: Path) -> None:
    zone: Zone = a_zone(tmp_path)

    with zone.hosts.current() as table:
        assert len(table) == 0


class CountedLock:
    """A lock that knows how many have come to it."""

    def __init__(self) -> None:
        self.came = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self.came += 1
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_who_waits_is_spared_a_read_that_another_one_began_meanwhile(tmp_path: Path) -> None:
    # given a table in use
    cache = a_zone(tmp_path).hosts
    assert isinstance(cache, HostCache)
    read, lock = cache._read, CountedLock()
    cache._lock = lock  # type: ignore[assignment]
    reads: list[int] = []
    cache._read = lambda: (reads.append(1), read())[1]  # type: ignore[method-assign]

    def use() -> None:
        with cache.current():
            pass

    with cache.current():
        # when three others wait for it
        users = [threading.Thread(target=use) for _ in range(3)]
        for user in users:
            user.start()
        eventually("all wait", lambda: lock.came == 4)
    for user in users:
        user.join()
    # then one of them has read for all, after the first one's own read
    assert len(reads) == 2
    # and who comes later reads again
    use()
    assert len(reads) == 3
