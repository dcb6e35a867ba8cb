"""The guard looks again whenever something has changed that it reads."""

from __future__ import annotations

import sqlite3

from tests.builders.clock import FakeClock
from tests.simulation import databases, journal
from tests.simulation.clock import MachineClock
from tests.simulation.furniture import furnish
from tests.simulation.guard import Guard
from tests.simulation.leases import Writer
from tests.simulation.quotas import Quotas
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


def a_parent_with_two_instances() -> sqlite3.Connection:
    rows = sqlite3.connect(":memory:")
    rows.execute("CREATE TABLE users (id, role)")
    rows.execute("INSERT INTO users VALUES ('p', 'parent')")
    rows.execute("CREATE TABLE quota_overrides (subject, name, hard_limit)")
    rows.execute("CREATE TABLE instances (caller_id, status)")
    rows.executemany("INSERT INTO instances VALUES ('p', ?)", [("ACTIVE",), ("BUILD",), ("ERROR",)])
    return rows


def test_a_parent_may_have_no_more_instances_than_the_option_of_its_zone() -> None:
    # given a parent that has as many instances as the option of its zone says
    rows = a_parent_with_two_instances()
    checker = Quotas({"z": 2})
    assert list(checker.look("z", rows, 0.0)) == []
    # when it gets one more
    rows.execute("INSERT INTO instances VALUES ('p', 'BUILD')")
    # then that is too many, and is said once
    assert list(checker.look("z", rows, 1.0)) == ["quota z: p has 3 instances of 2"]
    assert list(checker.look("z", rows, 2.0)) == []
    # and a copy that is put back says nothing
    checker.forget("z")
    assert list(checker.look("z", rows, 3.0)) == []
    rows.close()


def test_a_parent_may_have_no_more_instances_than_its_quota_once_all_processes_know_it() -> None:
    # given a parent with two instances, whose quota was lowered to two
    rows = a_parent_with_two_instances()
    checker = Quotas({})
    assert list(checker.look("z", rows, 0.0)) == []
    rows.execute("INSERT INTO quota_overrides VALUES ('p', 'parent_instances', 2)")
    assert list(checker.look("z", rows, 1.0)) == []
    # when it gets one more at once, and another one later
    rows.execute("INSERT INTO instances VALUES ('p', 'BUILD')")
    soon = list(checker.look("z", rows, 2.0))
    rows.execute("INSERT INTO instances VALUES ('p', 'BUILD')")
    later = list(checker.look("z", rows, 20.0))
    # then the second one is too many
    assert (soon, later) == ([], ["quota z: p has 4 instances of 2"])
    rows.close()
