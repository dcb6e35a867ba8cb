"""Child zones, with this zone's credential there as encrypted text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, one_of

COLUMNS = t.children.c
_EVERY = sa.select(t.children).order_by(COLUMNS.position, COLUMNS.id)
_ALL = Prepared(_EVERY)
_OF_ID = Prepared(_EVERY.where(COLUMNS.id == sa.bindparam("id")))
_CURSORS = Prepared(sa.select(COLUMNS.id, COLUMNS.cursor))
_LOCKED_CURSOR = Prepared(
    sa.select(COLUMNS.cursor).where(COLUMNS.id == sa.bindparam("id")).with_for_update(key_share=True)
)
_SET_CURSOR = Prepared(
    sa.update(t.children).where(COLUMNS.id == sa.bindparam("b_id")).values(cursor=sa.bindparam("b_cursor"))
)
_REGISTERED = Prepared(sa.select(COLUMNS.id).where(one_of(COLUMNS.id, "ids")))


@dataclass(frozen=True)
class ChildRow:
    """One row. `cursor`: the position in the child's feed up to which this zone has read.

    `zone_uuid`: the uuid that the child reports of itself, "" until it has answered. `is_enabled`: boots go
    there.
    """

    id: str
    name: str
    api_url: str
    username: str
    encrypted_password: str = field(repr=False)
    weight_offset: float
    weight_scale: float
    cursor: str = ""
    zone_uuid: str = ""
    is_enabled: bool = True


def insert(tx: Connection, child: ChildRow) -> None:
    """Insert a row after all others."""
    last = tx.execute(sa.select(sa.func.max(COLUMNS.position))).scalar() or 0
    tx.execute(sa.insert(t.children).values(id=child.id, position=last + 1, **_to_row(child)))


def read_all(tx: Connection) -> list[ChildRow]:
    """Read all children, in the order in which they were added."""
    return [_from_row(row) for row in _ALL.all(tx)]


def read_one(tx: Connection, child_id: str) -> ChildRow | None:
    """Read one child by id."""
    row = _OF_ID.first(tx, id=child_id)
    return None if row is None else _from_row(row)


def registered(tx: Connection, child_ids: Iterable[str]) -> frozenset[str]:
    """Select the ids that belong to registered children."""
    ids = sorted(set(child_ids))
    return frozenset(row.id for row in _REGISTERED.all(tx, ids=ids)) if ids else frozenset()


def replace(tx: Connection, child: ChildRow) -> None:
    """Replace a child's row; its position in the order stays."""
    tx.execute(sa.update(t.children).where(COLUMNS.id == child.id).values(**_to_row(child)))


def set_password(tx: Connection, child: ChildRow, encrypted_password: str) -> None:
    """Store a child's credential, unless it was changed since `child` was read."""
    tx.execute(
        sa.update(t.children)
        .where(COLUMNS.id == child.id, COLUMNS.password == child.encrypted_password)
        .values(password=encrypted_password)
    )


def name_of_zone(tx: Connection, zone_uuid: str, but: str) -> str:
    """Read the name of the child with this zone uuid, except the child with id `but`; "" for none."""
    statement = sa.select(COLUMNS.name).where(COLUMNS.zone_uuid == zone_uuid, COLUMNS.id != but)
    return str(tx.execute(statement).scalar() or "")


def set_zone_uuid(tx: Connection, child_id: str, zone_uuid: str) -> None:
    """Store the zone uuid of a child."""
    tx.execute(sa.update(t.children).where(COLUMNS.id == child_id).values(zone_uuid=zone_uuid))


def cursors(tx: Connection) -> Mapping[str, str]:
    """Read the cursor of each child's feed, by child id."""
    return {row.id: row.cursor for row in _CURSORS.all(tx)}


def lock(tx: Connection, child_id: str) -> None:
    """Lock a child's row until the transaction ends."""
    tx.execute(sa.select(COLUMNS.id).where(COLUMNS.id == child_id).with_for_update())


def is_at(tx: Connection, child_id: str, cursor: str) -> bool:
    """Tell whether the child's feed has been read exactly up to this cursor.

    The row stays locked until the transaction ends.
    """
    row = _LOCKED_CURSOR.first(tx, id=child_id)
    return row is not None and bool(row.cursor == cursor)


def set_cursor(tx: Connection, child_id: str, cursor: str) -> None:
    """Store the position in the child's feed up to which this zone has read."""
    _SET_CURSOR.run(tx, b_id=child_id, b_cursor=cursor)


def delete(tx: Connection, child_id: str) -> None:
    """Delete a child."""
    tx.execute(sa.delete(t.children).where(COLUMNS.id == child_id))


def _from_row(row: Any) -> ChildRow:
    return ChildRow(
        id=row.id,
        name=row.name,
        api_url=row.api_url,
        username=row.username,
        encrypted_password=row.password,
        weight_offset=row.weight_offset,
        weight_scale=row.weight_scale,
        cursor=row.cursor,
        zone_uuid=row.zone_uuid or "",
        is_enabled=row.is_enabled,
    )


def _to_row(child: ChildRow) -> Mapping[str, Any]:
    return {
        "name": child.name,
        "api_url": child.api_url,
        "username": child.username,
        "password": child.encrypted_password,
        "weight_offset": child.weight_offset,
        "weight_scale": child.weight_scale,
        "cursor": child.cursor,
        "zone_uuid": child.zone_uuid or None,
        "is_enabled": child.is_enabled,
    }
