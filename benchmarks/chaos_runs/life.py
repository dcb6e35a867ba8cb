"""Check of a server's life, by SQL that shares no code with the zones: P9, moves and their claims."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from .rows import Site, rows_of
from .running import Process

UNFINISHED = {
    "actions": "SELECT count(*) FROM instance_actions WHERE finished_at = 0",
    "moves": "SELECT count(*) FROM moves WHERE state NOT IN ('done', 'failed', 'reverted', 'verifying')",
    "desired states": "SELECT count(*) FROM instance_states s JOIN instances i ON i.uuid = s.uuid"
    " WHERE i.status = 'ACTIVE' AND s.observed_generation < s.generation",
}
_ACTIONS = "SELECT uuid, number, action, generation, finished_at, result, reason FROM instance_actions"
_CLAIMS = (
    "SELECT p.host_id, p.resources FROM placements p WHERE p.kind = 'host'"
    " AND p.state IN ('held', 'confirmed', 'parked', 'releasing')"
)
_USED = "SELECT host_id, resource_class, used FROM inventories"
_MOVES = (
    "SELECT m.uuid, m.state, old.state AS old_state, new.state AS new_state FROM moves m"
    " JOIN placements old ON old.uuid = m.uuid AND old.number = m.from_number"
    " LEFT JOIN placements new ON new.uuid = m.uuid AND new.number = m.to_number"
    " WHERE m.state NOT IN ('done', 'failed', 'reverted')"
)
_RUNS = (
    "SELECT i.uuid, h.name AS host, COALESCE(s.observed_power, 'running') AS power FROM instances i"
    " JOIN placements p ON p.uuid = i.uuid AND p.number = i.attempt JOIN hosts h ON h.id = p.host_id"
    " LEFT JOIN instance_states s ON s.uuid = i.uuid WHERE i.status = 'ACTIVE' AND p.state = 'confirmed'"
)
_BOTH: Mapping[str, tuple[Collection[str | None], Collection[str | None]]] = {
    "placing": ({"confirmed"}, {None}),
    "leaving": ({"confirmed"}, {"held", "gone"}),
    "arriving": ({"parked"}, {"confirmed"}),
    "verifying": ({"parked"}, {"confirmed"}),
    "returning": ({"parked"}, {"releasing", "released"}),
}
"""States of the old and of the new place by the state of a move: each that may be used takes its claim."""


def life_faults(
    sites: Sequence[Site], accepted: Mapping[tuple[str, str], int], running: Sequence[Process]
) -> Iterator[str]:
    """Find what is wrong once everything has ended.

    `accepted`: how many actions were accepted at least, by zone and server.
    """
    for site in sites:
        yield from _actions(site, {uuid: n for (zone, uuid), n in accepted.items() if zone == site.name})
        yield from claim_faults(site)
    yield from process_faults(sites, running)


def claim_faults(site: Site) -> Iterator[str]:
    """P3: what claims take of a host is their sum, at any moment, and both places of a move are claimed."""
    claimed: Counter[tuple[str, str]] = Counter()
    claims, used, moves = rows_of(site, _CLAIMS, _USED, _MOVES)
    for row in claims:
        for name, amount in json.loads(row.resources).items():
            claimed[row.host_id, name] += amount
    for row in used:
        if row.used != claimed[row.host_id, row.resource_class]:
            sums = f"{row.used} in use, {claimed[row.host_id, row.resource_class]} claimed"
            yield f"P3 {site.name}: {row.resource_class} of {row.host_id}: {sums}"
    for row in moves:
        olds, news = _BOTH[row.state]
        if row.old_state not in olds or row.new_state not in news:
            yield f"P3 {site.name}: {row.uuid} is {row.state}, its places {row.old_state} and {row.new_state}"


def _actions(site: Site, accepted: Mapping[str, int]) -> Iterator[str]:
    """P9: every accepted action is there, and ended, in the order accepted."""
    (found,) = rows_of(site, _ACTIONS)
    counts: Counter[str] = Counter()
    newest: Counter[str] = Counter()
    for row in sorted(found, key=lambda row: (row.uuid, row.number)):
        what = f"{row.action} {row.number} of {row.uuid}"
        counts[row.uuid] += row.action not in ("create", "delete")
        if not row.finished_at or row.result not in ("done", "error", "superseded"):
            yield f"P9 {site.name}: {what} has the result {row.result!r}"
        if (row.result == "error") != bool(row.reason):
            yield f"P9 {site.name}: {what} is {row.result} for the reason {row.reason!r}"
        if row.generation:
            if row.generation <= newest[row.uuid]:
                yield f"P9 {site.name}: {what} is of no later generation than the one before"
            newest[row.uuid] = row.generation
    for uuid, count in accepted.items():
        if counts[uuid] < count:
            yield f"P9 {site.name}: {count} actions on {uuid} were accepted, {counts[uuid]} are there"


def process_faults(sites: Sequence[Site], running: Sequence[Process]) -> Iterator[str]:
    """P8: what runs on this machine is what the zones say, on the hosts where they say it."""
    wanted: dict[str, tuple[str, bool]] = {}
    for site in sites:
        (found,) = rows_of(site, _RUNS)
        wanted |= {row.uuid: (row.host, row.power == "paused") for row in found if row.power != "stopped"}
    counts = Counter(process.uuid for process in running)
    yield from (f"P8: {uuid} runs {count} times" for uuid, count in counts.items() if count > 1)
    there: dict[str, Any] = {process.uuid: (process.host, process.is_stopped) for process in running}
    for uuid in sorted({*wanted, *there}):
        if wanted.get(uuid) != there.get(uuid):
            yield f"P8: {uuid} is to be {wanted.get(uuid)}, and is {there.get(uuid)} (host, paused)"
