"""Copies of an SQLite database: made while zones run on it, put back only while nothing does.

SQLite itself says whether a database is in use: whoever has it open in WAL mode holds a shared lock on its
file until its process ends, so another mode can be set only by a program that is alone. The same step moves
the log of a crashed zone into the file, where the copy then replaces it: no log is left to undo that.
https://www.sqlite.org/wal.html, https://www.sqlite.org/backup.html
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool

from zonesched.errors import ConfigError, ZoneschedError
from zonesched.store import identity, recovery, schema
from zonesched.store.schema import SchemaState
from zonesched.store.store import Store

ON_POSTGRESQL = (
    "This command is for SQLite. On PostgreSQL, back up with `pg_dump --format=custom --file=FILE URL`;"
    " restore, while no process of the zone runs, with `pg_restore --clean --if-exists --single-transaction"
    " --dbname=URL FILE`, and then `zonesched db restored`."
)


class CopyRefused(ZoneschedError):
    """A copy of a database cannot be made, or not be put back; nothing has changed."""

    code = "copy_refused"


@dataclass(frozen=True)
class ZoneCopy:
    """A copy of a zone's database, by the uuid of its zone."""

    zone_uuid: str


def file_of(database_url: str) -> Path:
    """Return the file of an SQLite database. Raises ConfigError for an invalid URL, else CopyRefused."""
    try:
        url = sa.make_url(database_url)
    except ArgumentError:
        # The URL may hold a password: it is not shown.
        raise ConfigError("Option database_url: the value is not accepted.", field="database_url") from None
    if url.get_backend_name() != "sqlite":
        raise CopyRefused(ON_POSTGRESQL)
    if not url.database or url.database == ":memory:":
        raise CopyRefused("A database in memory has no file.")
    return Path(url.database)


def back_up(database: Path, copy: Path) -> ZoneCopy:
    """Write a consistent copy to a new file of mode 0600; zones may run and write meanwhile.

    Raises CopyRefused for what is no zone's database, and where SQLite cannot copy it, as to a full disk;
    OSError. No part of a copy is left under its name.
    """
    if copy.exists():
        raise CopyRefused(f"{copy} exists already, and is kept.")
    source = read(database)
    try:
        _write_copy(database, copy)
    except sqlite3.Error as error:
        raise CopyRefused(f"{database} cannot be copied to {copy}: {error}.") from error
    _sync_folder(copy)
    return source


def _write_copy(database: Path, copy: Path) -> None:
    # In a folder of its own: another backup to the same file may be under way.
    with TemporaryDirectory(prefix=f"{copy.name}.part-", dir=copy.parent) as folder:
        part = Path(folder) / copy.name
        _make_file(part)
        with _opened(database, "ro") as rows, _opened(part) as written:
            rows.backup(written)
            # One file, without a log beside it.
            written.execute("PRAGMA journal_mode=DELETE")
        _give_name(part, copy)


def _give_name(part: Path, copy: Path) -> None:
    """Give a whole file its name. Raises FileExistsError where somebody has made such a file meanwhile."""
    try:
        os.link(part, copy)
    except OSError:
        # Some file systems have no links, as that of a share: the name is taken, then the file moved there.
        os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        part.replace(copy)


def read(copy: Path) -> ZoneCopy:
    """Read which zone's a database is. Raises CopyRefused for a damaged one, or one of a later version."""
    if not copy.is_file():
        raise CopyRefused(f"There is no file {copy}.")
    engine = sa.create_engine("sqlite://", creator=lambda: _connect(copy, "ro"), poolclass=NullPool)
    try:
        with _naming(copy), closing(Store(engine)) as store:
            state = schema.state(store)
            if state is SchemaState.AHEAD:
                raise CopyRefused(f"{copy} was written by a later version of zonesched.")
            found = [] if state is SchemaState.EMPTY else store.read(identity.zone_uuids)
    except sa.exc.DBAPIError as error:
        raise CopyRefused(f"{copy} cannot be read: {error.orig}.") from error
    if not found:
        raise CopyRefused(f"{copy} is not the database of a zone.")
    return ZoneCopy(found[0])


