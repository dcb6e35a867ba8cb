"""`zonesched db`: a zone's database."""

from __future__ import annotations

import click

from zonesched import conf
from zonesched.cli.config_files import config_files
from zonesched.cli.group import CommandGroup
from zonesched.store import schema
from zonesched.store.schema import SchemaState
from zonesched.store.store import Store


@click.group(cls=CommandGroup)
def db() -> None:
    """Manage a zone's database."""


@db.command()
@config_files
def upgrade(files: tuple[str, ...]) -> None:
    """Upgrade the database of a configuration to this version's schema."""
    store = Store.open(conf.load(files).database_url)
    try:
        before = schema.state(store)
        schema.upgrade(store)
    finally:
        store.close()
    click.echo(
        "the schema was current"
        if before is SchemaState.CURRENT
        else f"the schema was {before.value}; upgraded"
    )
