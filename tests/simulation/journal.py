"""Journal of a simulated database: triggers write down every change of a state, in the transaction itself.

The package knows nothing of it: what is rolled back is not in the journal, and what is committed is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

_TABLE = (
    "CREATE TABLE simulation_journal (id INTEGER PRIMARY KEY, what TEXT, uuid TEXT, number INTEGER,"
    " before TEXT, after TEXT, reason TEXT, of_whom TEXT)"
)


@dataclass(frozen=True)
class _Watched:
    """A column whose changes are noted; the others are expressions over a row named by `{}`."""

    what: str
    table: str
    column: str
    uuid: str
    number: str = "0"
    reason: str = "''"
    of_whom: str = "''"


_WATCHED = (
    _Watched(
        "{}.kind || ' place'",
        "placements",
        "state",
        "{}.uuid",
        "{}.number",
        "{}.reason",
        "{}.reservation_id || ' ' || coalesce({}.child_id, {}.host_id)",
    ),
    _Watched("'instance'", "instances", "status", "{}.uuid", reason="{}.reason"),
    _Watched("'inbound'", "inbound_builds", "number", "{}.uuid", "{}.attempt", of_whom="{}.caller_id"),
    _Watched("'reservation'", "reservations", "state", "{}.id", "{}.lease_number", "{}.reason"),
    _Watched("'lease'", "reservations", "lease_number", "{}.id"),
    _Watched("'action'", "instance_actions", "result", "{}.uuid", "{}.number", "{}.reason", "{}.action"),
    _Watched("'move'", "moves", "state", "{}.uuid", reason="{}.reason", of_whom="{}.kind"),
    _Watched("'shrunk'", "inventories", "shrunk_used > 0", "{}.host_id", of_whom="{}.resource_class"),
    _Watched("'agent down'", "services", "forced_down", "{}.id"),
)


READ_BY_GUARDS = {
    "placements": "uuid, number, kind, host_id, child_id, state, reason, resources",
    "inventories": "host_id, resource_class, total, reserved, allocation_ratio, used",
    "reservations": "id, lease_number, lease_expires_at",
    "instances": "uuid, caller_id, group_id, attempt, status, ended_at",
    "inbound_builds": "uuid, caller_id, attempt, number",
    "instance_locks": "uuid, by_admin",
    "instance_actions": "uuid, number, action, user_id",
    "quota_overrides": "subject, name, hard_limit",
    "server_groups": "id, policy, max_server_per_host",
}
"""Tables of which each new, deleted and changed row is noted, and the columns whose changes count."""

_TOUCHED = "touched"


@dataclass(frozen=True)
class Change:
    """A state that became another one; `before` is "" for a new row. `of_whom`: what the row belongs to."""

    what: str
    uuid: str
    number: int
    before: str
    after: str
    reason: str
    of_whom: str

    @property
    def step(self) -> str:
        """Both states, or the first one of a new row."""
        return f"{self.before} -> {self.after}" if self.before else self.after


@dataclass(frozen=True)
class News:
    """Changes of states, and the `tables` of which guards have to read the rows again."""

    changes: tuple[Change, ...]
    tables: frozenset[str]


def keep(rows: sqlite3.Connection) -> None:
    """Let a database keep a journal from now on."""
    rows.execute(_TABLE)
    for number, watched in enumerate(_WATCHED):
        before, after = f"(OLD.{watched.column})", f"(NEW.{watched.column})"
        rest = ", ".join(one.replace("{}", "NEW") for one in (after, watched.reason, watched.of_whom))
        head = ", ".join(one.replace("{}", "NEW") for one in (watched.what, watched.uuid, watched.number))
        insert = "INSERT INTO simulation_journal (what, uuid, number, before, after, reason, of_whom)"
        rows.execute(
            f"CREATE TRIGGER simulation_new_{number} AFTER INSERT ON {watched.table}"
            f" BEGIN {insert} VALUES ({head}, '', {rest}); END"
        )
        rows.execute(
            f"CREATE TRIGGER simulation_changed_{number} AFTER UPDATE ON {watched.table}"
            f" WHEN {before} IS NOT {after} BEGIN {insert} VALUES ({head}, {before}, {rest}); END"
        )
    for table, columns in READ_BY_GUARDS.items():
        for what, when in (("new", "INSERT"), ("changed", f"UPDATE OF {columns}"), ("deleted", "DELETE")):
            rows.execute(
                f"CREATE TRIGGER simulation_{what}_{table} AFTER {when} ON {table}"
                f" BEGIN INSERT INTO simulation_journal (what, uuid) VALUES ('{_TOUCHED}', '{table}'); END"
            )


class Journals:
    """Reads what each zone's journal has that was not read before."""

    def __init__(self, databases: Mapping[str, sqlite3.Connection]) -> None:
        self._rows = databases
        self._read_to = dict.fromkeys(databases, 0)

    def skip(self, zone: str) -> None:
        """Go on at the end of a journal that was put in the place of another one."""
        (last,) = self._rows[zone].execute("SELECT max(id) FROM simulation_journal").fetchone()
        self._read_to[zone] = last or 0

    def news(self, zone: str) -> News:
        """Return what all commits since the last call have changed."""
        found = (
            self._rows[zone]
            .execute(
                "SELECT id, what, uuid, number, before, after, reason, of_whom"
                " FROM simulation_journal WHERE id > ? ORDER BY id",
                (self._read_to[zone],),
            )
            .fetchall()
        )
        if found:
            self._read_to[zone] = found[-1][0]
        return News(
            tuple(
                Change(what, uuid, number, str(before), str(after), reason, of_whom)
                for _, what, uuid, number, before, after, reason, of_whom in found
                if what != _TOUCHED
            ),
            frozenset(uuid for _, what, uuid, *_ in found if what == _TOUCHED),
        )
