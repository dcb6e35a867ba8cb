"""The store session, one of the four seams: every read and write of rows goes through `read` or `write`."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError

from zonesched import turns
from zonesched.conf.private_files import refuse_if_shared
from zonesched.conf.writable_files import check_file, check_folder
from zonesched.errors import ConfigError, DatabaseFull
from zonesched.remote_services import DATABASE_URLS, with_checked_names
from zonesched.store import outcomes
from zonesched.store.group_commit import GroupCommit
from zonesched.store.kept_connection import KeptConnection
from zonesched.store.met_servers import MetServers
from zonesched.store.outcomes import Outcome
from zonesched.store.prepared import run_text

T = TypeVar("T")
Transaction = Connection
"""The open transaction that a function given to `read` or `write` gets."""

StoreError = DBAPIError
"""Exceptions of `read` and `write` when the database itself fails."""

log = logging.getLogger(__name__)

BUSY_TIMEOUT_MS = 30_000
CACHE_KB = 16 * 1024
"""SQLite's cache per connection in use: it holds the pages that a boot of a thousand instances changes."""

CHECKPOINT_PAGES = 4_000
"""Pages of SQLite's log per checkpoint: many boots change the same pages, which are copied once."""

STATEMENTS = 512
"""Statements that an SQLite connection keeps compiled: a zone runs about 400 different ones."""

FULL_RETRY_S = 30
"""Retry-After of a full disk, which people free."""

RERUNS = 5


class Observer(Protocol):
    """Whoever measures a store, in the threads that use it."""

    def writing(self) -> AbstractContextManager[None]:
        """Surround a write, from its call until it is durable or has failed."""

    def conflicted(self) -> None:
        """Note that a transaction is run again."""

    def committed(self, done: Sequence[Outcome]) -> None:
        """Note the outcomes of one transaction, which are durable."""


class Unobserved:
    """The observer of a store that nobody measures."""

    def writing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def conflicted(self) -> None:
        """Note nothing."""

    def committed(self, done: Sequence[Outcome]) -> None:
        """Note nothing."""


