"""The audit of the edges to the child zones: instances built there, by the rows of both sides.

A change that a child reports at the next sync is not known here yet, and is no inconsistency: the child is
asked for changes last, so that they include those made during the comparison.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from zonesched.errors import ChildUnreachable
from zonesched.model.inconsistency import Inconsistency, OfAttempt, OfChild
from zonesched.model.placement import FINAL, LIVING_STATUSES, InstanceChange, InstanceStatus, PlacementState
from zonesched.services.audit.audit import GRACE_S
from zonesched.services.zone import Zone
from zonesched.store import children as child_rows
from zonesched.store import instances
from zonesched.store.child_placements import PlaceInChild, lost_with_child, places_in_child
from zonesched.zones.client import ChildClient

MAX_UNKNOWN = 100_000
"""Lines that a child may report beside two for each placement there: all of them are in memory at once."""
Key = tuple[str, int]


@dataclass(frozen=True)
class Unlike:
    """An inconsistency with the state of each side; None where a side has no row of that attempt."""

    inconsistency: Inconsistency
    here: PlaceInChild | None
    below: InstanceChange | None


@dataclass(frozen=True)
class _Edge:
    """Rows of both sides of one edge, by (uuid, attempt), and the owner of each instance here.

    `lost`: attempts that ended here because their child was removed, before it was added again.
    """

    child_id: str
    here: Mapping[Key, PlaceInChild]
    below: Mapping[Key, InstanceChange]
    callers: Mapping[str, str]
    lost: frozenset[Key]


def across_edges(zone: Zone, budget_s: float = math.inf) -> list[Inconsistency]:
    """Find all inconsistencies between this zone and its children; a child without an answer is one itself.

    No child is asked after `budget_s` seconds.
    """
    return [found.inconsistency for found in compare(zone, budget_s)]


def compare(zone: Zone, budget_s: float = math.inf) -> list[Unlike]:
    """Variant of `across_edges` with the states of both sides."""
    ends_at = zone.clock.monotonic() + budget_s
    found: list[Unlike] = []
    for child in zone.store.read(child_rows.read_all):
        try:
            edge = _read(zone, child.id, ends_at)
        except ChildUnreachable as error:
            unknown = Inconsistency("child_not_compared", OfChild(child.id), error.code)
            found.append(Unlike(unknown, None, None))
            continue
        found += [*_lacking(edge), *_unknown(edge, _overdue_before(zone)), *_status_differs(edge)]
    return sorted(found, key=lambda unlike: unlike.inconsistency.order)


def _overdue_before(zone: Zone) -> float:
    return float(zone.clock.now() - 2 * zone.conf.hold - zone.conf.hold_margin - GRACE_S)


def _read(zone: Zone, child_id: str, ends_at: float) -> _Edge:
    """Read both sides, without the changes that the child has not reported yet. Raises ChildUnreachable."""
    client = zone.child_client(child_id).within(ends_at)
    places, cursors = zone.store.read(lambda tx: (places_in_child(tx, child_id), child_rows.cursors(tx)))
    max_lines = 2 * len(places) + MAX_UNKNOWN
    theirs = {(item.uuid, item.attempt): item for item in _changes(zone, client, "", max_lines)}
    pending = {item.uuid for item in _changes(zone, client, cursors.get(child_id, ""), max_lines)}
    uuids = sorted({p.uuid for p in places} | {uuid for uuid, _ in theirs})
    rows = zone.store.read(lambda tx: instances.read_by_uuid(tx, uuids))
    lost = zone.store.read(lambda tx: lost_with_child(tx, sorted({uuid for uuid, _ in theirs})))
    return _Edge(
        child_id,
        {(p.uuid, p.number): p for p in places if p.uuid not in pending},
        # The sync takes over no changes of attempts that were lost with a child.
        {key: item for key, item in theirs.items() if item.uuid not in pending or key in lost},
        {uuid: row.caller_id for uuid, row in rows.items()},
        lost,
    )


def _changes(zone: Zone, client: ChildClient, cursor: str, max_lines: int) -> Iterator[InstanceChange]:
    """Read a child's feed page by page. Raises ChildUnreachable where it has more than `max_lines`."""
    lines = 0
    while lines <= max_lines:
        page = client.changes(cursor, zone.conf.build_timeout)
        yield from page.items
        if not page.more:
            return
        cursor = page.cursor
        lines += len(page.items)
    raise ChildUnreachable("The child zone reports changes without end.", code="child_invalid_answer")


def _lacking(edge: _Edge) -> Iterable[Unlike]:
    """Check that a placement that lives here and was confirmed in the child exists there."""
    for key, place in edge.here.items():
        theirs = edge.below.get(key)
        if _lives(place) and (theirs is None or theirs.status is InstanceStatus.DELETED):
            there = "has deleted it" if theirs else "does not know it"
            found = Inconsistency("child_lacks_instance", _subject(edge, key), f"the child zone {there}")
            yield Unlike(found, place, theirs)


def _unknown(edge: _Edge, overdue_before: float) -> Iterable[Unlike]:
    """Check that a placement that lives in the child was sent by this zone and is still wanted.

    A hold may live until it expires.
    """
    for key, theirs in edge.below.items():
        place = edge.here.get(key)
        if theirs.status not in LIVING_STATUSES:
            continue
        if key in edge.lost:
            detail = "lost when its child zone was removed; a repair takes it back, or deletes it there"
        elif place is None:
            detail = "never placed there"
        elif place.state in FINAL and (
            theirs.status is not InstanceStatus.BUILD or place.hold_expires_at < overdue_before
        ):
            detail = f"its place is {place.state.value}"
        else:
            continue
        yield Unlike(Inconsistency("child_has_unknown_instance", _subject(edge, key), detail), place, theirs)


def _status_differs(edge: _Edge) -> Iterable[Unlike]:
    """Check that an instance has the status that its child reported."""
    for key, place in edge.here.items():
        theirs = edge.below.get(key)
        if place.state is not PlacementState.CONFIRMED or place.status is None or theirs is None:
            continue
        if theirs.status is not InstanceStatus.DELETED and theirs.status is not place.status:
            detail = f"{place.status.value} here, {theirs.status.value} in the child"
            yield Unlike(Inconsistency("status_differs", _subject(edge, key), detail), place, theirs)


def _lives(place: PlaceInChild) -> bool:
    return place.state is PlacementState.CONFIRMED and place.status in LIVING_STATUSES


def _subject(edge: _Edge, key: Key) -> OfAttempt:
    uuid, attempt = key
    return OfAttempt(edge.child_id, uuid, attempt, edge.callers.get(uuid, ""))
