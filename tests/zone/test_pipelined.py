"""Transactions on PostgreSQL: what is sent ahead, and connections that the server has ended."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from psycopg.sql import SQL, Identifier, Literal
from sqlalchemy.exc import DBAPIError, IntegrityError

from tests.builders.migrated import a_database
from tests.builders.postgresql import databases
from tests.builders.stores import open_store
from zonesched.store import postgresql
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, one_of, run_text
from zonesched.store.store import Store, StoreError, Transaction

pytestmark = pytest.mark.postgresql

_INSERT = Prepared(sa.insert(t.epochs))
_IDS = Prepared(sa.select(t.epochs.c.id).order_by(t.epochs.c.after))
_NAMED = Prepared(sa.select(t.epochs.c.after).where(one_of(t.epochs.c.id, "ids")))
_END_OWN = Prepared(sa.select(sa.func.pg_terminate_backend(sa.func.pg_backend_pid()).label("ended")))
FIRST, SECOND, THIRD = ({"after": number, "id": f"{number}"} for number in (1, 2, 3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "zone.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    store = open_store(a_database(path))
    yield store
    store.close()


def ids(store: Store) -> list[str]:
    return [row.id for row in store.read(_IDS.all)]


def idle_connections(store: Store) -> None:
    """Fill the pool with connections that nobody uses."""
    connections = [store.engine.connect() for _ in range(4)]
    for connection in connections:
        connection.close()


def test_what_is_sent_is_there_for_the_next_statement_and_after_the_commit(store: Store) -> None:
    def fn(tx: Transaction) -> list[str]:
        _INSERT.send_many(tx, [FIRST, SECOND])
        sent = _IDS.send(tx)
        _INSERT.send(tx, **THIRD)
        return [row.id for row in sent.all()]

    assert store.write(fn) == ["1", "2"]
    assert ids(store) == ["1", "2", "3"]


def test_a_statement_that_was_sent_and_fails_ends_its_transaction(store: Store) -> None:
    runs = 0

    def fn(tx: Transaction) -> None:
        nonlocal runs
        runs += 1
        _INSERT.send(tx, **FIRST)
        _INSERT.send(tx, **FIRST)
        _INSERT.send(tx, **SECOND)

    with pytest.raises(IntegrityError):
        store.write(fn)
    # It may have met another transaction.
    assert runs > 1
    assert ids(store) == []


def test_an_error_of_the_caller_undoes_what_was_sent(store: Store) -> None:
    def fn(tx: Transaction) -> None:
        _INSERT.send(tx, **FIRST)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        store.write(fn)
    assert ids(store) == []


def test_a_savepoint_undoes_what_was_sent_after_it(store: Store) -> None:
    def fn(tx: Transaction) -> None:
        _INSERT.send(tx, **FIRST)
        run_text(tx, "SAVEPOINT here")
        _INSERT.send(tx, **SECOND)
        run_text(tx, "ROLLBACK TO here")
        run_text(tx, "RELEASE here")

    store.write(fn)
    assert ids(store) == ["1"]


@pytest.mark.parametrize("use", ["read", "look_up", "write"])
def test_connections_that_the_server_has_ended_are_replaced(store: Store, path: Path, use: str) -> None:
    idle_connections(store)
    databases().end_connections(path)
    assert getattr(store, use)(_IDS.all) == []


@pytest.mark.parametrize(
    ("query", "idle_s", "unanswered_ms"), [("", 10, 25_000), ("keepalives_idle=77", 77, 25_000)]
)
def test_a_server_that_is_gone_without_a_word_is_noticed(
    path: Path, query: str, idle_s: int, unanswered_ms: int
) -> None:
    store = Store.open(sa.make_url(a_database(path)).update_query_string(query).render_as_string(False))
    with store.engine.connect() as tx, socket.socket(fileno=os.dup(tx.connection.fileno())) as known:
        if known.family == socket.AF_UNIX:
            pytest.skip("the server is on this machine alone")
        found = [
            known.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_USER_TIMEOUT)
        ]
    store.close()
    assert found == [idle_s, unanswered_ms]


@pytest.mark.parametrize(("query", "limit_s"), [("", "10"), ("connect_timeout=77", "77")])
def test_a_machine_that_answers_no_connection_is_noticed(path: Path, query: str, limit_s: str) -> None:
    store = Store.open(sa.make_url(a_database(path)).update_query_string(query).render_as_string(False))
    with store.engine.connect() as tx:
        connection: Any = tx.connection.dbapi_connection
        found = connection.info.get_parameters()
    store.close()

    assert found["connect_timeout"] == limit_s


def test_a_server_that_does_not_tell_how_far_its_log_is_written_is_known_and_used(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "_WRITTEN", "SELECT is_not_there()")
    store.engine.dispose()
    with store.engine.connect() as tx:
        connection: Any = tx.connection.dbapi_connection

    assert not connection.tells_log
    assert ids(store) == []


def set_read_only(path: Path, *, to: bool) -> None:
    """Let connections that are opened from now on take no writes, or take them again."""
    connection = databases().connection(path)
    name = Identifier(connection.info.dbname)
    value = Literal("on" if to else "off")
    connection.execute(SQL("ALTER DATABASE {} SET default_transaction_read_only = {}").format(name, value))


def test_a_database_that_was_read_only_for_a_while_is_written_again(store: Store, path: Path) -> None:
    set_read_only(path, to=True)
    idle_connections(store)
    with pytest.raises(StoreError, match="read-only"):
        store.write(lambda tx: _INSERT.run(tx, **FIRST))
    with pytest.raises(StoreError, match="read-only"):
        store.write(lambda tx: _INSERT.send(tx, **FIRST))
    assert ids(store) == []

    set_read_only(path, to=False)
    store.write(lambda tx: _INSERT.send(tx, **FIRST))
    assert ids(store) == ["1"]


def test_a_connection_that_is_lost_before_the_commit_runs_the_transaction_again(
    store: Store, path: Path
) -> None:
    runs = 0

    def fn(tx: Transaction) -> None:
        nonlocal runs
        runs += 1
        _INSERT.run(tx, **FIRST)
        if runs == 1:
            databases().end_connections(path)
        _IDS.all(tx)

    store.write(fn)
    assert (runs, ids(store)) == (2, ["1"])


def test_a_connection_is_lost_once_its_server_says_that_it_ends_it(
    store: Store, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # given a session that needs long to end: somebody holds a table that goes with it
    other = databases().connection(path)
    with store.engine.connect() as tx:
        tx.exec_driver_sql("CREATE TEMPORARY TABLE kept ()")
        ((schema,),) = tx.exec_driver_sql("SELECT pg_my_temp_schema()::regnamespace::text").all()
    runs = 0

    def fn(tx: Transaction) -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            _END_OWN.send(tx)
            select.select([tx.connection.fileno()], [], [], 10.0)
        _INSERT.send(tx, **FIRST)

    # when its last words arrive, and its end does not
    with other.transaction():
        other.execute(SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(Identifier(schema, "kept")))
        store.write(fn)
    # then
    assert (runs, ids(store), caplog.text) == (2, ["1"], "")


def test_a_commit_whose_answer_is_lost_is_not_repeated(store: Store, path: Path) -> None:
    runs = 0

    def fn(tx: Transaction) -> None:
        nonlocal runs
        runs += 1
        _INSERT.run(tx, **FIRST)
        databases().end_connections(path)

    with pytest.raises(StoreError):
        store.write(fn)
    assert runs == 1


def test_a_server_that_ends_each_connection_is_an_error(store: Store, path: Path) -> None:
    def fn(tx: Transaction) -> Any:
        _IDS.all(tx)
        databases().end_connections(path)
        return _IDS.all(tx)

    with pytest.raises(DBAPIError):
        store.read(fn)


@pytest.mark.parametrize("text", ["plain", "", 'a"b', "a\\b", "{a,b}", "NULL", " ", "line\nend\t\x01", "Zoë"])
def test_a_list_reaches_the_server_as_it_is(store: Store, text: str) -> None:
    store.write(lambda tx: _INSERT.run(tx, after=1, id=text))
    assert store.read(lambda tx: _NAMED.all(tx, ids=["other", text, "more"])) == [(1,)]
