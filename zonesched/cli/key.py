"""`zonesched key`: keys of a zone's configuration."""

from __future__ import annotations

import click

from zonesched.cli.group import CommandGroup
from zonesched.seams import SystemClock

KEY_BYTES = 32


@click.group(cls=CommandGroup)
def key() -> None:
    """Generate keys for a zone's configuration."""


@key.command()
def generate() -> None:
    """Generate a key for build_plan_encryption_key or secret_encryption_key: 64 hex digits."""
    click.echo(SystemClock().random_bytes(KEY_BYTES).hex())
