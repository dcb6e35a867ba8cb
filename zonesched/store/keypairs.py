"""Key pairs of this zone's users: their public halves."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.keypair import Keypair
from zonesched.store import tables as t

COLUMNS = t.keypairs.c


def insert(tx: Connection, keypair: Keypair) -> None:
    """Add a row; raises IntegrityError for a name that the user has."""
    tx.execute(sa.insert(t.keypairs).values(**vars(keypair)))


def read_one(tx: Connection, user_id: str, name: str) -> Keypair | None:
    """Read one key pair of a user."""
    statement = sa.select(t.keypairs).where(COLUMNS.user_id == user_id, COLUMNS.name == name)
    row = tx.execute(statement).first()
    return None if row is None else _from_row(row)


def page(tx: Connection, user_id: str, after: str, limit: int) -> list[Keypair]:
    """Read at most `limit` key pairs of a user, by name, from the first name behind `after` on."""
    statement = sa.select(t.keypairs).where(COLUMNS.user_id == user_id, COLUMNS.name > after)
    return [_from_row(row) for row in tx.execute(statement.order_by(COLUMNS.name).limit(limit))]


def count(tx: Connection, user_id: str) -> int:
    """Count the key pairs of a user."""
    return int(tx.execute(sa.select(sa.func.count()).where(COLUMNS.user_id == user_id)).scalar_one())


def delete(tx: Connection, user_id: str, name: str) -> bool:
    """Delete a key pair; false if there was none."""
    statement = sa.delete(t.keypairs).where(COLUMNS.user_id == user_id, COLUMNS.name == name)
    return tx.execute(statement).rowcount > 0


def delete_of_user(tx: Connection, user_id: str) -> None:
    """Delete all key pairs of a user."""
    tx.execute(sa.delete(t.keypairs).where(COLUMNS.user_id == user_id))


def _from_row(row: Any) -> Keypair:
    return Keypair(row.user_id, row.name, row.public_key, row.fingerprint, row.created_at)
