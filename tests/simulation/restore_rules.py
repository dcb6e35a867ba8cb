"""P11 in seeds with a restore, by plain rows and by what runs; nothing of the package's own recovery."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson
import requests

from tests.simulation.furniture import FLAVORS
from tests.simulation.network import Exchange
from tests.simulation.reach import Reach
from tests.simulation.restore_points import LIVING, OLD_ENTRY
from tests.simulation.site import Site

Key = tuple[str, int]


@dataclass(frozen=True)
class Restored:
    """The last restore of a zone.

    `living`: by the copy. `undeleted`: by the copy not deleted yet. `forgotten`: boots of its own users that
    the copy lacks. `known`: (uuid, attempt) of its parents' builds by the copy. `places`: (uuid, number) of
    those that are living, with the child's id, "" on a host.
    """

    at_s: float
    living: frozenset[str]
    undeleted: frozenset[str]
    forgotten: frozenset[str]
    known: frozenset[Key]
    places: Mapping[Key, str]


def restored(rows: sqlite3.Connection, at_s: float, boots: frozenset[str]) -> Restored:
    """Note what a zone has whose rows were just put back; `boots`: of its users, until then."""
    statuses = rows.execute("SELECT uuid, status FROM instances").fetchall()
    return Restored(
        at_s,
        living=frozenset(uuid for uuid, status in statuses if status in LIVING),
        undeleted=frozenset(uuid for uuid, status in statuses if status != "DELETED"),
        forgotten=boots - own_boots(rows),
        known=frozenset(rows.execute("SELECT uuid, attempt FROM inbound_builds").fetchall()),
        places=_places(rows),
    )


def _places(rows: sqlite3.Connection) -> dict[Key, str]:
    """Return the present places that are confirmed, with the child's id, "" on a host."""
    found = rows.execute(
        "SELECT p.uuid, p.number, coalesce(p.child_id, '') FROM placements p"
        " JOIN instances i ON i.uuid = p.uuid AND i.attempt = p.number WHERE p.state = 'confirmed'"
    )
    return {(uuid, number): child_id for uuid, number, child_id in found.fetchall()}


def own_boots(rows: sqlite3.Connection) -> frozenset[str]:
    """Return the ids of all boots of a zone's own users; one that was adopted has no user any more."""
    found = rows.execute(
        "SELECT r.id FROM reservations r, identity i"
        " WHERE r.caller_id = i.zone_uuid AND r.user_id != i.zone_uuid"
    )
    return frozenset(id_ for (id_,) in found)


def decided_wrong(site: Site, there: set[Key], below: set[Key], living: frozenset[str]) -> Iterator[str]:
    """When a recovery ends: what is there has its place or is kept, and what has ended is not there.

    What runs on a host that has shrunk since has no place any more: it is kept, and its row has ended.

    `there` is what the zone's agents have, `below` what its children have; `living`: by the copy.
    """
    noted = set(site.rows.execute("SELECT uuid, number FROM found_instances").fetchall())
    for uuid, number in sorted(unplaced(site, there) - noted):
        yield f"P11 {site.name}: {uuid} runs at {number}, and is forgotten"
    ended = site.rows.execute(
        "SELECT uuid FROM instances WHERE reason = 'lost_in_restore' AND status IN ('ERROR', 'DELETED')"
    )
    running = {uuid for uuid, _ in there | below} - _kept_on_full_hosts(site)
    for (uuid,) in ended:
        if uuid in running & living:
            yield f"P11 {site.name}: {uuid} is there, and has ended"


def _kept_on_full_hosts(site: Site) -> set[str]:
    return {uuid for (uuid,) in site.rows.execute(_KEPT_ON_FULL_HOSTS).fetchall()}


_LARGEST = {
    "VCPU": max(vcpus for vcpus, _ in FLAVORS.values()),
    "MEMORY_MB": max(ram_mb for _, ram_mb in FLAVORS.values()),
}
_KEPT_ON_FULL_HOSTS = " UNION ".join(
    "SELECT f.uuid FROM found_instances f JOIN inventories i ON i.host_id = f.host_id"
    f" WHERE i.resource_class = '{resource}' AND i.used + {amount} > i.capacity"
    for resource, amount in _LARGEST.items()
)


def lives_on(site: Site, lost: frozenset[str]) -> Iterator[str]:
    """Find what nobody has and what lives on all the same, but for a parent's hold, which ends by itself."""
    living = site.rows.execute(
        "SELECT i.uuid, i.status FROM instances i LEFT JOIN placements p"
        " ON p.uuid = i.uuid AND p.number = i.attempt"
        f" WHERE i.status IN {LIVING} AND NOT (i.caller_id != ? AND p.uuid IS NOT NULL"
        " AND p.state IN ('intended', 'held', 'cancelling'))",
        (site.uuid,),
    )
    for uuid, status in living.fetchall():
        if uuid in lost:
            yield f"P11 {site.name}: {uuid} was found nowhere, and is {status}"


