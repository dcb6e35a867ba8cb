"""Conditions on parts of texts that mean the same on all databases."""

from __future__ import annotations

import sqlalchemy as sa


def has_part(column: sa.ColumnElement[str], part: str) -> sa.ColumnElement[bool]:
    """Make the condition that a text contains a part, as it is written.

    `LIKE` of SQLite, and of no other database, takes ASCII letters of both cases for equal.
    """
    return sa.func.replace(column, part, "") != column
