"""Users of this zone, with what proves who they are (never the password itself)."""

from __future__ import annotations

from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.caller import Role
from zonesched.store import tables as t

COLUMNS = t.users.c
_BY_NAME = sa.select(t.users).where(COLUMNS.name == sa.bindparam("name"))


@dataclass(frozen=True)
class User:
    """One row. `secret` is the hash of a password or of a generated secret."""

    id: str
    name: str
    role: Role
    project_id: str
    secret: str = field(repr=False)
    created_at: float


def insert(tx: Connection, user: User) -> None:
    """Add a row; raises IntegrityError for a name that exists."""
    tx.execute(
        sa.insert(t.users).values(
            id=user.id,
            name=user.name,
            role=user.role.value,
            project_id=user.project_id,
            secret=user.secret,
            created_at=user.created_at,
        )
    )


def read_all(tx: Connection) -> list[User]:
    """All users, by name."""
    return _read(tx, sa.true())


def read_by_name(tx: Connection, name: str) -> User | None:
    """The user of that name."""
    row = tx.execute(_BY_NAME, {"name": name}).first()
    return None if row is None else _from_row(row)


def read_one(tx: Connection, user_id: str) -> User | None:
    """One user by id."""
    return next(iter(_read(tx, COLUMNS.id == user_id)), None)


def lock_admins(tx: Connection) -> list[User]:
    """All admins, none of whom another transaction can delete before this one ends."""
    statement = sa.select(t.users).where(COLUMNS.role == Role.ADMIN.value).order_by(COLUMNS.id)
    return [_from_row(row) for row in tx.execute(statement.with_for_update())]


def set_secret(tx: Connection, user_id: str, secret: str) -> bool:
    """Replace what proves who a user is; false when there is no such user."""
    changed = sa.update(t.users).where(COLUMNS.id == user_id).values(secret=secret)
    return bool(tx.execute(changed).rowcount)


def delete(tx: Connection, user_id: str) -> None:
    """Forget a user."""
    tx.execute(sa.delete(t.users).where(COLUMNS.id == user_id))


def _read(tx: Connection, condition: sa.ColumnElement[bool]) -> list[User]:
    statement = sa.select(t.users).where(condition).order_by(COLUMNS.name)
    return [_from_row(row) for row in tx.execute(statement)]


def _from_row(row: sa.Row[tuple[object, ...]]) -> User:
    return User(row.id, row.name, Role(row.role), row.project_id, row.secret, row.created_at)
