"""Steps that the pending instances of a boot wait for, in words: as a table, and in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from zonesched.cli.screen import Screen
from zonesched.cli.table import cell, plain, print_table

Lines = Sequence[Mapping[str, Any]]

WORDS: Mapping[str, str] = {
    "boot_worker": "the boot worker",
    "next_select": "the next select, as a zone did not answer",
    "hold_answer": "the child zone to answer the hold",
    "cancel_answer": "the child zone to answer the cancel",
    "other_instances": "the other instances to be held",
    "parent_confirm": "the parent zone to confirm",
    "confirm_answer": "the child zone to answer the confirm",
    "build": "the build",
}
_COLUMNS = ("waits for", "instances", "child zone", "due at")


def print_waiting(screen: Screen, waiting: Lines) -> None:
    """Print, after an empty line, the pending instances by step; nothing if none is pending."""
    if waiting:
        click.echo()
        rows = [
            (_in_words(line), line["count"], line.get("child_zone", ""), line.get("at", ""))
            for line in waiting
        ]
        used = [position for position in range(len(_COLUMNS)) if any(row[position] for row in rows)]
        columns = plain(*(_COLUMNS[position] for position in used))
        print_table(screen, columns, [[row[position] for position in used] for row in rows], wide=True)


def waiting_line(waiting: Lines) -> str:
    """The same in one line; "" where none is pending."""
    parts = []
    for line in waiting:
        where = f" ({line['child_zone']})" if "child_zone" in line else ""
        parts.append(f"{line['count']} for {_in_words(line)}{where}")
    return cell(f"waiting: {', '.join(parts)}") if parts else ""


def _in_words(line: Mapping[str, Any]) -> str:
    code: str = line["code"]
    return WORDS.get(code, code)
