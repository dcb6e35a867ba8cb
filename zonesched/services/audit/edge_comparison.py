"""Comparison of one edge to a child zone, page by page of the child's feed.

Only three things stay in memory, however much the child sends: the instances of this zone that live there,
those with a change that the child has not reported yet, and a limited number of inconsistencies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from zonesched.model.inconsistency import Inconsistency, OfAttempt
from zonesched.model.placement import FINAL, LIVING_STATUSES, InstanceChange, InstanceStatus, PlacementState
from zonesched.store import instances
from zonesched.store.child_placements import PlaceInChild, lost_with_child, places_in_child
from zonesched.store.store import Store, Transaction

Key = tuple[str, int]


@dataclass(frozen=True)
class Unlike:
    """An inconsistency with the state of each side; None where a side has no row of that attempt.

    `confirmed`: numbers of the instance's places in other children that say that it lives there.
    """

    inconsistency: Inconsistency
    here: PlaceInChild | None
    below: InstanceChange | None
    confirmed: frozenset[int] = frozenset()


class EdgeComparison:
    """Inconsistencies between this zone and a child, at most `limit`; `is_cut`: there were more.

    `living`: the attempts that live in the child by this zone's rows, by uuid. Holds in the child that
    expired before `overdue_before` are over.
    """

    def __init__(
        self, store: Store, child_id: str, living: Mapping[str, int], overdue_before: float, limit: int
    ) -> None:
        self._store = store
        self._child_id = child_id
        self._living = living
        self._overdue_before = overdue_before
        self._limit = limit
        self._found: dict[Key, Unlike] = {}
        # The child's line where it has deleted the instance, None before it has a line.
        self._lacking: dict[str, InstanceChange | None] = dict.fromkeys(living)
        self._pending: set[str] = set()
        self._lost: set[Key] = set()
        self.is_cut = False

    def leave_out(self, page: Sequence[InstanceChange]) -> None:
        """Leave out instances with changes that the child has not reported yet."""
        uuids = [item.uuid for item in page]
        for place in self._store.read(lambda tx: places_in_child(tx, self._child_id, uuids)):
            self._pending.add(place.uuid)

    def compare(self, page: Sequence[InstanceChange]) -> None:
        """Compare a page of the child's instances with the rows here; a later line replaces an earlier."""
        here, lost = self._store.read(lambda tx: self._rows(tx, page))
        self._lost |= lost
        found: list[Unlike] = []
        for item in page:
            key = (item.uuid, item.attempt)
            self._found.pop(key, None)
            self._note(item)
            # The sync takes over no changes of attempts that were lost with a child.
            if item.uuid not in self._pending or key in lost:
                place = None if item.uuid in self._pending else here.get(key)
                found += self._judged(item, place, is_lost=key in lost)
        self._keep(found)

    def result(self) -> list[Unlike]:
        """Return the inconsistencies, once all pages were compared."""
        for uuid in self._pending:
            self._lacking.pop(uuid, None)
        kept = [
            unlike for key, unlike in self._found.items() if key[0] not in self._pending or key in self._lost
        ]
        self.is_cut = self.is_cut or len(kept) + len(self._lacking) > self._limit
        lacking = list(islice(self._lacking, self._limit - len(kept)))
        kept += self._store.read(lambda tx: self._own_lacking(tx, lacking))
        callers = self._store.read(lambda tx: _callers(tx, kept))
        return [_with_caller(unlike, callers) for unlike in kept]

    def _rows(
        self, tx: Transaction, page: Sequence[InstanceChange]
    ) -> tuple[Mapping[Key, PlaceInChild], frozenset[Key]]:
        uuids = [item.uuid for item in page]
        places = {(p.uuid, p.number): p for p in places_in_child(tx, self._child_id, uuids)}
        return places, lost_with_child(tx, uuids)

    def _note(self, item: InstanceChange) -> None:
        """Note whether the child has an instance that lives there by this zone's rows."""
        if self._living.get(item.uuid) != item.attempt:
            return
        if item.status is InstanceStatus.DELETED:
            self._lacking[item.uuid] = item
        else:
            self._lacking.pop(item.uuid, None)

    def _judged(
        self, theirs: InstanceChange, place: PlaceInChild | None, *, is_lost: bool
    ) -> Iterator[Unlike]:
        subject = OfAttempt(self._child_id, theirs.uuid, theirs.attempt, "")
        # Also what is left of one that has ended: its owner deletes that in the child.
        is_there = theirs.status is not InstanceStatus.DELETED
        if is_there and (why := self._unknown(theirs, place, is_lost=is_lost)):
            yield Unlike(Inconsistency("child_has_unknown_instance", subject, why), place, theirs)
        if place is None or place.state is not PlacementState.CONFIRMED or place.status is None:
            return
        if theirs.status is not InstanceStatus.DELETED and theirs.status is not place.status:
            detail = f"{place.status.value} here, {theirs.status.value} in the child"
            yield Unlike(Inconsistency("status_differs", subject, detail), place, theirs)

    def _unknown(self, theirs: InstanceChange, place: PlaceInChild | None, *, is_lost: bool) -> str:
        """Tell why an instance should not live in the child; "" for one that this zone sent and still wants.

        A hold may live until it expires.
        """
        if is_lost:
            return "lost when its child zone was removed; a repair restores it here, or deletes it there"
        if place is None:
            return "never placed there"
        is_over = theirs.status is not InstanceStatus.BUILD or place.hold_expires_at < self._overdue_before
        return f"its place is {place.state.value}" if place.state in FINAL and is_over else ""

    def _own_lacking(self, tx: Transaction, uuids: Sequence[str]) -> list[Unlike]:
        """Check that a placement that lives here and was confirmed in the child exists there."""
        found = []
        for place in places_in_child(tx, self._child_id, uuids):
            if place.number == self._living[place.uuid] and _lives(place):
                theirs = self._lacking[place.uuid]
                there = "has deleted it" if theirs else "does not know it"
                subject = OfAttempt(self._child_id, place.uuid, place.number, "")
                inconsistency = Inconsistency("child_lacks_instance", subject, f"the child zone {there}")
                found.append(Unlike(inconsistency, place, theirs))
        return found

    def _keep(self, found: Iterable[Unlike]) -> None:
        for unlike in found:
            assert unlike.below is not None
            if len(self._found) >= self._limit:
                self.is_cut = True
                return
            self._found[unlike.below.uuid, unlike.below.attempt] = unlike


def _lives(place: PlaceInChild) -> bool:
    return place.state is PlacementState.CONFIRMED and place.status in LIVING_STATUSES


def _callers(tx: Transaction, found: Sequence[Unlike]) -> Mapping[str, str]:
    uuids = sorted({unlike.inconsistency.parents_id for unlike in found})
    return {uuid: row.caller_id for uuid, row in instances.read_by_uuid(tx, uuids).items()}


def _with_caller(unlike: Unlike, callers: Mapping[str, str]) -> Unlike:
    subject = unlike.inconsistency.subject
    assert isinstance(subject, OfAttempt)
    owned = replace(subject, caller_id=callers.get(subject.uuid, ""))
    return replace(unlike, inconsistency=replace(unlike.inconsistency, subject=owned))
