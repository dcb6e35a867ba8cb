"""Faults of the database that pass, told apart from those of this program."""

from __future__ import annotations

import logging
import sqlite3

import sqlalchemy as sa

from zonesched.errors import DatabaseFull, DatabaseUnavailable, ZoneBusy

log = logging.getLogger(__name__)

RETRY_AFTER_S = 5

_REFUSED = ("25006", "42501")
"""PostgreSQL's read_only_sql_transaction and insufficient_privilege (its documentation, appendix A).

The latter is also the code of a disk on which its files cannot be opened or written.
"""


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
    """Return the database's own words in one line."""
    words = str(getattr(error, "orig", None) or error).partition("\n")[0]
    return f"the database cannot be used: {words}"


def log_unreadable(error: BaseException) -> None:
    """Log why rows cannot be read: in one line what passes, else with the traceback."""
    log.error("%s", summary(error), exc_info=None if outage(error) else error)


def log_failed(what: str, error: BaseException) -> None:
    """Log that a piece of work has failed, and why: in one line what passes, else with the traceback."""
    if outage(error):
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
