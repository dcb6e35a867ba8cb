"""Holds end: with their time at the latest, and for good once their zone has said so (DESIGN, section 6)."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from urllib.parse import urlsplit

import orjson
import requests

from tests.simulation.network import Exchange
from tests.simulation.stage import Stage

GRACE_S = 4.0
"""Seconds after its end that a hold may still be there: the reaper of an untroubled zone looks each 2."""

THERE = ("intended", "held", "confirming", "confirmed")

_OVER = (
    "SELECT p.uuid, p.number FROM placements p WHERE p.state = 'held' AND p.hold_expires_at <= :now"
    # A zone that has not listened gives an agent more time to leave a host: the place of the move waits.
    " AND NOT EXISTS (SELECT 1 FROM moves m WHERE m.uuid = p.uuid AND m.to_number = p.number"
    " AND m.state = 'leaving' AND m.next_step_at > :now)"
)


class Holds:
    """Listens to what zones answer to cancels, and looks how long holds stay."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._gone: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
        self._unread: set[str] = set()
        self._over_since: defaultdict[str, dict[tuple[str, int], float]] = defaultdict(dict)
        stage.network.listeners.append(self._listen)

    def _listen(self, exchange: Exchange, response: requests.Response) -> None:
        """After "gone" to a cancel nothing may come of that attempt, however late its build arrives."""
        is_parents = exchange.source in self._stage.network.servers
        if exchange.request.method != "POST" or response.status_code != 200 or not is_parents:
            return
        if urlsplit(str(exchange.request.url)).path.endswith("/cancel"):
            response.raw.seek(0)
            told = orjson.loads(response.raw.read())["builds"]
            response.raw.seek(0)
            gone = {(line["uuid"], line["attempt"]) for line in told if line["state"] == "gone"}
            if gone:
                self._gone[exchange.target] |= gone
                self._unread.add(exchange.target)

    def forget(self, zone: str, rows: sqlite3.Connection) -> None:
        """Forget what a zone that was put back has said about holds of which it has forgotten the end."""
        back = rows.execute(
            "SELECT b.uuid, b.attempt FROM placements p"
            " JOIN inbound_builds b ON b.uuid = p.uuid AND b.number = p.number"
            f" WHERE p.state IN {THERE}"
        )
        self._gone[zone] -= set(back.fetchall())

    def has_heard(self, zone: str) -> bool:
        """Tell whether the zone has said something since the last look at its rows."""
        return zone in self._unread

    def look(self, zone: str, rows: sqlite3.Connection) -> Iterator[str]:
        """A commit of this zone."""
        self._unread.discard(zone)
        if not self._gone[zone]:
            return
        for uuid, attempt, state in rows.execute(
            "SELECT b.uuid, b.attempt, p.state FROM placements p"
            " JOIN inbound_builds b ON b.uuid = p.uuid AND b.number = p.number"
            " JOIN users u ON u.id = b.caller_id AND u.name = 'parent'"
            f" WHERE p.state IN {THERE}"
        ):
            if (uuid, attempt) in self._gone[zone]:
                yield f"P2 {zone}: attempt {attempt} of {uuid} is {state} after it was said to be gone"

    def look_at_time(self, zone: str, rows: sqlite3.Connection, zone_now: float) -> Iterator[str]:
        """Now and then: `zone_now` is what the zone's clock says."""
        now, before = self._stage.baton.now, self._over_since[zone]
        over = rows.execute(_OVER, {"now": zone_now}).fetchall()
        self._over_since[zone] = {key: before.get(key, now) for key in over}
        calm_since = self._stage.troubled_until.get(zone, 0.0)
        for (uuid, number), since in self._over_since[zone].items():
            late_s = now - max(since, calm_since)
            if late_s > GRACE_S:
                yield f"P2 {zone}: the hold {number} of {uuid} is {late_s:.1f} s over and still there"
