"""How commands print: tables for people, the zone's own JSON for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 240
"""Columns of output that goes to a file or pipe: nothing is cut there."""


def console() -> Console:
    """Standard output, as it is now; colours and cutting only on a terminal."""
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else WIDE, highlight=False)


def print_json(answer: Any) -> None:
    """The answer, indented."""
    click.echo(json.dumps(answer, indent=2, ensure_ascii=False))


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table; numbers stand right, what is missing is empty."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        is_number = bool(rows) and all(isinstance(row[number], int | float) for row in rows)
        made.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell(value)) for value in row))
    return made


def cell(value: Any) -> str:
    """A value as it stands in a table."""
    match value:
        case None | "":
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case Mapping():
            return ", ".join(f"{key}={cell(inner)}" for key, inner in sorted(value.items()))
        case str():
            return value
        case Sequence():
            return ", ".join(cell(inner) for inner in value)
        case _:
            return str(value)


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table, or a word that there is nothing."""
    if rows:
        console().print(table(columns, rows))
    else:
        click.echo("none", err=True)


def print_item(item: Mapping[str, Any]) -> None:
    """One thing, a line for each of its fields that has a value."""
    rows = [(key, value) for key, value in item.items() if key != "links" and value not in (None, "", [], {})]
    console().print(table(("field", "value"), rows))
