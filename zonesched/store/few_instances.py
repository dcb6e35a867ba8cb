"""Conditions that name instances one by one where they are few."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import tables as t

FEW = 5_000
"""Instances that are named one by one: of more, a page of the newest is full soon."""


def is_named(
    tx: Connection, uuids: sa.Select[tuple[str]], otherwise: sa.ColumnElement[bool]
) -> sa.ColumnElement[bool]:
    """Make the condition that an instance is one of `uuids`; these are named if they are few.

    A database does not know how few they are, and would look at every instance of the zone.
    """
    found = tx.execute(uuids.limit(FEW + 1)).scalars().all()
    return t.instances.c.uuid.in_(found) if len(found) <= FEW else otherwise
