"""Invariants, checked after each commit by plain SQL and without code of the package."""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Container, Iterator, Mapping

from tests.simulation.clock import MachineClock
from tests.simulation.confirms import Confirms
from tests.simulation.groups import Groups
from tests.simulation.holds import Holds
from tests.simulation.journal import READ_BY_GUARDS
from tests.simulation.leases import Leases, Writer
from tests.simulation.quotas import Quotas
from tests.simulation.server_locks import ServerLocks
from tests.simulation.stage import Stage


class Guard:
    """P2 and P3 at every commit, by the databases of all zones; `wrong` is what was found.

    `suspects`: zones of which their neighbours may believe anything. `most_of_parents`: their quota by zone.
    """

    def __init__(
        self,
        stage: Stage,
        databases: Mapping[str, sqlite3.Connection],
        clocks: Mapping[str, MachineClock],
        suspects: Container[str] = (),
        most_of_parents: Mapping[str, int] | None = None,
    ) -> None:
        self.wrong: list[str] = []
        self._rows = databases
        self._clocks = clocks
        self._rooms = Rooms(suspects)
        self._leases = Leases()
        self._groups = Groups()
        self._confirms = Confirms(self._rows, suspects)
        self._holds = Holds(stage)
        self._ends = Ends()
        self._quotas = Quotas(most_of_parents or {})
        self._locks = ServerLocks()
        self._baton = stage.baton
        self._forgetful: set[str] = set()

    def note_time(self, zone: str) -> None:
        """Note what a zone's clock says before it is set: somebody may have read it and not yet written."""
        self._leases.note_time(zone, self._clocks[zone].now())

    def look(self, zone: str, writer: Writer, tables: Container[str]) -> None:
        """One zone's process has committed something, which has changed these tables.

        A rule is looked at where a table has changed that it is about.
        """
        rows = self._rows[zone]
        self.note_time(zone)
        if "placements" in tables or "inventories" in tables or "instances" in tables:
            self.wrong += self._rooms.look(zone, rows)
        if "instances" in tables:
            self.wrong += self._ends.look(zone, rows)
        if "instance_locks" in tables or "instance_actions" in tables:
            self.wrong += self._locks.look(zone, rows)
        if "instances" in tables or "quota_overrides" in tables:
            self.wrong += self._quotas.look(zone, rows, self._baton.now)
        if "reservations" in tables:
            self.wrong += self._leases.look(zone, rows, writer)
        if "placements" in tables or "instances" in tables or "server_groups" in tables:
            self.wrong += self._groups.look(zone, rows)
        if "placements" in tables:
            self.wrong += self._confirms.look(zone, self._forgetful)
        if "placements" in tables or "inbound_builds" in tables or self._holds.has_heard(zone):
            self.wrong += self._holds.look(zone, rows)

    def forget(self, zone: str) -> None:
        """Forget what was seen of a zone whose rows were put back from a copy; they say nothing yet."""
        self._rooms.forget(zone, self._rows[zone])
        self._leases.forget(zone)
        self._holds.forget(zone, self._rows[zone])
        self._ends.forget(zone)
        self._quotas.forget(zone)
        self._locks.forget(zone)
        self._forgetful.add(zone)

    def look_again(self, zone: str, writer: Writer) -> None:
        """Look at all rows of a zone whose recovery has ended."""
        self._forgetful.discard(zone)
        self._confirms.forgive(zone)
        self.look(zone, writer, READ_BY_GUARDS)

    def look_at_time(self) -> None:
        """Time has passed: what ought to have ended by now?"""
        for zone, rows in self._rows.items():
            self.wrong += self._holds.look_at_time(zone, rows, self._clocks[zone].now())

    def active(self) -> int:
        """Instances that are confirmed on hosts now."""
        return self._rooms.active()


class Rooms:
    """No claim above the capacity, what is in use is what is claimed, no instance on two hosts."""

    def __init__(self, suspects: Container[str]) -> None:
        self._suspects = suspects
        self._used: dict[tuple[str, str, str], int] = {}
        self._confirmed: dict[str, frozenset[str]] = {}

    def look(self, zone: str, rows: sqlite3.Connection) -> Iterator[str]:
        claimed, confirmed = _claims(rows)
        for host, name, total, reserved, ratio, used in rows.execute(
            "SELECT host_id, resource_class, total, reserved, allocation_ratio, used FROM inventories"
        ):
            key = (zone, host, name)
            capacity = math.floor((total - reserved) * ratio + 1e-9)
            if used > self._used.get(key, 0) and used > capacity:
                yield f"P3 {zone}: {name} of host {host} is claimed to {used} of {capacity}"
            if used != claimed[host, name]:
                yield f"P3 {zone}: {name} of {host} is {used}, claims take {claimed[host, name]}"
            self._used[key] = used
        self._confirmed[zone] = frozenset(confirmed)
        for uuid, count in confirmed.items():
            zones = [
                name
                for name, found in self._confirmed.items()
                if uuid in found and name not in self._suspects
            ]
            if count > 1 or len(zones) > 1:
                yield f"P2: {uuid} is on {count} hosts in {zone}, and in {zones}"

    def forget(self, zone: str, rows: sqlite3.Connection) -> None:
        """Begin again with the usage that these rows have, and with nothing on any host."""
        for host, name, used in rows.execute("SELECT host_id, resource_class, used FROM inventories"):
            self._used[zone, host, name] = used
        self._confirmed[zone] = frozenset()

    def active(self) -> int:
        """Instances that are confirmed on hosts now."""
        return sum(map(len, self._confirmed.values()))


class Ends:
    """What has ended has done so at one moment, whatever is done to it later."""

    def __init__(self) -> None:
        self._ended_at: dict[str, dict[str, float]] = {}

    def look(self, zone: str, rows: sqlite3.Connection) -> Iterator[str]:
        known = self._ended_at.get(zone, {})
        found = rows.execute("SELECT uuid, ended_at FROM instances WHERE status IN ('ERROR', 'DELETED')")
        self._ended_at[zone] = ended = dict(found.fetchall())
        for uuid, moment in ended.items():
            if not moment or known.get(uuid, moment) != moment:
                yield f"ended {zone}: {uuid} has ended at {moment}, before at {known.get(uuid)}"

    def forget(self, zone: str) -> None:
        """Begin again with the rows of a copy."""
        self._ended_at.pop(zone, None)


def _claims(rows: sqlite3.Connection) -> tuple[Counter[tuple[str, str]], Counter[str]]:
    claimed: Counter[tuple[str, str]] = Counter()
    confirmed: Counter[str] = Counter()
    for uuid, host, resources, state, reason, runs in rows.execute(
        "SELECT p.uuid, p.host_id, p.resources, p.state, p.reason,"
        " p.number = i.attempt AND i.status = 'ACTIVE' FROM placements p"
        " LEFT JOIN instances i ON i.uuid = p.uuid"
        " WHERE p.kind = 'host' AND p.state IN ('held', 'confirmed', 'parked', 'releasing')"
    ):
        for name, amount in json.loads(resources).items():
            claimed[host, name] += amount
        # A shelved instance is there until its agent says otherwise, or has ended it by its own clock: it is
        # not placed anew before. What a machine does is for `Running` to see.
        is_leaving = (state, reason) == ("releasing", "shelved") and runs
        confirmed[uuid] += bool(state == "confirmed" or is_leaving)
    return claimed, +confirmed
