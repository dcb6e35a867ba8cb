"""Passthroughs of instances: members of a user's own body, kept as they came."""

from __future__ import annotations

from collections.abc import Mapping
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


def read_all(tx: Connection, named: str, after: str, limit: int) -> list[StoredPassthrough]:
    """Read passthroughs that contain the text `named`, in order of uuid, from behind `after`."""
    statement = (
        sa.select(_column.uuid, _column.reservation_id, _column.passthrough)
        .where(_column.uuid > after, _column.passthrough.contains(named, autoescape=True))
        .order_by(_column.uuid)
        .limit(limit)
    )
    rows = tx.execute(statement).all()
    return [StoredPassthrough(uuid, boot, orjson.loads(text)) for uuid, boot, text in rows]


def set_all(tx: Connection, passthroughs: Mapping[str, Mapping[str, Any]]) -> None:
    """Set the passthrough of instances by uuid."""
    for uuid, passthrough in sorted(passthroughs.items()):
        text = orjson.dumps(dict(passthrough)).decode()
        tx.execute(sa.update(t.instances).where(_column.uuid == uuid).values(passthrough=text))
