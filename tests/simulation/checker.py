"""Final check once every fault has ended, by plain SQL on all databases and without code of the package.

Each line says which promise of the design it is about. What may never be otherwise is `guard`'s.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.simulation.actions import Life, Seen, faults
from tests.simulation.restore_rules import Restored
from tests.simulation.zone_rows import Key, ZoneRows, read

TAKING = ("held", "confirmed", "parked")
OVER = ("confirmed", "gone", "failed", "released")
LATE_FAILURES = (
    "build_failed",
    "build_timeout",
    "lost_by_host",
    "domain_lost",
    "ended_on_host",
    "zone_lost",
    "deleted_in_child",
)
"""Reasons that an instance may have for its ERROR after it was confirmed."""

FOUND_LOST = ("lost_in_restore", "lost_in_child", "place_lost")
"""Likewise, where a zone was put back from a copy, or an operator repaired what a liar had said."""

LEFT_FOR = (
    "build_timeout",
    "shelved",
    "moved",
    "move_timeout",
    "move_not_built",
    "resize_reverted",
    "host_evacuated",
)
AWAITED = {("parked", ""), *(("releasing", reason) for reason in LEFT_FOR)}
"""States and reasons of places that keep their claim until their agent says that nothing is left."""

NEVER = ("deleted_in_child",)
"""Reasons of what nobody does here: to delete below what is wanted above."""

ZONE_LOST = "zone_lost"
"""The reason of what was in a child that its parent has given up."""


@dataclass(frozen=True)
class Promised:
    """Promise to a user: a reservation of instances in a zone, and those that the user has deleted.

    `restored`: those of them that the user may have restored since.
    """

    zone: str
    reservation_id: str
    count: int
    least: int
    deleted: frozenset[str]
    restored: frozenset[str]


@dataclass
class Expected:
    """Expectations that the databases are compared with.

    `running`: (uuid, attempt) by zone, as its agents have them. `seen`: likewise, the generation and power
    that each observes of them. `removed`: zones whose parents have given them up; `were_removed`: those and
    the ones that were added again. `lost_hosts`: names by zone, of hosts whose agents never come back.
    `affine`: groups that are to be together; `most_per_host`: of groups that are to be apart. `liar`: a zone
    that said what it liked, "" for none. `restored`: by zone, its last restore.
    `deleted_below`: instances that a zone's admin has deleted although its parent had sent them.
    """

    promised: Sequence[Promised]
    running: Mapping[str, set[Key]]
    seen: Mapping[str, Mapping[Key, Seen]]
    removed: frozenset[str]
    were_removed: frozenset[str]
    lost_hosts: Mapping[str, frozenset[str]]
    affine: frozenset[str]
    most_per_host: Mapping[str, int]
    liar: str
    restored: Mapping[str, Restored]
    deleted_below: frozenset[str]


def inconsistencies(databases: Mapping[str, sqlite3.Connection], expected: Expected) -> list[str]:
    """Find violated rules once everything has ended."""
    zones = {name: read(name, rows) for name, rows in databases.items()}
    found: list[str] = []
    lost = _lost(zones, expected.removed)
    unsettled = _unsettled(zones, lost)
    for zone in zones.values():
        zone.unsettled = frozenset(uuid for uuid in unsettled if (zone.name, uuid) in lost)
        names = expected.lost_hosts.get(zone.name, frozenset())
        zone.lost_hosts = frozenset(id for id, name in zone.host_names.items() if name in names)
        never = [*(() if expected.restored else NEVER), *(() if expected.were_removed else (ZONE_LOST,))]
        never = [] if expected.liar else never
        found += _unfinished(zone, never, expected.deleted_below)
        found += _own_rows(zone)
        found += _edges(zone, zones)
        found += _agents(zone, expected.running.get(zone.name, set()))
        found += _group_rows(zone)
    found += _promises(zones, expected)
    found += _on_one_host(zones, lost)
    found += _policies(zones, expected, lost)
    lives = {zone.name: _life(zone, expected) for zone in zones.values()}
    found += faults(lives, are_complete=not expected.restored)
    return found


def _life(zone: ZoneRows, expected: Expected) -> Life:
    confirmed = [(key, row) for key, row in zone.places.items() if row["state"] == "confirmed"]
    sent: defaultdict[str, set[str]] = defaultdict(set)
    for (uuid, _), row in confirmed:
        if row["child_id"] in zone.child_names:
            sent[zone.child_names[row["child_id"]]].add(uuid)
    waits = {uuid for (uuid, _), row in zone.places.items() if zone.waits_for_lost(row)}
    return Life(
        zone=zone.name,
        statuses={uuid: row["status"] for uuid, row in zone.instances.items() if uuid not in zone.unsettled},
        states=zone.states,
        actions=zone.actions,
        hosted=[key for key, row in confirmed if row["kind"] == "host"],
        abandoned=frozenset(waits),
        sent=sent,
        seen=expected.seen.get(zone.name, {}),
        images=_images(zone),
    )


def _images(zone: ZoneRows) -> dict[str, str]:
    """Return the image of each instance, from its state or from the request of its boot."""
    booted = {(row["caller_id"], row["id"]): row["spec"] for row in zone.reservations}
    images: dict[str, str] = {}
    for uuid, row in zone.instances.items():
        state, spec = zone.states.get(uuid), booted.get((row["caller_id"], row["reservation_id"]))
        if state is not None and state["image"]:
            image = json.loads(state["image"])
        else:
            image = json.loads(spec)["image"] if spec is not None else None
        images[uuid] = json.dumps(image, sort_keys=True)
    return images


def _unfinished(zone: ZoneRows, never: Sequence[str], deleted_below: Container[str]) -> Iterator[str]:
    """P2: everything ends; only what may run waits for an agent that never comes back."""
    for row in zone.reservations:
        if row["state"] == "open":
            yield f"P2 {zone.name}: reservation {row['id']} is open"
    for (uuid, number), row in zone.places.items():
        waits = zone.is_lost(row) and (row["state"], row["reason"]) in AWAITED
        may_be_parked = uuid in zone.unsettled or zone.returns_from_lost(uuid)
        if row["state"] not in OVER and not waits and not (row["state"] == "parked" and may_be_parked):
            yield f"P2 {zone.name}: place {number} of {uuid} is {row['state']}"
    for move in zone.moves:
        waits = zone.returns_from_lost(move["uuid"]) or move["uuid"] in zone.unsettled
        if move["state"] not in ("done", "failed", "reverted") and not waits:
            yield f"P9 {zone.name}: the move {move['id']} of {move['uuid']} is {move['state']}"
        is_reverting = (move["state"], move["kind"]) == ("returning", "resize")
        if not is_reverting and (move["state"] in ("failed", "returning")) != bool(move["reason"]):
            yield f"P9 {zone.name}: the move {move['id']} is {move['state']} for {move['reason']!r}"
    for uuid, row in zone.instances.items():
        if row["status"] in ("BUILD", "UNKNOWN"):
            yield f"P2 {zone.name}: {uuid} is {row['status']}"
        is_due = (row["reason"], uuid in deleted_below) == ("deleted_in_child", True)
        if row["status"] == "ERROR" and (not row["reason"] or (row["reason"] in never and not is_due)):
            yield f"P2 {zone.name}: {uuid} is ERROR for the reason {row['reason']!r}"


def _own_rows(zone: ZoneRows) -> Iterator[str]:
    """P2, P3: claims belong to living instances, living instances have one place, and sums are right."""
    claimed: Counter[tuple[str, str]] = Counter()
    for (uuid, number), row in zone.places.items():
        if row["kind"] != "host" or row["state"] not in (*TAKING, "releasing"):
            continue
        if row["state"] in TAKING and uuid not in zone.unsettled:
            instance = zone.instances.get(uuid)
            status = instance["status"] if instance else "missing"
            if status != "ACTIVE" or instance is None or instance["attempt"] != number:
                yield f"P2 {zone.name}: place {number} of {uuid} takes room, the instance is {status}"
        if row["state"] == "confirmed" and uuid not in zone.unsettled:
            yield from _wrong_size(zone, uuid, row)
        for name, amount in json.loads(row["resources"]).items():
            claimed[row["host_id"], name] += amount
    for row in zone.inventories:
        if row["used"] != claimed[row["host_id"], row["resource_class"]]:
            yield f"P3 {zone.name}: {row['resource_class']} of {row['host_id']} is {row['used']}, not the sum"
    for uuid, row in zone.instances.items():
        confirmed = [p["number"] for p in zone.places_of(uuid) if _is_there(p, row)]
        if row["status"] == "ACTIVE" and confirmed != [row["attempt"]] and uuid not in zone.unsettled:
            yield f"P2 {zone.name}: {uuid} is ACTIVE at {row['attempt']}, confirmed are {confirmed}"
        # The place it left keeps its claim until its agent is back, where the host was evacuated meanwhile.
        left = [p["number"] for p in zone.places_of(uuid) if p["state"] == "releasing" and zone.is_lost(p)]
        if row["status"] == "OFFLOADED" and set(confirmed) - set(left):
            yield f"P2 {zone.name}: {uuid} is OFFLOADED, confirmed are {confirmed}"
        built = [p["number"] for p in zone.places_of(uuid) if p["state"] == "confirmed"]
        if row["status"] == "DELETED" and built:
            yield f"P2 {zone.name}: {uuid} is DELETED, confirmed are {built}"
    built_by = Counter((row["caller_id"], row["uuid"], row["number"]) for row in zone.builds if row["number"])
    for (_, uuid, number), count in built_by.items():
        if count > 1:
            yield f"P2 {zone.name}: place {number} of {uuid} is of {count} builds"
    entries = Counter(row["entry_key"] for row in zone.places.values() if row["entry_key"])
    for entry, count in entries.items():
        if count > 1:
            yield f"P5 {zone.name}: entry {entry} was used {count} times"


def _wrong_size(zone: ZoneRows, uuid: str, place: sqlite3.Row) -> Iterator[str]:
    """P3: a resized instance claims its new flavor, and nothing else."""
    flavor = zone.states[uuid]["flavor"] if uuid in zone.states else ""
    if flavor and json.loads(flavor)["vcpus"] != json.loads(place["resources"])["VCPU"]:
        yield f"P3 {zone.name}: {uuid} claims {place['resources']}, its flavor is {flavor}"


def _is_there(place: sqlite3.Row, instance: sqlite3.Row) -> bool:
    """Tell whether an instance runs at a place, or waits there for an agent that is to end it.

    It is placed anew only once that is done, or once the agent has ended all by its own clock.
    """
    is_leaving = place["kind"] == "host" and (place["state"], place["reason"]) == ("releasing", "shelved")
    is_present = place["number"] == instance["attempt"]
    return (is_leaving and is_present) or place["state"] in ("confirmed", "parked")


def _edges(zone: ZoneRows, zones: Mapping[str, ZoneRows]) -> Iterator[str]:
    """P2: what lives below was sent by its parent and is alive there, and the other way round."""
    for child_id, child_name in zone.child_names.items():
        child = zones[child_name]
        parent_user = child.user_ids["parent"]
        sent = {(b["uuid"], b["number"]): b["attempt"] for b in child.builds if b["caller_id"] == parent_user}
        for uuid, row in child.instances.items():
            if row["caller_id"] != parent_user or row["status"] == "DELETED":
                continue
            attempt = sent.get((uuid, row["attempt"]))
            place = zone.places.get((uuid, attempt)) if attempt is not None else None
            above = zone.instances.get(uuid)
            if place is None or place["child_id"] != child_id or place["state"] != "confirmed":
                state = place["state"] if place else "missing"
                yield f"P2 {zone.name}: {uuid} is {row['status']} in {child_name}, its place here is {state}"
            elif above is None or above["status"] != row["status"]:
                status = above["status"] if above else "missing"
                yield f"P2 {zone.name}: {uuid} is {status}, in {child_name} {row['status']}"
        for (uuid, number), place in zone.places.items():
            if place["child_id"] != child_id or place["state"] != "confirmed":
                continue
            below = child.instances.get(uuid)
            if below is None or below["status"] == "DELETED" or sent.get((uuid, below["attempt"])) != number:
                yield f"P2 {zone.name}: {uuid} is confirmed in {child_name}, which does not have it"


def _agents(zone: ZoneRows, running: set[Key]) -> Iterator[str]:
    """P2: what runs on a zone's hosts is what is confirmed there."""
    wanted = {
        key
        for key, row in zone.places.items()
        if row["kind"] == "host"
        and row["state"] == "confirmed"
        and not zone.is_lost(row)
        and zone.instances[key[0]]["status"] == "ACTIVE"
    }
    for uuid, number in sorted(wanted - running):
        yield f"P2 {zone.name}: {uuid} at {number} does not run"
    for uuid, number in sorted(running - wanted):
        yield f"P2 {zone.name}: {uuid} at {number} runs and should not"