def stolen(site: Site, honest: set[Key], last: Restored, liar_id: str) -> Iterator[str]:
    """Find what honest neighbours had by the copy and still have, and what a liar has by the rows now."""
    at_liar = {uuid for (uuid, _), child_id in _places(site.rows).items() if child_id == liar_id}
    for (uuid, number), child_id in sorted(last.places.items()):
        if child_id != liar_id and (uuid, number) in honest and uuid in at_liar:
            yield f"P11 {site.name}: {uuid} is at {number}, and a liar got it"


def unplaced(site: Site, there: set[Key]) -> set[Key]:
    """Return those of these attempts that no row of the zone has."""
    return there - set(site.rows.execute("SELECT uuid, number FROM placements").fetchall())


def stale_hosts(site: Site) -> Iterator[str]:
    """P3: a restored zone counts with what its agents have, not with what they had at the copy."""
    totals = dict(
        site.rows.execute(
            "SELECT h.name, i.total FROM hosts h JOIN inventories i ON i.host_id = h.id"
            " WHERE i.resource_class = 'VCPU'"
        ).fetchall()
    )
    for machine in site.machines:
        for host in machine.hosts if machine.live_agent is not None else ():
            total, has = totals.get(host.name), host.inventories["VCPU"]["total"]
            if total not in (None, has):
                yield f"P3 {site.name}: {host.name} has {has} vCPUs, by the rows {total}"


def on_machines(site: Site) -> set[Key]:
    """Return what runs on the machines of a zone whose agents live."""
    return {
        (key.uuid, key.attempt)
        for machine in site.machines
        if machine.live_agent is not None
        for key in machine.may_run()
    }


def in_child(rows: sqlite3.Connection) -> set[Key]:
    """Return the attempts that a child has of its parent, by the child's rows."""
    found = rows.execute(
        "SELECT b.uuid, b.attempt FROM inbound_builds b JOIN users u ON u.id = b.caller_id"
        " JOIN placements p ON p.uuid = b.uuid AND p.number = b.number AND p.state = 'confirmed'"
        " JOIN instances i ON i.uuid = b.uuid AND i.attempt = b.number AND i.status = 'ACTIVE'"
        " WHERE u.name = 'parent'"
    )
    return set(found.fetchall())


class Entries:
    """Listens to selects and builds: no entry that was sealed before a restore opens after it."""

    def __init__(self, reach: Reach, last: Mapping[str, Restored]) -> None:
        self.wrong: list[str] = []
        self._reach = reach
        self._last = last
        self._of_old: dict[str, Restored | None] = {}

    def listen(self, exchange: Exchange, response: requests.Response) -> None:
        """Note the entries of a select's answer; judge a build's."""
        path = urlsplit(str(exchange.request.url)).path
        if exchange.request.method != "POST" or response.status_code not in (200, 202, 400):
            return
        if path.endswith("/select"):
            present = self._last.get(exchange.target)
            body = _json(response)
            for entry in (*body.get("weights", ()), *body.get("alternates", ())):
                for blob in entry.get("blobs", (entry.get("blob", ""),)):
                    self._of_old[blob] = present
        elif path.endswith("/servers") and exchange.target in self._last:
            self._judge(exchange, response)

    def _judge(self, exchange: Exchange, response: requests.Response) -> None:
        zone, last = exchange.target, self._last[exchange.target]
        sent = orjson.loads(exchange.request.body or b"{}")["server"].get("builds", ())
        blobs = {(build["uuid"], build["attempt"]): build["blobs"] for build in sent}
        lines = _json(response).get("builds")
        # A call of which no entry opens is refused as a whole.
        for line in lines or [{"uuid": uuid, "attempt": n, "state": "failed"} for uuid, n in blobs]:
            key = (line["uuid"], line["attempt"])
            old = [blob for blob in blobs.get(key, ()) if self._of_old.get(blob, last) is not last]
            if not old or key in last.known:
                continue
            if line["state"] == "failed":
                self._reach.met[OLD_ENTRY] += 1
            elif len(old) == len(blobs[key]) and line["state"] == "held":
                self.wrong.append(f"P11 {zone}: {key} is held for an entry from before the restore")


def _json(response: requests.Response) -> Any:
    response.raw.seek(0)
    body = orjson.loads(response.raw.read())
    response.raw.seek(0)
    return body
