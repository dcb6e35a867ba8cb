"""Secrets of others than the command's user: from a file, standard input or a prompt."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from zonesched.cli.session import read_secret


def given_secret(file: Path | None, from_stdin: bool, what: str) -> str:
    """The secret, asked for on a terminal when it is not given; "" when there is nobody to ask."""
    if file is not None:
        return read_secret(file)
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if sys.stdin.isatty():
        return str(click.prompt(what, hide_input=True))
    return ""
