"""The audit across the edges to the child zones: what was built below, by both sides' rows. Repairs nothing.

What a child would tell at the next sync is not known here yet, and is no difference: it is asked for last, so
that whatever changed during the comparison is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from zonesched.errors import ChildUnreachable
from zonesched.model.placement import InstanceChange, InstanceStatus, PlacementState
from zonesched.model.views import Difference
from zonesched.services.audit import GRACE_S
from zonesched.services.zone import Zone
from zonesched.store import children as child_rows
from zonesched.store.places_below import PlaceBelow, places_below
from zonesched.zones.client import ChildClient

MOST_PAGES = 10_000
LIVING = (InstanceStatus.BUILD, InstanceStatus.ACTIVE, InstanceStatus.UNKNOWN)
OVER = (PlacementState.GONE, PlacementState.FAILED, PlacementState.RELEASED)
Key = tuple[str, int]


@dataclass(frozen=True)
class _Edge:
    """What both sides of one edge say, by (uuid, attempt)."""

    child_id: str
    here: Mapping[Key, PlaceBelow]
    below: Mapping[Key, InstanceChange]


def across_edges(zone: Zone) -> list[Difference]:
    """All differences between this zone and its children; a child without an answer is one itself."""
    found: list[Difference] = []
    for child in zone.store.read(child_rows.read_all):
        try:
            edge = _read(zone, child.id)
        except ChildUnreachable as error:
            found.append(Difference("child_not_compared", f"child {child.id}", error.code))
            continue
        found += [*_lacking(edge), *_unknown(edge, _overdue_before(zone)), *_status_differs(edge)]
    return sorted(found, key=lambda d: (d.kind, d.subject, d.detail))


def _overdue_before(zone: Zone) -> float:
    return float(zone.clock.now() - 2 * zone.conf.hold - zone.conf.hold_margin - GRACE_S)


def _read(zone: Zone, child_id: str) -> _Edge:
    """Both sides, without what the child has not told yet. Raises ChildUnreachable."""
    client = zone.child_client(child_id)
    places, cursors = zone.store.read(lambda tx: (places_below(tx, child_id), child_rows.cursors(tx)))
    told = {(item.uuid, item.attempt): item for item in _changes(zone, client, "")}
    pending = {item.uuid for item in _changes(zone, client, cursors.get(child_id, ""))}
    return _Edge(
        child_id,
        {(p.uuid, p.number): p for p in places if p.uuid not in pending},
        {key: item for key, item in told.items() if item.uuid not in pending},
    )


def _changes(zone: Zone, client: ChildClient, cursor: str) -> Iterator[InstanceChange]:
    for _ in range(MOST_PAGES):
        page = client.changes(cursor, zone.conf.build_timeout)
        yield from page.items
        if not page.more:
            return
        cursor = page.cursor
    raise ChildUnreachable("The child zone tells changes without end.", code="child_invalid_answer")


def _lacking(edge: _Edge) -> Iterable[Difference]:
    """What was confirmed below and lives here exists there."""
    for key, place in edge.here.items():
        told = edge.below.get(key)
        if _lives(place) and (told is None or told.status is InstanceStatus.DELETED):
            there = "has deleted it" if told else "does not know it"
            yield _difference("child_lacks_instance", edge, key, f"the child zone {there}")


def _unknown(edge: _Edge, overdue_before: float) -> Iterable[Difference]:
    """What lives below was sent by this zone and is still wanted; a hold may live until its time is over."""
    for key, told in edge.below.items():
        place = edge.here.get(key)
        if told.status not in LIVING:
            continue
        if place is None:
            yield _difference("child_has_unknown_instance", edge, key, "never placed there")
        elif place.state in OVER and (
            told.status is not InstanceStatus.BUILD or place.hold_expires_at < overdue_before
        ):
            yield _difference("child_has_unknown_instance", edge, key, f"its place is {place.state.value}")


def _status_differs(edge: _Edge) -> Iterable[Difference]:
    """An instance has the status that its child has told."""
    for key, place in edge.here.items():
        told = edge.below.get(key)
        if place.state is not PlacementState.CONFIRMED or place.status is None or told is None:
            continue
        if told.status is not InstanceStatus.DELETED and told.status is not place.status:
            detail = f"{place.status.value} here, {told.status.value} below"
            yield _difference("status_differs", edge, key, detail)


def _lives(place: PlaceBelow) -> bool:
    return place.state is PlacementState.CONFIRMED and place.status in LIVING


def _difference(kind: str, edge: _Edge, key: Key, detail: str) -> Difference:
    return Difference(kind, f"instance {key[0]} attempt {key[1]} in child {edge.child_id}", detail)
