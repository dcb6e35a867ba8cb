"""Tables of the `zonesched` command: one line for each row, fitted to the terminal."""

from __future__ import annotations

import re
from typing import Any

import pytest
from rich.cells import cell_len

from zonesched.cli import table
from zonesched.cli.output import natural_order
from zonesched.cli.screen import Screen, Terminal, Unbounded, standard_output
from zonesched.cli.table import Column, cell, fit, short_ids

FIRST, SECOND = "11111111-1111-4111-8111-111111111111", "11111111-2222-4111-8111-111111111111"
OTHER = "22222222-2222-4111-8111-111111111111"
COLUMNS = (
    Column("id", is_id=True),
    Column("name"),
    Column("status", is_status=True),
    Column("created", rank=1),
    Column("reservation_id", rank=2, is_id=True),
)


def a_row(id: str = FIRST, name: str = "web-1", status: str = "ACTIVE") -> tuple[str, ...]:
    return (id, name, status, "2026-01-01T00:00:00Z", OTHER)


def lines(width: int, *rows: tuple[Any, ...], wide: bool = False) -> tuple[str, ...]:
    return fit(Terminal(width), COLUMNS, rows, wide=wide).lines


def test_ids_are_shortened_as_long_as_each_stays_unique() -> None:
    assert short_ids([FIRST, OTHER]) == {FIRST: "11111111", OTHER: "22222222"}
    assert short_ids([FIRST, SECOND]) == {FIRST: "11111111-1", SECOND: "11111111-2"}
    assert short_ids([FIRST, FIRST, "no-uuid"]) == {FIRST: "11111111"}


def test_a_row_is_one_line_of_the_terminals_width() -> None:
    rows = [a_row(), a_row(OTHER, "web-2", "ERROR")]
    assert lines(80, *rows) == (
        "id        name   status  created               reservation_id",
        "11111111  web-1  ACTIVE  2026-01-01T00:00:00Z  22222222",
        "22222222  web-2  ERROR   2026-01-01T00:00:00Z  22222222",
    )


def test_the_column_of_the_highest_rank_is_left_out_first() -> None:
    fitted = fit(Terminal(50), COLUMNS, [a_row()], wide=False)
    assert fitted.lines[0].split() == ["id", "name", "status", "created"]
    assert fitted.hidden == ("reservation_id",)
    assert fit(Terminal(30), COLUMNS, [a_row()], wide=False).hidden == ("created", "reservation_id")


def test_an_empty_column_is_left_out_without_a_word() -> None:
    fitted = fit(Terminal(80), COLUMNS, [(FIRST, "a", "BUILD", "", None)], wide=False)
    assert fitted.lines[0].split() == ["id", "name", "status"]
    assert fitted.hidden == ()


def test_a_long_text_is_cut_where_nothing_else_helps() -> None:
    cut = lines(40, a_row(name="n" * 100))
    assert cut[1].split()[1] == "n" * 21 + "…"
    assert max(map(len, cut)) == 40


def test_wide_characters_take_two_columns() -> None:
    shown = lines(80, a_row(name="日本"), a_row(OTHER, "ab"))
    assert shown[1].index("ACTIVE") == shown[2].index("ACTIVE") - 2


@pytest.mark.parametrize("width", range(20, 130, 7))
def test_no_line_is_longer_than_the_terminal_where_its_ids_and_statuses_fit(width: int) -> None:
    shown = lines(max(width, 30), a_row(name="a rather long name of an instance"), a_row(SECOND))
    assert max(map(len, shown)) <= max(width, 30)


@pytest.mark.parametrize("screen", [Terminal(20), Unbounded()])
def test_wide_or_into_a_file_every_value_is_whole(screen: Terminal | Unbounded) -> None:
    fitted = fit(screen, COLUMNS, [a_row(name="n" * 100)], wide=True)
    assert all(value in fitted.lines[1] for value in a_row(name="n" * 100))
    assert fit(Unbounded(), COLUMNS, [a_row()], wide=False).lines[1].startswith(FIRST)


def test_only_statuses_are_coloured_and_only_where_there_are_colours() -> None:
    row = a_row(name="ERROR", status="ERROR")
    plain = fit(Terminal(80), COLUMNS, [row], wide=False).lines
    coloured = fit(Terminal(80, has_colours=True), COLUMNS, [row], wide=False).lines
    assert "\x1b" not in "".join(plain)
    assert coloured[1].count("\x1b[31mERROR") == 1
    assert tuple(re.sub(r"\x1b\[\d+m", "", line) for line in coloured) == plain


@pytest.mark.parametrize(
    ("environment", "has_colours"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_no_color_turns_colours_off(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], has_colours: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "72")
    assert standard_output() == Terminal(72, has_colours)


@pytest.mark.parametrize("screen", [Unbounded(), Terminal(50)])
def test_a_text_is_measured_a_few_times_however_many_rows_there_are(
    monkeypatch: pytest.MonkeyPatch, screen: Screen
) -> None:
    measured: list[str] = []
    monkeypatch.setattr(table, "cell_len", lambda text: measured.append(text) or cell_len(text))
    rows = [a_row(name=f"a-long-name-{number}") for number in range(300)]

    fit(screen, COLUMNS, rows, wide=False)

    assert len(measured) < 10 * len(rows) * len(COLUMNS)


def test_what_is_no_terminal_is_unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: False, raising=False)
    assert standard_output() == Unbounded()


def test_numbers_in_names_are_sorted_by_value() -> None:
    assert sorted(["host-10", "host-9", "Host-1", "7"], key=natural_order) == [
        "7",
        "Host-1",
        "host-9",
        "host-10",
    ]
    assert sorted([10, 9.5, 2], key=natural_order) == [2, 9.5, 10]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (0.5, "0.5"),
        (1234567890.0, "1234567890"),
        (-1234567.25, "-1234567.25"),
        (1e300, "1e+300"),
        (16.123456789, "16.123456789"),
    ],
)
def test_a_number_reads_back_as_it_is(value: float, text: str) -> None:
    assert cell(value) == text
    assert float(cell(value)) == value
