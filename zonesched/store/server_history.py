"""History of PostgreSQL's servers: whether the one at hand has the commits that a process was told of.

Each server has a system identifier, which its standbys share, and a timeline, which changes when a standby
takes over and when a server is put back to an earlier time. Both are kept beside the rows. Such a change may
have lost commits, or none. It has certainly lost some in two cases:

    the transaction of a known commit was rolled back here, or its id was not given yet
    the log that the server replayed when it started, or took over, ends before a known commit was written

The one is told by `pg_xact_status`, the other by `pg_last_wal_replay_lsn`; an id may be given again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from zonesched.store import tables as t
from zonesched.store.outcomes import Numbered

log = logging.getLogger(__name__)

SYSTEM, TIMELINE, LOST = "server_system", "server_timeline", "server_lost"
"""Names among the counters; the value of the last one is the number of a lost change."""

REMEDY = "stop all processes of this zone, run `zonesched db restored`, and start them"

_row = t.counters.c
_HERE = sa.text("""
    SELECT system_identifier AS system,
        ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS timeline,
        (pg_last_wal_replay_lsn() - '0/0')::bigint AS replayed
    FROM pg_control_system()
""")
# The status of an id that was not given yet is an error.
_IS_LOST = sa.text("""
    SELECT coalesce(CAST(:replayed AS bigint) <= :written, false) OR CASE
        WHEN :transaction >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint THEN true
        ELSE coalesce(pg_xact_status((:transaction)::text::xid8) = 'aborted', false)
    END
""")


@dataclass(frozen=True)
class ServerHistory:
    """A server's system identifier and timeline, and the end of what it replayed; None if that is nothing."""

    system: int
    timeline: int
    replayed: int | None


@dataclass(frozen=True)
class Meeting:
    """A server that differs from the one that the rows know, `known` its system and timeline; what is lost.

    `lost_change`: number of a change that this process was told of, which the server lacks; 0 for none.
    """

    here: ServerHistory
    known: tuple[int, int]
    lost_change: int

    def log(self) -> None:
        """Log what an operator has to know."""
        if self.lost_change:
            log.error("%s", lost(self.lost_change))
        elif self.known[0] != self.here.system:
            log.warning("the database is on another server of PostgreSQL than before; %s", _IF_LOST)
        elif self.known[1] != self.here.timeline:
            log.warning(
                "PostgreSQL is on timeline %d, and was on %d: a standby has taken over, or the server was put"
                " back to an earlier time; %s",
                self.here.timeline,
                self.known[1],
                _IF_LOST,
            )


_IF_LOST = f"if it lacks commits, {REMEDY}"


def lost(change: int) -> str:
    """Say that commits are lost."""
    return (
        f"PostgreSQL lacks commits that this zone was told of, such as change {change}: agents end servers"
        f" that no row has; {REMEDY}"
    )


def read(connection: Connection) -> ServerHistory | None:
    """Read the history of a server, outside any transaction; None of one that does not tell it."""
    try:
        row = connection.execute(_HERE).one()
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return None
    finally:
        connection.rollback()
    return ServerHistory(row.system, row.timeline, row.replayed)


def meet(tx: Connection, here: ServerHistory, last: Numbered | None) -> Meeting:
    """Note the server's history; compare it with the known one and with the last commit of this process."""
    stored = _stored(tx)
    known = (stored.get(SYSTEM, here.system), stored.get(TIMELINE, here.timeline))
    for name, value in ((SYSTEM, here.system), (TIMELINE, here.timeline)):
        _put(tx, name, value)
    # Another system counts its transactions and its log by itself.
    is_lost = last is not None and known[0] == here.system and _is_lost(tx, here, last)
    if last is None or not is_lost:
        return Meeting(here, known, 0)
    _put(tx, LOST, last.number)
    return Meeting(here, known, last.number)


def lost_change(tx: Connection) -> int:
    """Read the number of a change that a process was told of and the database lacks; 0 for none."""
    return _stored(tx).get(LOST, 0)


def forget(tx: Connection) -> None:
    """Forget the history: the rows were restored from a copy, and their operator has said so."""
    tx.execute(sa.delete(t.counters).where(_row.name.in_((SYSTEM, TIMELINE, LOST))))


def _stored(tx: Connection) -> dict[str, int]:
    found = tx.execute(sa.select(_row.name, _row.value).where(_row.name.in_((SYSTEM, TIMELINE, LOST))))
    return {row.name: row.value for row in found}


def _put(tx: Connection, name: str, value: int) -> None:
    new = insert(t.counters).values(name=name, value=value)
    tx.execute(new.on_conflict_do_update(index_elements=[_row.name], set_={"value": value}))


def _is_lost(tx: Connection, here: ServerHistory, last: Numbered) -> bool:
    values = {"transaction": last.transaction, "written": last.written, "replayed": here.replayed}
    return bool(tx.execute(_IS_LOST, values).scalar_one())
