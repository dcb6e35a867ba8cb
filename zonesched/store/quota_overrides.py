"""The limits of single projects and parents, in place of the zone's for all of them."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import tables as t

COLUMNS = t.own_limits.c
QuotaOverrides = Mapping[str, Mapping[str, int]]
"""Quota overrides by name of the quota, of every project (by its id) and parent (by its user's id)."""


def read_all(tx: Connection) -> QuotaOverrides:
    """All of them; who has none is not there."""
    found: dict[str, dict[str, int]] = {}
    for row in tx.execute(sa.select(t.own_limits).order_by(COLUMNS.subject, COLUMNS.name)):
        found.setdefault(row.subject, {})[row.name] = row.most
    return found


def write(tx: Connection, subject: str, wanted: Mapping[str, int | None]) -> None:
    """Set the limits that are named, or with None take them back; the others stay."""
    which = (COLUMNS.subject == subject, COLUMNS.name.in_(list(wanted)))
    tx.execute(sa.delete(t.own_limits).where(*which))
    given = {name: most for name, most in wanted.items() if most is not None}
    for name, most in given.items():
        tx.execute(sa.insert(t.own_limits).values(subject=subject, name=name, most=most))


def forget(tx: Connection, subject: str) -> None:
    """Take all of one back."""
    tx.execute(sa.delete(t.own_limits).where(COLUMNS.subject == subject))