def restore(database: Path, copy: Path, incarnation: str, *, is_other_zone_allowed: bool) -> ZoneCopy:
    """Replace a database by a copy, all or nothing, also where this process or the machine dies meanwhile.

    The zone begins its next start with a recovery, under a new `incarnation` (32 hex digits).

    Raises CopyRefused while any process uses the database, for a damaged copy, one of a later version, and
    one of another zone unless that is allowed; OSError where no file can be made.
    """
    found = read(copy)
    if database.exists() and copy.samefile(database):
        raise CopyRefused(f"{copy} is the database itself.")
    with _opened(copy, "ro") as rows:
        with _naming(copy):
            _check(rows, copy)
        _make_file(database)
        with _opened(database) as written, _naming(database):
            _be_alone(written, database)
            if not is_other_zone_allowed:
                _refuse_other_zone(written, database, found)
            with _marked(rows, database, incarnation) as marked:
                marked.backup(written)
            # Unused in this mode; nobody else can open it while this connection holds the file.
            database.with_name(f"{database.name}-shm").unlink(missing_ok=True)
    return found


def check_unused(database_url: str) -> None:
    """Raise CopyRefused while any process uses an SQLite database; others do not say whether one does."""
    try:
        database = file_of(database_url)
    except CopyRefused:
        return
    # What else is wrong with the file, its next use says.
    if database.is_file():
        with suppress(sqlite3.Error), closing(_connect(database, "rw")) as rows:
            _be_alone(rows, database)


def mark_restored(database_url: str, incarnation: str) -> None:
    """Let the zone of a database that other tools have put back begin its next start with a recovery."""
    store = Store.open(database_url)
    try:
        schema.upgrade(store)
        store.write(lambda tx: recovery.begin(tx, incarnation))
    finally:
        store.close()


@contextmanager
def _marked(rows: sqlite3.Connection, database: Path, incarnation: str) -> Iterator[sqlite3.Connection]:
    """Make the present form of a copy in a file beside the database, with the mark of its restore."""
    beside = f"{database.name}.restore-"
    for left in database.parent.glob(f"{beside}*"):
        # A restore that was killed has left a whole database there.
        shutil.rmtree(left)
    with TemporaryDirectory(prefix=beside, dir=database.parent) as folder:
        part = Path(folder) / "restored"
        _make_file(part)
        with closing(sqlite3.connect(part)) as written:
            rows.backup(written)
        mark_restored(f"sqlite:///{part}", incarnation)
        with _opened(part) as marked:
            yield marked


def _make_file(database: Path) -> None:
    """Make the file where there is none; it is for its owner only in any case."""
    database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(database, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    database.chmod(0o600)


def _check(rows: sqlite3.Connection, copy: Path) -> None:
    [line] = rows.execute("PRAGMA quick_check(1)").fetchone()
    if line != "ok":
        raise CopyRefused(f"{copy} is damaged: {line}")


def _be_alone(rows: sqlite3.Connection, database: Path) -> None:
    """Keep everybody else out until the connection is closed, and move the log into the file."""
    try:
        rows.execute("PRAGMA locking_mode=EXCLUSIVE")
        rows.execute("PRAGMA journal_mode=DELETE").fetchall()
        # The lock is taken by the first transaction, and kept.
        rows.execute("BEGIN EXCLUSIVE")
        rows.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        raise CopyRefused(f"{database} is in use: stop all processes of its zone first.") from error


def _refuse_other_zone(rows: sqlite3.Connection, database: Path, copy: ZoneCopy) -> None:
    try:
        here = {uuid for (uuid,) in rows.execute("SELECT zone_uuid FROM identity")}
    except sqlite3.OperationalError:
        # A database without this table is no zone's yet.
        return
    if here - {copy.zone_uuid}:
        raise CopyRefused(
            f"{database} is of the zone {min(here)}, and the copy of the zone {copy.zone_uuid}:"
            " --other-zone replaces the one by the other."
        )


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in the errors of SQLite."""
    try:
        yield
    except sqlite3.Error as error:
        raise CopyRefused(
            f"{path} cannot be used: {error}. If it is damaged, move it away, together with {path.name}-wal"
            f" and {path.name}-shm."
        ) from error


@contextmanager
def _opened(path: Path, mode: str = "rw") -> Iterator[sqlite3.Connection]:
    with _naming(path):
        connection = _connect(path, mode)
    try:
        yield connection
    finally:
        connection.close()


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    # Whoever uses the database keeps it for long: no wait. Transactions are begun explicitly.
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None)


def _sync_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
