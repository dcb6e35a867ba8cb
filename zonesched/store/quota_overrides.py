"""Quota overrides of single projects and parents."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.store import tables as t
from zonesched.store.prepared import Prepared

COLUMNS = t.quota_overrides.c
_ALL = Prepared(sa.select(t.quota_overrides).order_by(COLUMNS.subject, COLUMNS.name))
QuotaOverrides = Mapping[str, Mapping[str, int]]
"""Quota overrides by project id or parent's user id, then by the name of the quota."""


def read_all(tx: Connection) -> QuotaOverrides:
    """Read all quota overrides; a project or parent without any is left out."""
    found: dict[str, dict[str, int]] = {}
    for row in _ALL.all(tx):
        found.setdefault(row.subject, {})[row.name] = row.hard_limit
    return found


def write(tx: Connection, subject: str, wanted: Mapping[str, int | None]) -> None:
    """Set the named overrides, or remove those given as None; the others stay."""
    which = (COLUMNS.subject == subject, COLUMNS.name.in_(list(wanted)))
    tx.execute(sa.delete(t.quota_overrides).where(*which))
    for name, limit in wanted.items():
        if limit is not None:
            tx.execute(sa.insert(t.quota_overrides).values(subject=subject, name=name, hard_limit=limit))


def forget(tx: Connection, subject: str) -> None:
    """Remove all overrides of one project or parent."""
    tx.execute(sa.delete(t.quota_overrides).where(COLUMNS.subject == subject))
