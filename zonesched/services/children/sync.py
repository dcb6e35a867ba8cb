"""Sync of child zones: reads their changes of instances, and decides when to ask for them.

A child with unfinished instances is asked after `retry_pause` at first, and less often the longer no new
build was sent; else every `instance_sync_interval`. The rows keep the time of the last send,
so any process of the zone may have sent it. A child that has more changes is asked again at once, the others
are not; one that reports more than its placements can have gets a pause (`feed_allowance`).

Each child has a bulkhead of its own. One that hangs keeps that busy until the call times out; until then no
step asks it, and the others are asked as if it were not there.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from zonesched.conf import Conf
from zonesched.model.observed_state import NO_MOVES, MoveCounts, Observed
from zonesched.model.placement import (
    LIVING_STATUSES,
    TO_BUILD,
    BuildState,
    InstanceChange,
    InstanceStatus,
    PlacementState,
)
from zonesched.seams import Bulkhead, Done, Failed
from zonesched.services.children import draining
from zonesched.services.children.feed_allowance import FeedAllowance
from zonesched.services.children.returned import ready_ids
from zonesched.services.life.leaving import leave
from zonesched.services.life.observing import adopt, observe
from zonesched.services.life.shelving import SHELVED, note_offloaded
from zonesched.services.placing.build_retry import build_failed, lock_with_alternates
from zonesched.services.state.wake import Wake
from zonesched.services.zone import Zone
from zonesched.store import children as child_rows
from zonesched.store import feed, identity, instance_states, instances, placements
from zonesched.store.child_placements import count_in_child
from zonesched.store.instance_states import StoredState
from zonesched.store.instances import Instance
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.store import Store, Transaction
from zonesched.zones.child import Changes, Ready
from zonesched.zones.client import ChildClient

log = logging.getLogger(__name__)

State = PlacementState
PAUSE_PER_AGE = 0.25
"""Pause between two polls, as a share of the time since the last send."""

LINES_AT_ONCE = 1000
"""Changes that are applied in one transaction: other writers wait for no more."""


class Sync:
    """Schedule of this process for polling the zone's children."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._lock = threading.Lock()
        self._asked_at = -math.inf
        self._asked: frozenset[str] = frozenset()
        self._reading: set[str] = set()
        self._behind: set[str] = set()
        self._allowance = FeedAllowance()

    def step(self) -> float:
        """Ask the children that are due; return the pause until the next step."""
        zone = self._zone
        ready = ready_ids(zone.children)
        # A child that has returned is asked at once: its changes may be long awaited.
        due = (ready - self._asked) | self._behind_of(ready)
        if zone.clock.monotonic() >= self._due_at():
            due, self._asked_at = ready, zone.clock.monotonic()
        self._asked = ready
        # Apart from the bulkheads of the calls themselves, which these threads wait for.
        reads = [(Bulkhead(f"{id_}-sync", 1), partial(self._read, id_)) for id_ in self._may_ask(due)]
        for outcome in zone.executor.gather(reads, zone.conf.retry_pause):
            if isinstance(outcome, Failed):
                log.error(
                    "a child's changes could not be taken and are asked for again", exc_info=outcome.error
                )
        if self._behind_of(ready):
            return 0.0
        left_s = self._due_at() - zone.clock.monotonic()
        return float(max(0.0, min(left_s, zone.conf.boot_poll_interval)))

    def _behind_of(self, ready: frozenset[str]) -> frozenset[str]:
        with self._lock:
            return ready & self._behind

    def _may_ask(self, due: frozenset[str]) -> Sequence[str]:
        """Return those of these children that have no pause and no read under way."""
        now = self._zone.clock.monotonic()
        with self._lock:
            self._allowance.keep(self._names())
            self._behind -= due
            return sorted(id_ for id_ in due - self._reading if self._allowance.may_ask(id_, now))

    def _names(self) -> Mapping[str, str]:
        return {known.child.id: known.child.name for known in self._zone.children.snapshot()}

    def _read(self, child_id: str) -> None:
        """Read a page of a child, in a thread of its own; note whether it has more."""
        with self._lock:
            if child_id in self._reading:
                return
            self._reading.add(child_id)
        try:
            asked = ask(self._zone, [child_id])
            is_paused = child_id in asked.lines and self._is_too_much(child_id, asked.lines[child_id])
        finally:
            with self._lock:
                self._reading.discard(child_id)
        if child_id in asked.behind and not is_paused:
            with self._lock:
                self._behind.add(child_id)
            # The step that began the read may be over.
            self._zone.wake.sync()

    def _is_too_much(self, child_id: str, lines: int) -> bool:
        """Count the lines of a page; return true if the child gets a pause."""
        zone = self._zone
        count = partial(_count_placements, zone.store, child_id)
        with self._lock:
            pause_s = self._allowance.spend(child_id, lines, count, zone.clock.monotonic())
        if pause_s:
            log.warning(
                "child zone %s reports more changes than its placements can have;"
                " it is not asked for changes for %d seconds",
                self._names().get(child_id, child_id),
                pause_s,
            )
        return pause_s > 0

    def _due_at(self) -> float:
        zone = self._zone
        age_s = zone.clock.now() - zone.store.read(_newest_unfinished)
        return self._asked_at + pause_s(zone.conf, age_s)