class Store:
    """The rows of one zone.

    Functions given to `read` and `write` take the open transaction and may be run again after a conflict, so
    they do nothing but read and write rows. A write is durable when `write` returns.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.observer: Observer = Unobserved()
        self._is_sqlite = engine.dialect.name == "sqlite"
        # SQLite has one writer at a time: writers queue here, since its own busy back-off is unfair.
        self._group = GroupCommit(self._write_transaction)
        # SQLite's connections outside any transaction, for the next ones.
        self._idle: list[Connection] = []
        self.servers = MetServers()
        if not self._is_sqlite:
            event.listen(engine, "connect", self.servers.note)

    @classmethod
    def open(cls, database_url: str) -> Self:
        """Open the store at an SQLAlchemy URL; SQLite runs in WAL mode with synchronous=FULL.

        Raises ConfigError for an invalid URL or a folder that cannot be made. Does not connect yet.
        """
        return cls(_engine(_accepted_url(database_url)))

    def read(self, fn: Callable[[Connection], T]) -> T:
        """Return the result of `fn` in one consistent snapshot.

        A request keeps its turn: it computes with what it reads, and PostgreSQL computes for it meanwhile.
        """
        if self._is_sqlite:
            return self._read_sqlite(fn)

        def read() -> T:
            with self.engine.connect() as tx, tx.begin(), _noting_loss():
                # SQLite's own transactions are snapshots; PostgreSQL's are only from this level on.
                run_text(tx, "BEGIN ISOLATION LEVEL REPEATABLE READ")
                return fn(tx)

        return self._on_living_connection(read)

    def _read_sqlite(self, fn: Callable[[Connection], T]) -> T:
        with self._kept_connection() as tx:
            run_text(tx, "BEGIN")
            return fn(tx)

    def _kept_connection(self) -> KeptConnection:
        return KeptConnection(self.engine, self._idle)

    def look_up(self, fn: Callable[[Connection], T]) -> T:
        """Return the result of `fn`, which runs one statement: its snapshot needs no transaction."""
        if self._is_sqlite:
            with self._kept_connection() as connection:
                return fn(connection)

        def read() -> T:
            with self.engine.connect() as connection, _noting_loss():
                return fn(connection)

        return self._on_living_connection(read)

    def _on_living_connection(self, run: Callable[[], T]) -> T:
        """Run a transaction; again if it met a connection that was lost before its commit was sent.

        The pool does not ask the server before each transaction whether a connection is still there.
        """
        try:
            return run()
        except _ConnectionLost as lost:
            log.info("a connection to the database was lost: %s", lost.error.orig)
        # The others in the pool were lost with it.
        self.engine.dispose()
        try:
            return run()
        except _ConnectionLost as lost:
            error = lost.error
        # Not in the handler, where it would become the cause of its own context.
        raise error

    def write(self, fn: Callable[[Connection], T]) -> T:
        """Return the result of `fn` once all it wrote is durable; after an exception nothing is written.

        A transaction that conflicted with another one (unique key, deadlock, serialization) is run again, and
        once on a new connection where its own was opened while the server took no writes.
        Raises DatabaseFull, and StoreError where the database fails otherwise.
        """
        # A wait for the disk or for other writers needs no processor.
        with turns.waiting(), self.observer.writing():
            return self._write(fn)

    def _write(self, fn: Callable[[Connection], T]) -> T:
        for _ in range(RERUNS):
            try:
                return self._write_once(fn)
            except IntegrityError as error:
                log.debug("transaction conflicted with another one: %s", error)
                self.observer.conflicted()
            except DBAPIError as error:
                if _is_full(error):
                    log.error("nothing can be written: %s", error.orig)
                    message = "This zone's database is full."
                    raise DatabaseFull(message, FULL_RETRY_S) from error
                if _is_read_only(error):
                    log.info("a connection to the database takes no writes: %s", error.orig)
                    # A connection stays what its server was when it was opened.
                    self.engine.dispose()
                    break
                if not _is_conflict(error):
                    raise
                log.debug("transaction conflicted with another one: %s", error)
                self.observer.conflicted()
        return self._write_once(fn)

    def _write_once(self, fn: Callable[[Connection], T]) -> T:
        if self._is_sqlite:
            return self._group.run(fn)

        def write() -> T:
            with self._write_transaction() as tx, _noting_loss():
                return fn(tx)

        return self._on_living_connection(write)

    @contextmanager
    def _write_transaction(self) -> Iterator[Connection]:
        writing = self._sqlite_to_write() if self._is_sqlite else self._postgresql_to_write()
        with writing as tx, outcomes.kept(tx) as done:
            yield tx
        self.servers.committed(done)
        self.observer.committed(done)

    @contextmanager
    def _sqlite_to_write(self) -> Iterator[Connection]:
        with self._kept_connection() as tx:
            run_text(tx, "BEGIN IMMEDIATE")
            yield tx
            # What SQLAlchemy has begun by itself only its own commit ends. A migration has ended its own.
            if tx.in_transaction():
                tx.commit()
            elif cast(sqlite3.Connection, tx.connection.dbapi_connection).in_transaction:
                run_text(tx, "COMMIT")

    @contextmanager
    def _postgresql_to_write(self) -> Iterator[Connection]:
        with self._connection_to_write() as tx, tx.begin():
            # Not by an event of the engine, which would slow down every later statement as well.
            with _noting_loss():
                run_text(tx, "BEGIN")
            yield tx

    @contextmanager
    def _connection_to_write(self) -> Iterator[Connection]:
        """Give a connection to PostgreSQL, whose server has an epoch before this process changes anything."""
        with self.engine.connect() as tx:
            with _noting_loss():
                self.servers.begin_epoch(tx)
            yield tx

    @property
    def has_clock(self) -> bool:
        """Tell whether the database has a clock of its own; SQLite has that of the machine."""
        return not self._is_sqlite

    @property
    def connections_in_use(self) -> int:
        """The number of connections that threads of this process are using."""
        pool = self.engine.pool
        return max(0, pool.checkedout() - len(self._idle)) if isinstance(pool, sa.QueuePool) else 0

    def close(self) -> None:
        """Close all connections."""
        while self._idle:
            self._idle.pop().close()
        self.engine.dispose()


class _ConnectionLost(Exception):
    """The server ended the connection before the commit was sent: the transaction has changed nothing."""

    def __init__(self, error: DBAPIError) -> None:
        super().__init__()
        self.error = error


@contextmanager
def _noting_loss() -> Iterator[None]:
    """Raise _ConnectionLost where the block, which does not commit, meets a lost connection."""
    try:
        yield
    except DBAPIError as error:
        if error.connection_invalidated:
            raise _ConnectionLost(error) from error
        raise


def check_url(database_url: str) -> None:
    """Raise ConfigError for the URL of a database that cannot hold a zone; does not connect."""
    url = _accepted_url(database_url)
    if url.get_backend_name() == "sqlite":
        path = Path(url.database or "")
        check_folder(path.parent, "database_url")
        check_file(path, "database_url", made=path.parent)
        if path.is_file():
            refuse_if_shared(path, "database_url")


def _accepted_url(database_url: str) -> sa.URL:
    try:
        url = sa.make_url(with_checked_names(database_url))
        if url.get_backend_name() != "sqlite":
            if (url.get_backend_name(), url.get_driver_name()) != ("postgresql", "psycopg"):
                raise ArgumentError("another database, or not the driver that PostgreSQL is used with")
        elif not url.database or url.database == ":memory:":
            raise ArgumentError("a database in memory is lost with its process")
        url.get_dialect().import_dbapi()
    except ImportError:
        raise ConfigError(
            "Option database_url needs the package psycopg: install zonesched with the extra postgres.",
            field="database_url",
        ) from None
    except (ArgumentError, ValueError):
        # The URL may hold a password: it is not shown.
        raise ConfigError(
            f"Option database_url: the value is not accepted. Accepted: {DATABASE_URLS}.",
            field="database_url",
        ) from None
    return url


def _engine(url: sa.URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        engine = sa.create_engine(
            url, pool_size=16, max_overflow=48, pool_use_lifo=True, hide_parameters=True
        )
        event.listen(engine, "do_connect", _connect_to_postgresql)
        return engine
    _own_file(Path(url.database or ""))
    engine = sa.create_engine(
        url,
        pool_size=16,
        max_overflow=112,
        pool_use_lifo=True,
        hide_parameters=True,
        connect_args={"cached_statements": STATEMENTS},
    )
    event.listen(engine, "connect", _prepare_sqlite)
    return engine


def _connect_to_postgresql(_dialect: Any, _record: Any, arguments: Any, parameters: Any) -> Any:
    # The driver is installed only where PostgreSQL is used.
    from zonesched.store import postgresql  # noqa: PLC0415

    return postgresql.connect(*arguments, **parameters)


def _own_file(path: Path) -> None:
    """Create SQLite's file readable by its owner only; SQLite gives its log the same mode.

    Raises ConfigError for a file that others may read, and where none can be made.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"Option database_url: its folder cannot be made: {error.strerror}.", field="database_url"
        ) from error
    # If this fails, connecting reports the reason.
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    if path.is_file():
        refuse_if_shared(path, "database_url")


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    # Transactions are begun explicitly, so that a write can take its lock at once.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    # Savepoints keep the pages that change after them: else each of them is written to a file.
    cursor.execute("PRAGMA temp_store=MEMORY")
    cursor.execute(f"PRAGMA cache_size=-{CACHE_KB}")
    cursor.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    cursor.close()


def _is_full(error: BaseException | None) -> bool:
    """Tell whether a full disk caused the error, at once or while another was handled.

    The transaction is rolled back.
    """
    while error is not None:
        # 53100 disk_full (PostgreSQL's documentation, appendix A).
        code = getattr(error, "sqlite_errorcode", 0)
        if code == sqlite3.SQLITE_FULL or getattr(error, "sqlstate", "") == "53100":
            return True
        error = error.__cause__ or error.__context__
    return False


def _is_read_only(error: DBAPIError) -> bool:
    # 25006 read_only_sql_transaction: the transaction is rolled back.
    return getattr(error.orig, "sqlstate", "") == "25006"


def _is_conflict(error: DBAPIError) -> bool:
    # 40001 serialization_failure, 40P01 deadlock_detected (PostgreSQL's documentation, appendix A).
    state = getattr(error.orig, "sqlstate", "")
    return state in {"40001", "40P01"} or "database is locked" in str(error.orig)
