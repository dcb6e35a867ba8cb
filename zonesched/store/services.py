"""Compute agents' services: who registered each, and when it was last heard of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.errors import Forbidden, NotFound
from zonesched.store import tables as t

COLUMNS = t.services.c
_HEARD_SINCE = sa.select(COLUMNS.id, COLUMNS.last_seen_at, COLUMNS.forced_down).where(
    sa.or_(COLUMNS.last_seen_at >= sa.bindparam("moment"), COLUMNS.forced_down)
)


@dataclass(frozen=True)
class Service:
    """One row. `user_id` is the compute user it belongs to."""

    id: str
    name: str
    user_id: str
    last_seen_at: float
    forced_down: bool = False

    def is_up(self, now: float, down_time_s: float) -> bool:
        """Whether the agent lives, by its beats and by what operators say."""
        return not self.forced_down and is_up(self.last_seen_at, now, down_time_s)


@dataclass(frozen=True)
class Heard:
    """When services were last heard of, by id, and those that operators have forced down."""

    at: Mapping[str, float]
    forced_down: frozenset[str]


def is_up(last_seen_at: float, now: float, down_time_s: float) -> bool:
    """Whether an agent lives that was last heard of then; a moment far ahead is of a clock since set back."""
    return abs(now - last_seen_at) <= down_time_s


def read_all(tx: Connection) -> Mapping[str, Service]:
    """All services by id."""
    return {row.id: Service(*row) for row in tx.execute(sa.select(t.services).order_by(COLUMNS.name))}


def heard_since(tx: Connection, moment: float) -> Heard:
    """The services that were heard of at `moment` or later, and all that are forced down."""
    rows = tx.execute(_HEARD_SINCE, {"moment": moment}).all()
    return Heard(
        {row.id: row.last_seen_at for row in rows if row.last_seen_at >= moment},
        frozenset(row.id for row in rows if row.forced_down),
    )


def set_forced_down(tx: Connection, service_id: str, forced_down: bool) -> None:
    """Let an agent count as dead, or by its beats again."""
    tx.execute(sa.update(t.services).where(COLUMNS.id == service_id).values(forced_down=forced_down))


def own(tx: Connection, name: str, user_id: str) -> Service:
    """The user's service of that name. Raises NotFound, and Forbidden for another user's."""
    row = tx.execute(sa.select(t.services).where(COLUMNS.name == name)).first()
    if row is None:
        raise NotFound(f"There is no service {name}.", code="service_unknown", field="service")
    found = Service(*row)
    if found.user_id != user_id:
        raise Forbidden(
            f"Service {name} belongs to another user.",
            code="service_belongs_to_another_user",
            field="service",
        )
    return found


def register(tx: Connection, name: str, user_id: str, now: float, new_id: str) -> Service:
    """The service of that name, heard of now: a new one, the user's own, or one whose user is no more.

    Raises Forbidden for a service that belongs to another user.
    """
    row = tx.execute(sa.select(t.services).where(COLUMNS.name == name).with_for_update()).first()
    if row is None:
        service = Service(new_id, name, user_id, now)
        tx.execute(sa.insert(t.services).values(**vars(service)))
        return service
    if row.user_id != user_id and is_user(tx, row.user_id):
        own(tx, name, user_id)
    tx.execute(sa.update(t.services).where(COLUMNS.id == row.id).values(user_id=user_id, last_seen_at=now))
    return Service(row.id, name, user_id, now, row.forced_down)


def beat(tx: Connection, name: str, user_id: str, now: float) -> None:
    """The user's service was heard of now. Raises NotFound, and Forbidden for another user's."""
    service = own(tx, name, user_id)
    tx.execute(sa.update(t.services).where(COLUMNS.id == service.id).values(last_seen_at=now))


def is_user(tx: Connection, user_id: str) -> bool:
    """Whether there is such a user."""
    return tx.execute(sa.select(t.users.c.id).where(t.users.c.id == user_id)).first() is not None
