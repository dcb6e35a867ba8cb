"""Reads that lock rows on PostgreSQL: who decides by such a row finds what the one before has written."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
import sqlalchemy as sa

from tests.builders.migrated import ask
from tests.builders.one_zone import AGENT, a_form, a_zone, add_hosts
from tests.builders.real_processes import eventually
from zonesched.errors import Conflict
from zonesched.services.zone import Zone
from zonesched.store import fencing_promises, idle_holds, services
from zonesched.store.fencing_promises import Promise
from zonesched.store.services import Owned, Service
from zonesched.store.silent_agents import Silence
from zonesched.store.store import Transaction

pytestmark = pytest.mark.postgresql

T = TypeVar("T")
PARENT = "parent-user"
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


def after(
    tmp_path: Path, zone: Zone, first: Callable[[Transaction], object], fn: Callable[[Transaction], T]
) -> Future[T]:
    """Run `fn` while a transaction is open that has done the first thing, and for which it waits."""
    with ThreadPoolExecutor(1) as pool, zone.store._write_transaction() as earlier:
        first(earlier)
        later = pool.submit(zone.store.write, fn)
        eventually("it waits", lambda: ask(tmp_path / "zone.sqlite", WAITING) == [(1,)])
        # It goes on when the first one ends.
        return later


def an_agent(zone: Zone) -> Service:
    add_hosts(zone, a_form("h1"))
    [agent] = [s for s in zone.store.read(services.read_all).values() if s.user_id == AGENT.user_id]
    return agent


def registered(agent: Service) -> Callable[[Transaction], Service]:
    """Register an agent that has read how often its service was registered."""
    return lambda tx: services.register(tx, agent, agent.registrations, Silence(lambda *_: 0.0, 60.0))


def test_what_two_transactions_charge_one_parent_is_added_up(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)

    def charge(tx: Transaction) -> None:
        idle_holds.add(tx, PARENT, 1.0, now=0.0, rate=0.0)

    zone.store.write(charge)
    after(tmp_path, zone, charge, charge).result()

    assert zone.store.read(lambda tx: idle_holds.read(tx, PARENT, 0.0, 0.0)) == 3.0


def test_of_two_agents_that_have_read_the_same_number_one_is_registered(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    agent = an_agent(zone)

    later = after(tmp_path, zone, registered(agent), registered(agent))

    with pytest.raises(Conflict, match="was registered since"):
        later.result()


def test_a_service_is_registered_after_what_its_earlier_agent_is_saying(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    agent = an_agent(zone)
    owned: Owned = zone.store.read(lambda tx: services.of_user(tx, agent.name, AGENT.user_id))

    def register(tx: Transaction) -> None:
        tx.execute(sa.text("SET LOCAL lock_timeout = '500ms'"))
        registered(agent)(tx)

    with zone.store._write_transaction() as earlier:
        services.keep(earlier, owned)
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
            zone.store.write(register)


def test_an_agent_renews_no_promise_by_which_somebody_decides(tmp_path: Path) -> None:
    zone = a_zone(tmp_path)
    promise = Promise(an_agent(zone).id, 10.0, "first")
    zone.store.write(lambda tx: fencing_promises.renew(tx, promise))

    def renew(tx: Transaction) -> None:
        tx.execute(sa.text("SET LOCAL lock_timeout = '500ms'"))
        fencing_promises.renew(tx, promise)

    with zone.store._write_transaction() as earlier:
        assert fencing_promises.lock(earlier, promise.service_id) == promise
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
            zone.store.write(renew)
