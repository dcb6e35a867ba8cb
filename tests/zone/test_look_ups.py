"""Transactions of SQLite on connections that stay open between them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
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


def add_name(tx: Transaction, name: str) -> None:
    tx.execute(sa.insert(t.counters).values(name=name, value=0))


def add(store: Store, name: str) -> None:
    store.write(lambda tx: add_name(tx, name))


def test_look_ups_share_a_connection_and_see_each_commit(store: Store) -> None:
    taken: list[object] = []
    sa.event.listen(store.engine, "checkout", lambda *which: taken.append(which))
    assert store.look_up(names) == []
    add(store, "first")
    assert store.look_up(names) == ["first"]
    add(store, "second")
    assert store.look_up(names) == ["first", "second"]

    # one connection for all look-ups and writes; it is not in use any more
    assert len(taken) == 1
    assert store.connections_in_use == 0


def test_a_connection_stays_open_after_a_refusal_and_has_nothing_of_it(store: Store) -> None:
    pool = store.engine.pool
    assert isinstance(pool, sa.QueuePool)

    def fail(tx: Transaction) -> None:
        raise LookupError

    def fail_half_way(tx: Transaction) -> None:
        add_name(tx, "half")
        raise LookupError

    for transaction, fn in ((store.look_up, fail), (store.read, fail_half_way), (store.write, fail_half_way)):
        with pytest.raises(LookupError):
            transaction(fn)
        assert (pool.checkedout(), store.connections_in_use) == (1, 0)
        assert store.read(names) == []
    add(store, "first")
    assert store.read(names) == ["first"]


def test_a_connection_whose_driver_has_failed_is_given_back(store: Store) -> None:
    pool = store.engine.pool
    assert isinstance(pool, sa.QueuePool)
    for transaction in (store.look_up, store.read, store.write):
        with pytest.raises(sa.exc.OperationalError):
            transaction(lambda tx: tx.execute(sa.text("no statement")))
        assert pool.checkedout() == 0


@pytest.mark.parametrize("is_prepared", [True, False])
def test_a_read_ends_its_snapshot(store: Store, is_prepared: bool) -> None:
    """Also where SQLAlchemy has begun a transaction of its own."""
    ask = names if is_prepared else lambda tx: list(tx.scalars(sa.select(t.counters.c.name)))
    for transaction in (store.look_up, store.read):
        before = transaction(ask)
        with closing(sqlite3.connect(str(store.engine.url.database))) as other, other:
            other.execute("INSERT INTO counters (name, value) VALUES (?, 0)", [f"{len(before)}"])
        assert len(transaction(ask)) == len(before) + 1
    add(store, "own")
    assert "own" in store.look_up(names)


def test_what_a_read_writes_is_not_kept(store: Store) -> None:
    store.read(lambda tx: add_name(tx, "by a read"))
    add(store, "first")
    assert store.read(names) == ["first"]


def test_look_ups_within_each_other_have_connections_of_their_own(store: Store) -> None:
    add(store, "first")
    assert store.look_up(lambda tx: (store.look_up(names), names(tx))) == (["first"], ["first"])
    assert store.connections_in_use == 0
    store.close()
    pool = store.engine.pool
    assert isinstance(pool, sa.QueuePool)
    assert pool.checkedout() == 0
