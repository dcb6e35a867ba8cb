"""Tables: one line for each row, fitted to the terminal.

On a terminal ids are shortened to a prefix that is unique in the list, empty columns are left out, then whole
columns are left out by their rank until a row fits, and at last the longest texts are cut. A file or a pipe
gets every column and every value whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import click
from rich.cells import cell_len, set_cell_size

from zonesched.cli.screen import Screen, Terminal

SHORTEST_ID = 8
"""Minimum length of the prefix of an id in a table."""
SHORTEST_CUT = 8
"""Minimum length of a text that is cut."""
GAP = "  "
EXACT = 2.0**53
"""Limit below which each whole number is a float."""

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters, but for line feed and tab: what would drive the terminal."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_COLOURS = {
    "green": {"ACTIVE", "ready", "up", "enabled", "done"},
    "yellow": {"BUILD", "UNKNOWN", "PARTIAL", "waiting", "disabled"},
    "red": {"ERROR", "offline", "down", "error"},
}
_COLOUR_OF = {word: colour for colour, words in _COLOURS.items() for word in words}


@dataclass(frozen=True)
class Column:
    """One column of a table.

    `rank`: the column of the highest rank is left out first where the terminal is too narrow; rank 0 always
    stays. `is_id`: uuids in it are shortened. `is_status`: its words are coloured.
    """

    name: str
    rank: int = 0
    is_id: bool = False
    is_status: bool = False


def plain(*names: str) -> tuple[Column, ...]:
    """Columns that always stay, without ids and statuses."""
    return tuple(map(Column, names))


def cell(value: Any) -> str:
    """A value as text: yes and no, every digit of a number, the elements of lists and mappings."""
    match value:
        case None | "":
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < EXACT else str(value)
        case Mapping():
            return ", ".join(f"{key}={cell(inner)}" for key, inner in sorted(value.items()))
        case str():
            return CONTROLS.sub("\N{REPLACEMENT CHARACTER}", " ".join(value.split()))
        case Sequence():
            return ", ".join(cell(inner) for inner in value)
        case _:
            return str(value)


@dataclass(frozen=True)
class _Text:
    """One column as it is printed."""

    column: Column
    cells: tuple[str, ...]
    is_number: bool

    @cached_property
    def width(self) -> int:
        return max(cell_len(text) for text in (self.column.name, *self.cells))


@dataclass(frozen=True)
class Fitted:
    """The lines of a table, and the names of the columns that were left out for lack of width."""

    lines: tuple[str, ...]
    hidden: tuple[str, ...]


def fit(screen: Screen, columns: Sequence[Column], rows: Sequence[Sequence[Any]], *, wide: bool) -> Fitted:
    """Lay a table out. `wide`: every column and value whole, also on a narrow terminal."""
    texts = [_text(column, [row[i] for row in rows]) for i, column in enumerate(columns)]
    hidden: tuple[str, ...] = ()
    has_colours = isinstance(screen, Terminal) and screen.has_colours
    if isinstance(screen, Terminal) and not wide:
        texts = [_shortened(text) for text in texts]
        texts, hidden = _without_the_least(texts, screen.width)
        texts = _cut(texts, screen.width)
    return Fitted(tuple(_lines(texts, has_colours)), hidden)


def _text(column: Column, values: Sequence[Any]) -> _Text:
    is_number = bool(values) and all(isinstance(value, int | float) for value in values)
    return _Text(column, tuple(map(cell, values)), is_number)


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """The shortest prefix of each uuid, of one length for all, that no other uuid of the list has."""
    uuids = {id for id in ids if _UUID.fullmatch(id)}
    for length in range(SHORTEST_ID, 36):
        if len({uuid[:length] for uuid in uuids}) == len(uuids):
            return {uuid: uuid[:length] for uuid in uuids}
    return {}


def _shortened(text: _Text) -> _Text:
    if not text.column.is_id:
        return text
    short = short_ids(text.cells)
    return replace(text, cells=tuple(short.get(id, id) for id in text.cells))


def _total(texts: Sequence[_Text]) -> int:
    return sum(text.width for text in texts) + len(GAP) * (len(texts) - 1)


def _without_the_least(texts: list[_Text], width: int) -> tuple[list[_Text], tuple[str, ...]]:
    """Return the columns that stay, and the names of non-empty ones that were left out."""
    left = [text for text in texts if text.column.rank == 0 or any(text.cells)]
    hidden: list[str] = []
    while _total(left) > width and (least := max(left, key=lambda text: text.column.rank)).column.rank:
        left.remove(least)
        hidden.append(least.column.name)
    return left, tuple(reversed(hidden))


def _cut(texts: list[_Text], width: int) -> list[_Text]:
    """Take the excess off the widest columns; ids and statuses stay whole."""
    excess = _total(texts) - width
    while excess > 0:
        position = max(range(len(texts)), key=lambda i: (_can_be_cut(texts[i]), texts[i].width))
        widest = texts[position]
        limit = max(SHORTEST_CUT, widest.width - excess)
        if not _can_be_cut(widest) or limit == widest.width:
            return texts
        texts[position] = replace(widest, cells=tuple(_cut_to(limit, text) for text in widest.cells))
        excess = _total(texts) - width
    return texts


def _can_be_cut(text: _Text) -> bool:
    longest = max((cell_len(found) for found in text.cells), default=0)
    is_text = not (text.column.is_id or text.column.is_status or text.is_number)
    return is_text and longest > max(SHORTEST_CUT, cell_len(text.column.name))


def _cut_to(width: int, text: str) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def _lines(texts: Sequence[_Text], has_colours: bool) -> Iterator[str]:
    header = GAP.join(_placed(text, text.column.name) for text in texts).rstrip()
    yield click.style(header, bold=True) if has_colours else header
    for row in zip(*(text.cells for text in texts), strict=True):
        placed = [
            _coloured(_placed(text, found), found)
            if has_colours and text.column.is_status
            else _placed(text, found)
            for text, found in zip(texts, row, strict=True)
        ]
        yield GAP.join(placed).rstrip()


def _placed(text: _Text, found: str) -> str:
    padding = " " * (text.width - cell_len(found))
    return padding + found if text.is_number else found + padding


def _coloured(placed: str, word: str) -> str:
    colour = _COLOUR_OF.get(word)
    return click.style(placed, fg=colour) if colour else placed


def print_table(
    screen: Screen, columns: Sequence[Column], rows: Sequence[Sequence[Any]], *, wide: bool = False
) -> None:
    """Print a table, and on standard error which columns were left out."""
    fitted = fit(screen, columns, rows, wide=wide)
    for line in fitted.lines:
        click.echo(line, color=isinstance(screen, Terminal) and screen.has_colours)
    if fitted.hidden:
        click.echo(f"not shown: {', '.join(fitted.hidden)} (--wide shows every column)", err=True)
