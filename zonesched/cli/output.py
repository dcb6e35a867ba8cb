"""Output of commands: tables for people; JSON, CSV and bare values for scripts."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.console import Console

from zonesched.cli.session import OutputFormat, Session
from zonesched.cli.table import Column, cell, print_table

Row = Mapping[str, Any]


LONGEST_LINE = 10_000


def live_console() -> Console:
    """Standard output for lines that are rewritten in place; a file or a pipe gets the last ones whole."""
    return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else LONGEST_LINE)


def print_json(answer: Any) -> None:
    """Print JSON, indented."""
    click.echo(json.dumps(answer, indent=2, ensure_ascii=False))


def print_list(session: Session, answer: Any, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Print a list in the form that the command line asks for.

    `answer` is the zone's own answer, for --json. Raises UsageError for a column that the list does not have.
    """
    if session.as_json:
        print_json(answer)
        return
    chosen = [_named(columns, name) for name in session.columns] or list(columns)
    rows = _sorted(rows, columns, session.sort_by) if session.sort_by else rows
    values = [[row.get(column.name) for column in chosen] for row in rows]
    match session.output_format:
        case OutputFormat.JSON:
            names = [column.name for column in chosen]
            print_json([dict(zip(names, row, strict=True)) for row in values])
        case OutputFormat.CSV:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow([column.name for column in chosen])
            writer.writerows([list(map(cell, row)) for row in values])
        case OutputFormat.VALUE:
            for row in values:
                click.echo(" ".join(map(cell, row)))
        case OutputFormat.TABLE if not values:
            click.echo("none", err=True)
        case OutputFormat.TABLE:
            if session.columns:
                chosen = [Column(c.name, is_id=c.is_id, is_status=c.is_status) for c in chosen]
            print_table(session.screen, chosen, values, wide=session.is_wide)


def check_list_options(session: Session, columns: Sequence[Column]) -> None:
    """Raise UsageError for a column that `print_list` would not find, before a command changes anything."""
    for name in session.columns:
        _named(columns, name)
    if session.sort_by:
        _sorted((), columns, session.sort_by)


def check_fields(session: Session, fields: Sequence[str]) -> None:
    """Raise UsageError for a field that `print_item` would not find, before a command changes anything."""
    for name in session.columns:
        _named(tuple(map(Column, fields)), name)


def print_item(session: Session, answer: Any, item: Row) -> None:
    """Print one object in the form that the command line asks for: a line for each field that has a value.

    Raises UsageError for a field that it does not have.
    """
    if session.as_json:
        print_json(answer)
        return
    item = {key: value for key, value in item.items() if key != "links"}
    if session.columns:
        fields = tuple(map(Column, item))
        item = {
            column.name: item[column.name] for column in (_named(fields, name) for name in session.columns)
        }
    match session.output_format:
        case OutputFormat.JSON:
            print_json(item)
        case OutputFormat.CSV:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(item)
            writer.writerow([cell(value) for value in item.values()])
        case OutputFormat.VALUE:
            for value in item.values():
                click.echo(cell(value))
        case OutputFormat.TABLE:
            print_fields(item)


def print_fields(item: Row) -> None:
    """Print a line for each field that has a value; a value is never cut."""
    shown = {key: cell(value) for key, value in item.items() if value not in (None, "", [], {})}
    width = max(map(len, shown), default=0)
    for key, text in shown.items():
        click.echo(f"{key:{width}}  {text}")


def _named(columns: Sequence[Column], name: str) -> Column:
    for column in columns:
        if _plain(column.name) == _plain(name):
            return column
    names = ", ".join(column.name for column in columns)
    raise click.UsageError(f"there is no column {name!r}: choose from {names}")


def _plain(name: str) -> str:
    return re.sub(r"[ _-]+", "_", name.strip().lower())


def _sorted(rows: Sequence[Row], columns: Sequence[Column], wanted: str) -> Sequence[Row]:
    """Sort the rows by one column, `NAME` or `NAME:desc`; rows without a value come last."""
    name, _, direction = wanted.partition(":")
    if direction not in ("", "asc", "desc"):
        raise click.UsageError(f"--sort {wanted!r}: use COLUMN, COLUMN:asc or COLUMN:desc")
    key = _named(columns, name).name
    known = [row for row in rows if row.get(key) not in (None, "")]
    unknown = [row for row in rows if row.get(key) in (None, "")]
    return [*sorted(known, key=lambda row: natural_order(row[key]), reverse=direction == "desc"), *unknown]


def natural_order(value: Any) -> tuple[Any, ...]:
    """Return a sort key that orders numbers by value, also within names: host-9 before host-10."""
    if isinstance(value, int | float):
        return (0, value)
    parts = re.split(r"([0-9]+)", cell(value).lower())
    return (1, [int(part) if position % 2 else part for position, part in enumerate(parts)])


def by_name(rows: Sequence[Row], key: str = "name") -> list[Row]:
    """Sort the rows in the natural order of their names."""
    return sorted(rows, key=lambda row: natural_order(row[key]))
