"""Faults of the database, told apart from those of this program: those that pass, and a wrong schema."""

from __future__ import annotations

import logging
import re
import sqlite3
from functools import cache

import sqlalchemy as sa

from zonesched.errors import (
    DatabaseFull,
    DatabaseSchemaWrong,
    DatabaseUnavailable,
    ZoneBusy,
    ZoneschedError,
)
from zonesched.store import tables

log = logging.getLogger(__name__)

RETRY_AFTER_S = 5

_REFUSED = ("25006", "42501")
"""PostgreSQL's read_only_sql_transaction and insufficient_privilege (its documentation, appendix A).

The latter is also the code of a disk on which its files cannot be opened or written.
"""


_UNDEFINED = ("42P01", "42703")
"""PostgreSQL's undefined_table and undefined_column."""

_LACKS = re.compile("no such table|no such column|has no column named")
"""SQLite's words for the same; it has no codes for them."""

MEND = "`zonesched db upgrade` upgrades it, or says what else is wrong"


def database_fault(error: BaseException) -> ZoneschedError | None:
    """Return the fault to answer where the database is to blame; None for a fault of this program."""
    return outage(error) or wrong_schema(error)


def wrong_schema(error: BaseException) -> DatabaseSchemaWrong | None:
    """Return the fault to answer where the database lacks a table or column of this version.

    A statement that names another one is a fault of this program.
    """
    if not isinstance(error, sa.exc.DBAPIError):
        return None
    words = str(error.orig).partition("\n")[0]
    is_lack = getattr(error.orig, "sqlstate", "") in _UNDEFINED or (
        isinstance(error.orig, sqlite3.OperationalError) and _LACKS.search(words) is not None
    )
    if not is_lack or _names().isdisjoint(re.findall(r"\w+", words)):
        return None
    return DatabaseSchemaWrong(f"This zone's database does not have the schema of this version. {MEND}.")


@cache
def _names() -> frozenset[str]:
    """Return the names of all tables and columns of this version."""
    known = tables.instances.metadata.tables.values()
    return frozenset(name for table in known for name in (table.name, *table.columns.keys()))


def outage(error: BaseException) -> ZoneBusy | None:
    """Return the fault to answer where the database is down or full, or takes no calls or writes."""
    if isinstance(error, DatabaseFull):
        return error
    if not _passes(error):
        return None
    # The server may have heard a commit whose answer was lost.
    message = (
        "This zone's database cannot be used now. A change may have been made: look before you repeat it."
    )
    return DatabaseUnavailable(message, RETRY_AFTER_S)


def summary(error: BaseException) -> str:
    """Return the database's own words in one line, and what mends it where that is known."""
    words = str(getattr(error, "orig", None) or error).partition("\n")[0]
    mend = f"; its schema is not that of this version: {MEND}" if wrong_schema(error) else ""
    return f"the database cannot be used: {words}{mend}"


def log_unreadable(error: BaseException) -> None:
    """Log why rows cannot be read: in one line a fault of the database, else with the traceback."""
    log.error("%s", summary(error), exc_info=None if database_fault(error) else error)


def log_failed(what: str, error: BaseException) -> None:
    """Log that a piece of work has failed, and why: a fault of the database in one line."""
    if database_fault(error):
        log.error("%s: %s", what, summary(error))
    else:
        log.error("%s", what, exc_info=error)


def _passes(error: BaseException) -> bool:
    match error:
        case sa.exc.TimeoutError():
            # All connections of the pool are in use.
            return True
        case sa.exc.OperationalError(orig=sqlite3.Error() as orig):
            # SQLITE_ERROR is a statement that is wrong; the others are a file or a disk.
            return getattr(orig, "sqlite_errorcode", sqlite3.SQLITE_ERROR) != sqlite3.SQLITE_ERROR
        case sa.exc.OperationalError() | sa.exc.InterfaceError():
            return True
        case sa.exc.DBAPIError():
            return error.connection_invalidated or getattr(error.orig, "sqlstate", "") in _REFUSED
    return False
