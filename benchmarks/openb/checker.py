"""Check of the zones' databases, read with nothing but sqlite3, against the answers that the tool got.

It shares no code with the zones: capacities come from the trace's nodes, amounts from its tasks, and which
states of a placement take room is written here again.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from .forms import trait_of
from .trace import Node, Task

CLAIMING = ("held", "confirmed")
BUILT = ("confirmed", "released")


@dataclass(frozen=True)
class Claim:
    """A row that gives an instance a place on a host; a released one gave it."""

    uuid: str
    number: int
    state: str
    host: str
    amounts: Mapping[str, int]


@dataclass(frozen=True)
class Stock:
    """One resource class of a host as the zone keeps it."""

    host: str
    name: str
    capacity: int
    used: int


@dataclass(frozen=True)
class Rows:
    """One zone in one snapshot. `below` are the instances with a place in a child, one for each place."""

    zone: str
    stocks: tuple[Stock, ...]
    claims: tuple[Claim, ...]
    below: tuple[str, ...]


@dataclass(frozen=True)
class Findings:
    """List each violated rule in a sentence."""

    over_committed: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    double_placed: tuple[str, ...] = ()
    stray: tuple[str, ...] = ()

    def __add__(self, other: Findings) -> Findings:
        return Findings(
            _union(self.over_committed, other.over_committed),
            _union(self.lost, other.lost),
            _union(self.double_placed, other.double_placed),
            _union(self.stray, other.stray),
        )

    @property
    def lines(self) -> list[str]:
        groups = {
            "over-committed": self.over_committed,
            "lost": self.lost,
            "placed twice": self.double_placed,
            "claim without an accepted task": self.stray,
        }
        return [f"{kind}: {line}" for kind, found in groups.items() for line in found]


def read_rows(zone: str, path: Path) -> Rows:
    """Everything that is looked at of one zone's database."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        db.execute("BEGIN")
        stocks = db.execute(
            "SELECT h.name, i.resource_class, i.capacity, i.used FROM inventories i"
            " JOIN hosts h ON h.id = i.host_id"
        ).fetchall()
        claims = db.execute(
            "SELECT p.uuid, p.number, p.state, h.name, p.resources FROM placements p"
            " JOIN hosts h ON h.id = p.host_id WHERE p.kind = 'host'"
        ).fetchall()
        below = db.execute(
            "SELECT uuid FROM placements WHERE kind = 'child' AND state IN ('confirming', 'confirmed')"
        ).fetchall()
    return Rows(
        zone,
        tuple(Stock(*row) for row in stocks),
        tuple(
            Claim(uuid, number, state, host, json.loads(amounts))
            for uuid, number, state, host, amounts in claims
        ),
        tuple(uuid for (uuid,) in below),
    )


def check(zones: Sequence[Rows], nodes: Mapping[str, Node], accepted: Mapping[str, Task]) -> Findings:
    """Findings while `accepted` (by instance) are the tasks that were accepted and not deleted since."""
    claims: dict[str, list[Claim]] = defaultdict(list)
    for rows in zones:
        for claim in rows.claims:
            if claim.state in CLAIMING:
                claims[claim.uuid].append(claim)
    return Findings(
        over_committed=tuple(line for rows in zones for line in _over_committed(rows, nodes)),
        lost=tuple(
            line for uuid, task in accepted.items() for line in _lost(uuid, task, claims.get(uuid, []), nodes)
        ),
        double_placed=(
            *(f"{uuid} on {_hosts(found)}" for uuid, found in sorted(claims.items()) if len(found) > 1),
            *(
                f"{uuid} in {n} children of {rows.zone}"
                for rows in zones
                for uuid, n in _more_than_once(rows)
            ),
        ),
        stray=tuple(
            f"{uuid} on {_hosts(found)}" for uuid, found in sorted(claims.items()) if uuid not in accepted
        ),
    )


def hosts_of(zones: Sequence[Rows]) -> Mapping[str, str]:
    """The host on which each instance was built, deleted or not, by its last such row."""
    built = sorted(
        (claim for rows in zones for claim in rows.claims if claim.state in BUILT), key=lambda c: c.number
    )
    return {claim.uuid: claim.host for claim in built}


def _over_committed(rows: Rows, nodes: Mapping[str, Node]) -> list[str]:
    claimed: Counter[tuple[str, str]] = Counter()
    for claim in rows.claims:
        if claim.state in CLAIMING:
            claimed.update({(claim.host, name): amount for name, amount in claim.amounts.items()})
    found: list[str] = []
    for stock in rows.stocks:
        where = f"{rows.zone}, {stock.host} {stock.name}"
        capacity = nodes[stock.host].capacity.get(stock.name, 0)
        taken = claimed.pop((stock.host, stock.name), 0)
        if stock.capacity != capacity:
            found.append(f"{where}: capacity is {stock.capacity}, rightly {capacity}")
        if max(stock.used, taken) > capacity:
            found.append(f"{where}: used is {stock.used}, claims take {taken}, capacity is {capacity}")
        if stock.used != taken:
            found.append(f"{where}: used is {stock.used}, claims take {taken}")
    found += [
        f"{rows.zone}, {host} {name}: claims take {n} of nothing" for (host, name), n in claimed.items()
    ]
    return found


def _lost(uuid: str, task: Task, claims: Sequence[Claim], nodes: Mapping[str, Node]) -> list[str]:
    if not any(claim.state == "confirmed" for claim in claims):
        return [f"{uuid} ({task.name}) was accepted and has no confirmed claim"]
    faults: list[str] = []
    traits = {trait_of(model) for model in task.shape.models}
    for claim in claims:
        if claim.amounts != task.shape.amounts:
            faults.append(f"{uuid} ({task.name}) takes {claim.amounts}, it asked {task.shape.amounts}")
        if traits and trait_of(nodes[claim.host].model) not in traits:
            faults.append(f"{uuid} ({task.name}) is on {claim.host}, which has another model")
    return faults


def _more_than_once(rows: Rows) -> list[tuple[str, int]]:
    return [(uuid, n) for uuid, n in Counter(rows.below).items() if n > 1]


def _hosts(claims: Sequence[Claim]) -> str:
    return ", ".join(claim.host for claim in claims)


def _union(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))
