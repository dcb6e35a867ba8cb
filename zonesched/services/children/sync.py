"""What children tell of the instances they were given, and when they are asked for it.

While something below is unfinished they are asked often: after `retry_pause` at first, and less often the
longer nothing new has been sent; else each `instance_sync_interval`. How long ago that was is read from the
rows, so that it does not matter which process of the zone has sent it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from functools import partial

from zonesched.conf import Conf
from zonesched.model.placement import (
    LIVING_STATUSES,
    TO_BUILD,
    BuildState,
    InstanceChange,
    InstanceStatus,
    PlacementState,
)
from zonesched.seams import Done
from zonesched.services.children.returned import ready_ids
from zonesched.services.placing.build_retry import build_failed, lock_with_alternates
from zonesched.services.zone import Zone
from zonesched.store import children as child_rows
from zonesched.store import feed, identity, instances, placements
from zonesched.store.instances import Instance
from zonesched.store.placements import InChild, Placement
from zonesched.store.store import Transaction
from zonesched.zones.child import Changes, Ready
from zonesched.zones.client import ChildClient

log = logging.getLogger(__name__)

State = PlacementState
PAUSE_PER_AGE = 0.25
"""Pause between two questions, as a share of the time since something was sent."""


class Sync:
    """When this process asks the zone's children next."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._asked_at = -math.inf
        self._asked: frozenset[str] = frozenset()

    def step(self) -> float:
        """Ask if it is time; the pause until the next look, which costs a child nothing."""
        clock, conf = self._zone.clock, self._zone.conf
        ready = ready_ids(self._zone)
        # One that has come back is asked at once: what it has to tell may be long awaited.
        if ready - self._asked or clock.monotonic() >= self._due_at():
            there_is_more = ask(self._zone)
            self._asked_at = -math.inf if there_is_more else clock.monotonic()
        self._asked = ready
        left_s = self._due_at() - clock.monotonic()
        return float(max(0.0, min(left_s, conf.boot_poll_interval)))

    def _due_at(self) -> float:
        zone = self._zone
        age_s = zone.clock.now() - zone.store.read(feed.newest_unfinished_below)
        return self._asked_at + pause_s(zone.conf, age_s)


def pause_s(conf: Conf, age_s: float) -> float:
    """Seconds between two questions, `age_s` after the last of what is unfinished was sent."""
    return float(min(conf.instance_sync_interval, max(conf.retry_pause, age_s * PAUSE_PER_AGE)))


def ask(zone: Zone) -> bool:
    """Ask each child once what has changed; whether a child has more to tell."""
    known = [k.child for k in zone.children.snapshot() if isinstance(k.status, Ready)]
    cursors = zone.store.read(child_rows.cursors)
    timeout_s = zone.conf.build_timeout

    def question(child_id: str) -> Callable[[ChildClient], Changes]:
        return lambda client: client.changes(cursors.get(child_id, ""), timeout_s)

    outcomes = zone.children.call([(child.id, question(child.id)) for child in known], timeout_s)
    more = False
    for child, outcome in zip(known, outcomes, strict=True):
        if isinstance(outcome, Done):
            asked_from = cursors.get(child.id, "")
            taken = zone.store.write(partial(_apply, zone, child.id, asked_from, outcome.value))
            wake_for(zone, outcome.value.items)
            more = more or (taken and outcome.value.more)
    return more


def _apply(zone: Zone, child_id: str, asked_from: str, changes: Changes, tx: Transaction) -> bool:
    """Take a page over, unless another process has read further meanwhile: this one is older then."""
    if not child_rows.is_at(tx, child_id, asked_from):
        return False
    apply_changes(zone, tx, child_id, changes.items)
    child_rows.set_cursor(tx, child_id, changes.cursor)
    return True


def wake_for(zone: Zone, items: Sequence[InstanceChange]) -> None:
    """Let go on what follows from these changes: another place for what failed, the end of what ended."""
    if any(item.state is BuildState.FAILED for item in items):
        zone.wake.boots()
    if any(item.status is InstanceStatus.ERROR for item in items):
        zone.wake.child_calls()


def apply_changes(zone: Zone, tx: Transaction, child_id: str, items: Sequence[InstanceChange]) -> None:
    """Bring instances to what their child says, as far as their present placement is the one it speaks of.

    What is said of an attempt whose confirm is not answered yet is that answer. A build that failed is tried
    elsewhere; of an instance that has ended in ERROR, what is left below is deleted.
    """
    items = _news(tx, items)
    failed = [item.uuid for item in items if item.state is BuildState.FAILED]
    lock_with_alternates(tx, [item.uuid for item in items], failed)
    change, now = identity.next_change(tx), zone.clock.now()
    places = {p.key: p for p in placements.read_by_uuid(tx, [item.uuid for item in items])}
    rows = instances.read_by_uuid(tx, [item.uuid for item in items])
    for item in items:
        place = places.get((item.uuid, item.attempt))
        if place is None or not isinstance(place.where, InChild) or place.where.child_id != child_id:
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


def _news(tx: Transaction, items: Sequence[InstanceChange]) -> list[InstanceChange]:
    """Without what is as they say already: most have been told by the answers to this zone's own calls."""
    known = placements.unmarred(tx, [item.uuid for item in items])
    confirmed = State.CONFIRMED.value
    return [
        item
        for item in items
        if item.state is not BuildState.CONFIRMED
        or known.get((item.uuid, item.attempt)) != (confirmed, item.status.value)
    ]


def _take_over(
    tx: Transaction, change: int, place: Placement, row: Instance, item: InstanceChange, now: float
) -> None:
    """The status of an instance that was built below, and the end of its place there with that of itself."""
    match item.status:
        case InstanceStatus.DELETED:
            # Not by us: whoever runs the child has deleted it.
            placements.move(tx, change, place, State.RELEASED, reason="deleted_below")
            status, reason = InstanceStatus.ERROR, "deleted_below"
        case InstanceStatus.ERROR:
            placements.move(tx, change, place, State.RELEASING, reason=item.reason, next_call_at=now)
            status, reason = InstanceStatus.ERROR, item.reason
        case _:
            if place.state is State.CONFIRMING:
                placements.move(tx, change, place, State.CONFIRMED)
            status, reason = item.status, ""
    if (status, reason) != (row.status, row.reason):
        instances.set_status(tx, change, [item.uuid], status, now, reason=reason)