def _group_rows(zone: ZoneRows) -> Iterator[str]:
    """An affinity group's place is kept as long as anything is there, and no longer."""
    kept: set[tuple[str, str]] = set()
    for (uuid, _), row in zone.places.items():
        instance = zone.instances.get(uuid)
        if instance is not None and instance["group_id"] and row["state"] == "confirmed":
            kept.add((instance["caller_id"], instance["group_id"]))
    for row in zone.groups:
        if (row["caller_id"], row["group_id"]) not in kept:
            yield f"group {zone.name}: the place of {row['group_id']} is kept for nothing"


def _promises(zones: Mapping[str, ZoneRows], expected: Expected) -> Iterator[str]:
    """P2: each boot is there once, ends as a whole, and with at least as many as were asked for."""
    ids = Counter(one.reservation_id for one in expected.promised)
    late = LATE_FAILURES + (FOUND_LOST if expected.restored or expected.liar else ())
    for one in expected.promised:
        restored = expected.restored.get(one.zone)
        if restored is not None and one.reservation_id in restored.forgotten:
            # Its instances were adopted, or an audit has listed them.
            continue
        undeleted = restored.undeleted if restored is not None else ()
        zone = zones[one.zone]
        rows = [row for row in zone.reservations if row["id"] == one.reservation_id]
        members = [row for row in zone.instances.values() if row["reservation_id"] == one.reservation_id]
        if len(rows) != 1 or len(members) != one.count or ids[one.reservation_id] != 1:
            yield f"P2 {one.zone}: boot {one.reservation_id} has {len(rows)} rows, {len(members)} instances"
        active = sum(row["status"] in ("ACTIVE", "OFFLOADED") for row in members)
        ended_later = sum(
            row["uuid"] in one.deleted or (row["status"] == "ERROR" and row["reason"] in late)
            for row in members
        )
        if 0 < active < one.least - ended_later:
            yield f"min_count {one.zone}: boot {one.reservation_id} has {active} of at least {one.least}"
        kept = one.restored.union(undeleted, zone.undone_deletes)
        for row in members:
            if row["status"] == "DELETED" and row["uuid"] not in one.deleted:
                yield f"P2 {one.zone}: {row['uuid']} is DELETED, its user did not"
            if row["status"] != "DELETED" and row["uuid"] in one.deleted - kept:
                yield f"P2 {one.zone}: {row['uuid']} is {row['status']}, its user has deleted it"


