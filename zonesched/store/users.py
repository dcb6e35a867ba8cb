"""Users of this zone, with hashes of their passwords or secrets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.caller import Explained, Role
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared

COLUMNS = t.users.c
_INSERT = Prepared(sa.insert(t.users))
_BY_NAME = Prepared(sa.select(t.users).where(COLUMNS.name == sa.bindparam("name")))


@dataclass(frozen=True)
class User:
    """One row. `secret` is the hash of a password or of a generated secret.

    `explained`: the detail of refusal reasons that a parent sees.
    """

    id: str
    name: str
    role: Role
    project_id: str
    secret: str = field(repr=False)
    created_at: float
    explained: Explained = Explained.AS_THE_ZONE


def insert(tx: Connection, user: User) -> None:
    """Add a row; raises IntegrityError for a name that exists."""
    _INSERT.run(
        tx,
        id=user.id,
        name=user.name,
        role=user.role.value,
        project_id=user.project_id,
        secret=user.secret,
        explain_to_parent=user.explained.value,
        created_at=user.created_at,
    )


def read_all(tx: Connection) -> list[User]:
    """List all users, by name."""
    return _read(tx, sa.true())


def read_by_name(tx: Connection, name: str) -> User | None:
    """Read the user of that name."""
    row = _BY_NAME.first(tx, name=name)
    return None if row is None else _from_row(row)


def read_one(tx: Connection, user_id: str) -> User | None:
    """Read one user by id."""
    return next(iter(_read(tx, COLUMNS.id == user_id)), None)


def lock_secret(tx: Connection, user_id: str) -> str:
    """Read the hash of a user's password or secret, "" without such a user; it stays until `tx` ends."""
    statement = sa.select(COLUMNS.secret).where(COLUMNS.id == user_id)
    return tx.execute(statement.with_for_update(read=True)).scalar() or ""


def lock_admins(tx: Connection) -> list[User]:
    """Read all admins and lock them against deletion until the transaction ends."""
    statement = sa.select(t.users).where(COLUMNS.role == Role.ADMIN.value).order_by(COLUMNS.id)
    return [_from_row(row) for row in tx.execute(statement.with_for_update())]


def set_secret(tx: Connection, user_id: str, secret: str) -> bool:
    """Replace the hash of a user's password or secret; False when there is no such user."""
    changed = sa.update(t.users).where(COLUMNS.id == user_id).values(secret=secret)
    return bool(tx.execute(changed).rowcount)


def replace_secret(tx: Connection, user_id: str, present: str, secret: str) -> bool:
    """Replace the hash `present` of a user's password; False when the user has another one by now."""
    is_present = sa.and_(COLUMNS.id == user_id, COLUMNS.secret == present)
    return bool(tx.execute(sa.update(t.users).where(is_present).values(secret=secret)).rowcount)


def set_explained(tx: Connection, user_id: str, explained: Explained) -> None:
    """Set the detail of refusal reasons that a parent sees."""
    tx.execute(sa.update(t.users).where(COLUMNS.id == user_id).values(explain_to_parent=explained.value))


def delete(tx: Connection, user_id: str) -> None:
    """Delete a user."""
    tx.execute(sa.delete(t.users).where(COLUMNS.id == user_id))


def _read(tx: Connection, condition: sa.ColumnElement[bool]) -> list[User]:
    statement = sa.select(t.users).where(condition).order_by(COLUMNS.name)
    return [_from_row(row) for row in tx.execute(statement)]


def _from_row(row: sa.Row[Any]) -> User:
    return User(
        id=row.id,
        name=row.name,
        role=Role(row.role),
        project_id=row.project_id,
        secret=row.secret,
        created_at=row.created_at,
        explained=Explained(row.explain_to_parent),
    )
