"""Option of the commands that read a zone's configuration files."""

from __future__ import annotations

import click

config_files = click.option(
    "--config-file",
    "files",
    multiple=True,
    type=click.Path(),
    help="Configuration file; repeatable, a later one wins.",
)
"""Give a command the parameter `files`, the paths of the configuration files."""