def _newest_unfinished(tx: Transaction) -> float:
    """Return when a child was last sent work that it has not reported as done (epoch seconds)."""
    built = feed.newest_unfinished_in_children(tx)
    return max(built, instance_states.newest_pending_in_children(tx))


def pause_s(conf: Conf, age_s: float) -> float:
    """Return the seconds between two polls, `age_s` after the last unfinished build was sent."""
    return float(min(conf.instance_sync_interval, max(conf.retry_pause, age_s * PAUSE_PER_AGE)))


def _count_placements(store: Store, child_id: str) -> int:
    return store.read(lambda tx: count_in_child(tx, child_id))


@dataclass(frozen=True)
class Asked:
    """The number of lines in each child's page, by child id; `behind`: the children that have more."""

    lines: Mapping[str, int]
    behind: frozenset[str]


def ask_all(zone: Zone) -> Asked:
    """Ask each child once for its changes."""
    return ask(zone, ready_ids(zone.children))


def ask(zone: Zone, child_ids: Collection[str]) -> Asked:
    """Ask those of these children that are ready once for their changes."""
    known = [k.child for k in zone.children.snapshot() if isinstance(k.status, Ready)]
    known = [child for child in known if child.id in child_ids]
    cursors = zone.store.read(child_rows.cursors)
    timeout_s = zone.conf.build_timeout

    def question(child_id: str) -> Callable[[ChildClient], Changes]:
        return lambda client: client.changes(cursors.get(child_id, ""), timeout_s)

    calls = [(child.id, question(child.id)) for child in known]
    lines: dict[str, int] = {}
    behind: set[str] = set()
    with zone.children.hand("") as hand:
        outcomes = zone.children.call(calls, timeout_s, hand=hand)
        for child, outcome in zip(known, outcomes, strict=True):
            if isinstance(outcome, Done):
                lines[child.id] = len(outcome.value.items)
                if _take(zone, child.id, cursors.get(child.id, ""), outcome.value) and outcome.value.more:
                    behind.add(child.id)
                wake_for(zone.wake, outcome.value.items)
    return Asked(lines, frozenset(behind))


def _take(zone: Zone, child_id: str, asked_from: str, changes: Changes) -> bool:
    """Apply a page; return false if another process has read further meanwhile."""
    if not changes.items and changes.cursor == asked_from:
        # A child at rest costs no commit.
        return True
    last = max(0, len(changes.items) - 1) // LINES_AT_ONCE
    for number in range(last + 1):
        items = changes.items[number * LINES_AT_ONCE : (number + 1) * LINES_AT_ONCE]
        cursor = changes.cursor if number == last else asked_from
        if not zone.store.write(partial(_apply, zone, child_id, asked_from, items, cursor)):
            return False
    return True


def _apply(
    zone: Zone,
    child_id: str,
    asked_from: str,
    items: Sequence[InstanceChange],
    cursor: str,
    tx: Transaction,
) -> bool:
    """Apply changes and move the cursor, unless another process has read further meanwhile."""
    if not child_rows.is_at(tx, child_id, asked_from):
        return False
    apply_changes(zone, tx, child_id, items)
    child_rows.set_cursor(tx, child_id, cursor)
    return True


def wake_for(wake: Wake, items: Sequence[InstanceChange]) -> None:
    """Wake the listeners for these changes: boot workers for failed builds, and calls that end instances."""
    if any(item.state is BuildState.FAILED for item in items):
        wake.boots()
    if any(item.status in (InstanceStatus.ERROR, InstanceStatus.OFFLOADED) for item in items):
        wake.child_calls()
    if any(item.status is InstanceStatus.OFFLOADED for item in items):
        wake.boots()


def apply_changes(zone: Zone, tx: Transaction, child_id: str, items: Sequence[InstanceChange]) -> None:
    """Apply a child's changes to the instances whose present placement they name.

    A change of an attempt whose confirm is unanswered counts as that answer. A failed build is tried
    elsewhere; the remains of an instance in ERROR are deleted in the child.
    """
    items = _news(tx, items)
    failed = [item.uuid for item in items if item.state is BuildState.FAILED]
    lock_with_alternates(tx, [item.uuid for item in items], failed)
    change, now = identity.next_change(tx), zone.clock.now()
    places = {p.key: p for p in placements.read_by_uuid(tx, [item.uuid for item in items])}
    rows = instances.read_by_uuid(tx, [item.uuid for item in items])
    seen: list[InstanceChange] = []
    left: list[Placement] = []
    for item in items:
        place = places.get((item.uuid, item.attempt))
        if place is None or not isinstance(place.where, AskedChild) or place.where.child_id != child_id:
            continue
        if place.state not in TO_BUILD:
            continue
        row = rows[item.uuid]
        if item.state is BuildState.FAILED:
            build_failed(zone, tx, change, place, now, item.reason or "build_failed")
        elif place.state is State.CONFIRMING and item.state is not BuildState.CONFIRMED:
            continue
        elif row.attempt == item.attempt and row.status in LIVING_STATUSES:
            _take_over(tx, change, place, row, item, now)
            seen.append(item)
            if item.status is InstanceStatus.OFFLOADED:
                left.append(place)
    is_active = InstanceStatus.ACTIVE
    built_at = {u: row.updated_at if row.status is is_active else now for u, row in rows.items()}
    note_states(tx, change, seen, built_at, now)
    _rest(zone, tx, change, left, now)


