"""Input of secrets other than the caller's own: from a file, from standard input or from a prompt."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from zonesched.cli.session import read_secret


def given_secret(file: Path | None, from_stdin: bool, what: str, *, confirm: bool = False) -> str:
    """The secret, from a prompt where it is not given; "" without a terminal. `confirm`: prompt twice."""
    if file is not None:
        return read_secret(file)
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if sys.stdin.isatty():
        return str(click.prompt(what, hide_input=True, confirmation_prompt=confirm))
    return ""
