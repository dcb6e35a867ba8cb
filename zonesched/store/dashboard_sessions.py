"""Rows of those who are signed in to the dashboard, by the hash of their token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import tables as t
from zonesched.store.prepared import Prepared

COLUMNS = t.dashboard_sessions.c
_BY_TOKEN = Prepared(sa.select(t.dashboard_sessions).where(COLUMNS.token_hash == sa.bindparam("token_hash")))


@dataclass(frozen=True)
class SessionRow:
    """One session, or one link that begins one (`is_link`)."""

    token_hash: str
    user_id: str
    is_link: bool
    created_at: float
    expires_at: float


def insert(tx: Connection, row: SessionRow) -> None:
    """Add a row."""
    tx.execute(sa.insert(t.dashboard_sessions).values(**vars(row)))


def read_one(tx: Connection, token_hash: str) -> SessionRow | None:
    """Read the row of a token."""
    row = _BY_TOKEN.first(tx, token_hash=token_hash)
    return None if row is None else _from_row(row)


def of_user(tx: Connection, user_id: str) -> list[SessionRow]:
    """Read all rows of a user, newest first."""
    statement = sa.select(t.dashboard_sessions).where(COLUMNS.user_id == user_id)
    found = [_from_row(row) for row in tx.execute(statement)]
    return sorted(found, key=lambda row: (row.created_at, row.token_hash), reverse=True)


def delete(tx: Connection, token_hash: str) -> bool:
    """Delete the row of a token; false if there was none."""
    statement = sa.delete(t.dashboard_sessions).where(COLUMNS.token_hash == token_hash)
    return tx.execute(statement).rowcount > 0


def delete_of_user(tx: Connection, user_id: str) -> None:
    """Delete all rows of a user."""
    tx.execute(sa.delete(t.dashboard_sessions).where(COLUMNS.user_id == user_id))


def delete_invalid(tx: Connection, now: float, latest: float) -> None:
    """Delete what has expired, and what was made later than `latest`."""
    is_invalid = sa.or_(COLUMNS.expires_at <= now, COLUMNS.created_at > latest)
    tx.execute(sa.delete(t.dashboard_sessions).where(is_invalid))


def _from_row(row: Any) -> SessionRow:
    return SessionRow(row.token_hash, row.user_id, row.is_link, row.created_at, row.expires_at)