def note_states(
    tx: Transaction,
    change: int,
    items: Sequence[InstanceChange],
    built_at: Mapping[str, float],
    now: float,
) -> None:
    """Note what a child has observed of instances that live there, and which of them move."""
    there = [item for item in items if item.status in (InstanceStatus.ACTIVE, InstanceStatus.OFFLOADED)]
    seen = [(item.uuid, item.observed) for item in there if item.observed is not None]
    if seen:
        _reconcile(tx, seen, built_at)
        observe(tx, change, seen, built_at, now)
    if there:
        _note_moves(tx, change, {item.uuid: item.moves for item in there}, built_at, now)


def _rest(zone: Zone, tx: Transaction, change: int, left: Sequence[Placement], now: float) -> None:
    """Let shelved instances rest of which a child has nothing left; the child evacuated any others.

    Those are placed anew, as often as a failed build is; so are drained ones.
    """
    shelved = note_offloaded(tx, change, left, now)
    draining.place_anew(zone.uuid, tx, change, shelved, now)
    lost = [place for place in left if place.uuid not in shelved]
    tried = {place.uuid: instances.note_failed_build(tx, place.uuid) for place in lost}
    resting = [uuid for uuid, count in tried.items() if count >= zone.conf.max_attempts]
    leave(tx, change, zone.uuid, lost, now, user_id=zone.uuid, resting=resting)


def _note_moves(
    tx: Transaction,
    change: int,
    moving: Mapping[str, MoveCounts],
    built_at: Mapping[str, float],
    now: float,
) -> None:
    """Note which instances move inside a child, for their owners and this zone's own parent.

    A child that was put back from a copy counts fewer moves than it did. So does an old answer about one
    instance, but then a later page of the feed has it as well.
    """
    rows = instance_states.read(tx, sorted(moving))
    other = [
        (rows.get(uuid) or StoredState(uuid, built_at=built_at[uuid])).moving(moves)
        for uuid, moves in sorted(moving.items())
        if moves != (rows[uuid].state.moves if uuid in rows else NO_MOVES)
    ]
    instance_states.write(tx, other, rows.keys())
    if other:
        instances.touch(tx, change, [row.uuid for row in other], now)


def _reconcile(tx: Transaction, seen: Sequence[tuple[str, Observed]], built_at: Mapping[str, float]) -> None:
    """Adopt what a child knows better, and tell it again what it has forgotten.

    Either's database was put back from a copy.
    """
    rows = instance_states.read(tx, [uuid for uuid, _ in seen])
    instance_states.write(tx, adopt(rows, seen, built_at), rows.keys())
    forgotten = [
        replace(row, told_generation=observed.generation, next_call_at=0.0)
        for uuid, observed in seen
        if (row := rows.get(uuid)) is not None
        and observed.generation < min(row.state.observed.generation, row.told_generation)
    ]
    instance_states.write(tx, forgotten, rows.keys())


def _news(tx: Transaction, items: Sequence[InstanceChange]) -> list[InstanceChange]:
    """Leave out changes that the rows already have: most came with the answers to this zone's own calls.

    Of several about one attempt, which only a lying child sends, the last one counts.
    """
    last = {(item.uuid, item.attempt): item for item in items}
    known = placements.without_fault(tx, [item.uuid for item in items])
    confirmed = State.CONFIRMED.value
    return [
        item
        for item in last.values()
        if item.state is not BuildState.CONFIRMED
        or item.observed is not None
        or known.get((item.uuid, item.attempt)) != (confirmed, item.status.value)
    ]


def _take_over(
    tx: Transaction, change: int, place: Placement, row: Instance, item: InstanceChange, now: float
) -> None:
    """Set the status of an instance that was built in a child; its placement ends with it."""
    match item.status:
        case InstanceStatus.DELETED:
            # This zone did not delete it; the child's admin did.
            placements.move(tx, change, place, State.RELEASED, reason="deleted_in_child")
            status, reason = InstanceStatus.ERROR, "deleted_in_child"
        case InstanceStatus.ERROR:
            # Only a lying child gives no reason.
            status, reason = InstanceStatus.ERROR, item.reason or "build_failed"
            placements.move(tx, change, place, State.RELEASING, reason=reason, next_call_at=now)
        case InstanceStatus.OFFLOADED:
            # Nothing is left of it there but its row; `note_offloaded` sets the status.
            placements.move(tx, change, place, State.RELEASING, reason=SHELVED, next_call_at=now)
            return
        case _:
            if place.state is State.CONFIRMING:
                placements.move(tx, change, place, State.CONFIRMED)
            status, reason = item.status, ""
    if (status, reason) != (row.status, row.reason):
        instances.set_status(tx, change, [item.uuid], status, now, reason=reason)
