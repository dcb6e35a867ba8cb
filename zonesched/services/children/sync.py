"""Sync of child zones: reads their changes of instances, and decides when to ask for them.

A child with unfinished instances is asked after `retry_pause` at first, and less often the longer no new
build was sent; else every `instance_sync_interval`. The rows keep the time of the last send,
so any process of the zone may have sent it.
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
"""Pause between two polls, as a share of the time since the last send."""


class Sync:
    """Schedule of this process for polling the zone's children."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._asked_at = -math.inf
        self._asked: frozenset[str] = frozenset()

    def step(self) -> float:
        """Ask the children that are due; return the pause until the next step."""
        clock, conf = self._zone.clock, self._zone.conf
        ready = ready_ids(self._zone)
        # A child that has returned is asked at once: its changes may be long awaited.
        if ready - self._asked or clock.monotonic() >= self._due_at():
            there_is_more = ask(self._zone)
            self._asked_at = -math.inf if there_is_more else clock.monotonic()
        self._asked = ready
        left_s = self._due_at() - clock.monotonic()
        return float(max(0.0, min(left_s, conf.boot_poll_interval)))

    def _due_at(self) -> float:
        zone = self._zone
        age_s = zone.clock.now() - zone.store.read(feed.newest_unfinished_in_children)
        return self._asked_at + pause_s(zone.conf, age_s)


def pause_s(conf: Conf, age_s: float) -> float:
    """Return the seconds between two polls, `age_s` after the last unfinished build was sent."""
    return float(min(conf.instance_sync_interval, max(conf.retry_pause, age_s * PAUSE_PER_AGE)))


def ask(zone: Zone) -> bool:
    """Ask each child once for its changes; tell whether a child has more."""
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
    """Apply a page, unless another process has read further meanwhile."""
    if not child_rows.is_at(tx, child_id, asked_from):
        return False
    apply_changes(zone, tx, child_id, changes.items)
    child_rows.set_cursor(tx, child_id, changes.cursor)
    return True


def wake_for(zone: Zone, items: Sequence[InstanceChange]) -> None:
    """Wake the listeners for these changes: boot workers for failed builds, and calls that end instances."""
    if any(item.state is BuildState.FAILED for item in items):
        zone.wake.boots()
    if any(item.status is InstanceStatus.ERROR for item in items):
        zone.wake.child_calls()


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
    """Leave out changes that the rows already have: most came with the answers to this zone's own calls."""
    known = placements.without_fault(tx, [item.uuid for item in items])
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
    """Set the status of an instance that was built in a child; its placement ends with it."""
    match item.status:
        case InstanceStatus.DELETED:
            # This zone did not delete it; the child's admin did.
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
