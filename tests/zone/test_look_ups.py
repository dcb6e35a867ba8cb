"""Look-ups: reads of one statement, on connections that stay open between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from zonesched.store import tables as t
from zonesched.store.prepared import Prepared
from zonesched.store.store import Store, Transaction

NAMES = Prepared(sa.select(t.counters.c.name).order_by(t.counters.c.name))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(f"sqlite:///{tmp_path / 'zone.sqlite'}")
    t.counters.create(store.engine)
    yield store
    store.close()


def names(tx: Transaction) -> list[str]:
    return [row.name for row in NAMES.all(tx)]


def add(store: Store, name: str) -> None:
    store.write(lambda tx: tx.execute(sa.insert(t.counters).values(name=name, value=0)))


def test_look_ups_share_a_connection_and_see_each_commit(store: Store) -> None:
    taken: list[object] = []
    sa.event.listen(store.engine, "checkout", lambda *which: taken.append(which))
    assert store.look_up(names) == []
    add(store, "first")
    assert store.look_up(names) == ["first"]
    add(store, "second")
    assert store.look_up(names) == ["first", "second"]

    # one connection for all look-ups, one for each write; none is in use any more
    assert len(taken) == 3
    assert store.connections_in_use == 0


def test_a_connection_that_met_an_error_or_is_within_a_transaction_is_given_back(store: Store) -> None:
    def fail(tx: Transaction) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        store.look_up(fail)
    pool = store.engine.pool
    assert isinstance(pool, sa.QueuePool)
    assert pool.checkedout() == 0
    store.look_up(lambda tx: tx.execute(sa.select(t.counters.c.name)).all())
    assert pool.checkedout() == 0


def test_look_ups_within_each_other_have_connections_of_their_own(store: Store) -> None:
    add(store, "first")
    assert store.look_up(lambda tx: (store.look_up(names), names(tx))) == (["first"], ["first"])
    assert store.connections_in_use == 0
    store.close()
    pool = store.engine.pool
    assert isinstance(pool, sa.QueuePool)
    assert pool.checkedout() == 0