def _lost(zones: Mapping[str, ZoneRows], removed: Iterable[str]) -> set[tuple[str, str]]:
    """By zone and uuid, what lives on below parents that have given it up: to them it is an ERROR."""
    lost: set[tuple[str, str]] = set()
    for name in removed:
        below = [zones[name]]
        for zone in below:
            lost.update((zone.name, uuid) for uuid in zones[name].sent_here)
            below += [zones[child] for child in zone.child_names.values()]
    return lost


def _unsettled(zones: Mapping[str, ZoneRows], lost: Container[tuple[str, str]]) -> frozenset[str]:
    return frozenset(
        move["uuid"]
        for zone in zones.values()
        for move in zone.moves
        if move["state"] == "verifying" and (zone.name, move["uuid"]) in lost
    )


def _on_one_host(zones: Mapping[str, ZoneRows], lost: Container[tuple[str, str]]) -> Iterator[str]:
    """P2: an instance is on one host of one zone."""
    places: Counter[str] = Counter()
    for zone in zones.values():
        for (uuid, _), row in zone.places.items():
            instance = zone.instances[uuid]
            is_here = row["state"] in TAKING or (_is_there(row, instance) and instance["status"] == "ACTIVE")
            places[uuid] += row["kind"] == "host" and is_here and (zone.name, uuid) not in lost
    for uuid, count in places.items():
        if count > 1:
            yield f"P2: {uuid} is on {count} hosts"
    owned = defaultdict(list)
    for zone in zones.values():
        for uuid, row in zone.instances.items():
            if row["caller_id"] == zone.uuid:
                owned[uuid].append((zone.name, row["status"]))
    for uuid, owners in owned.items():
        if any(status == "ACTIVE" for _, status in owners) != (places[uuid] == 1):
            yield f"P2: {uuid} is {owners}, and on {places[uuid]} hosts"
    for uuid, count in places.items():
        if count and uuid not in owned:
            yield f"P2: {uuid} is on a host and nobody's"


def _policies(
    zones: Mapping[str, ZoneRows], expected: Expected, lost: Container[tuple[str, str]]
) -> Iterator[str]:
    """Groups are together, or apart."""
    hosts: dict[str, Counter[Any]] = defaultdict(Counter)
    group_of = {
        uuid: row["group_id"]
        for zone in zones.values()
        for uuid, row in zone.instances.items()
        if row["caller_id"] == zone.uuid and row["group_id"]
    }
    for zone in zones.values():
        for (uuid, _), row in zone.places.items():
            is_there = row["kind"] == "host" and row["state"] == "confirmed"
            if is_there and uuid in group_of and (zone.name, uuid) not in lost:
                hosts[group_of[uuid]][zone.name, row["host_id"]] += 1
    for group, found in hosts.items():
        if group in expected.affine and len(found) > 1:
            yield f"group: {group} is to be together and is on {len(found)} hosts"
        most = expected.most_per_host.get(group)
        if most is not None and max(found.values()) > most:
            yield f"group: {group} is to be apart and has {max(found.values())} on one host"
