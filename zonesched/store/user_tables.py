"""The tables of what users of a zone have by themselves; `zonesched.store.tables` has them too."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, String, Table, Text

from zonesched.store.metadata import NAME, UUID, metadata

# Sessions of the dashboard, and one-time links that begin one.
dashboard_sessions = Table(
    "dashboard_sessions",
    metadata,
    # SHA-256 of the token that the browser or the link has.
    Column("token_hash", String(64), primary_key=True),
    # A user's id; "noauth" in a zone without users.
    Column("user_id", UUID, nullable=False, index=True),
    Column("is_link", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
)

keypairs = Table(
    "keypairs",
    metadata,
    Column("user_id", NAME, primary_key=True),
    Column("name", NAME, primary_key=True),
    Column("public_key", Text, nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("created_at", Float, nullable=False),
)
