"""Runs the migrations in the transaction that `zonesched.store.schema` opened."""

from __future__ import annotations

from alembic import context

from zonesched.store import tables

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=tables.instances.metadata,
    render_as_batch=True,
    compare_type=True,
)
context.run_migrations()
