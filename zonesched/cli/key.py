"""`zonesched key`: keys of a zone's configuration."""

from __future__ import annotations

import click

from zonesched.seams import SystemClock

KEY_BYTES = 32


@click.group()
def key() -> None:
    """Keys of a zone's configuration."""


@key.command()
def generate() -> None:
    """A key for build_plan_encryption_key or secret_encryption_key: 64 hex digits."""
    click.echo(SystemClock().random_bytes(KEY_BYTES).hex())
