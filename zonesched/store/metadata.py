"""The collection of all tables of a zone, the names of their rules, and the types that several share."""

from __future__ import annotations

from sqlalchemy import MetaData, String

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)

UUID = String(36)
NAME = String(255)
