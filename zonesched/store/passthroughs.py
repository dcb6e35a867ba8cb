"""Passthroughs of instances: members of a user's own body, kept as they came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import tables as t

_column = t.instances.c


class StoredPassthrough(NamedTuple):
    """Passthrough of one instance, as it is stored."""

    uuid: str
    reservation_id: str
    passthrough: Mapping[str, Any]


def uuids(tx: Connection, named: str, after: str, limit: int, *, but: str) -> list[str]:
    """Read the instances whose passthrough contains the text `named` and not `but`, from behind `after`."""
    contains = _column.passthrough.contains(named, autoescape=True)
    is_left_out = _column.passthrough.contains(but, autoescape=True)
    statement = sa.select(_column.uuid).where(_column.uuid > after, contains, sa.not_(is_left_out))
    return list(tx.execute(statement.order_by(_column.uuid).limit(limit)).scalars())


def read(tx: Connection, some: Sequence[str]) -> list[StoredPassthrough]:
    """Read the passthroughs of these instances, in order of uuid."""
    columns = (_column.uuid, _column.reservation_id, _column.passthrough)
    statement = sa.select(*columns).where(_column.uuid.in_(some)).order_by(_column.uuid)
    rows = tx.execute(statement).all()
    return [StoredPassthrough(uuid, boot, orjson.loads(text)) for uuid, boot, text in rows]


def set_all(tx: Connection, passthroughs: Mapping[str, Mapping[str, Any]]) -> None:
    """Set the passthrough of instances by uuid, which the caller has locked."""
    for uuid, passthrough in sorted(passthroughs.items()):
        text = orjson.dumps(dict(passthrough)).decode()
        tx.execute(sa.update(t.instances).where(_column.uuid == uuid).values(passthrough=text))
