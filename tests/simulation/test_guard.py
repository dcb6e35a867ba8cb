"""The guard looks again whenever something has changed that it reads."""

from __future__ import annotations

import sqlite3

from tests.builders.clock import FakeClock
from tests.simulation import databases, journal
from tests.simulation.clock import MachineClock
from tests.simulation.furniture import furnish
from tests.simulation.guard import Guard
from tests.simulation.leases import Writer
from tests.simulation.stage import Stage

TREE = {"users", "children"}
"""Tables that set-up and operators write, before anything that rules are about."""


def test_each_column_that_a_rule_reads_is_watched() -> None:
    # given a zone that has said that an attempt is gone
    rows = databases.connect("test-guard")
    furnish(rows, FakeClock())
    stage = Stage(0)
    guard = Guard(stage, {"z": rows}, {"z": MachineClock(stage.baton, "z")})
    guard._holds._gone["z"].add(("u", 1))
    read: set[tuple[str, str]] = set()

    def note(action: int, table: str | None, column: str | None, *_: object) -> int:
        if action == sqlite3.SQLITE_READ and table and column and table not in TREE:
            read.add((table, column))
        return sqlite3.SQLITE_OK

    # when all rules look at its rows
    rows.set_authorizer(note)
    guard.look("z", Writer("p", "t"), journal.READ_BY_GUARDS.keys())
    # then a change of any of these columns makes them look again
    watched = {
        (table, column.strip())
        for table, columns in journal.READ_BY_GUARDS.items()
        for column in columns.split(",")
    }
    assert read <= watched
    assert {table for table, _ in read} == journal.READ_BY_GUARDS.keys()
    rows.close()
