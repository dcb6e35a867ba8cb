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
from zonesched.model.placement import InstanceChange, InstanceStatus, PlacementState
from zonesched.seams import Done
from zonesched.services.zone import Zone
from zonesched.store import children as child_rows
from zonesched.store import feed, identity, instances, placements
from zonesched.store.placements import InChild
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

    def step(self) -> float:
        """Ask if it is time; the pause until the next look, which costs a child nothing."""
        clock, conf = self._zone.clock, self._zone.conf
        if clock.monotonic() >= self._due_at():
            there_is_more = ask(self._zone)
            self._asked_at = -math.inf if there_is_more else clock.monotonic()
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
            more = more or (taken and outcome.value.more)
    return more


def _apply(zone: Zone, child_id: str, asked_from: str, changes: Changes, tx: Transaction) -> bool:
    """Take a page over; false when a part of it has to be read again later.

    Another process may have read further meanwhile: what this page says is older than what is known then.
    """
    if not child_rows.is_at(tx, child_id, asked_from):
        return False
    taken = apply_changes(tx, identity.next_change(tx), child_id, changes.items, zone.clock.now())
    if taken:
        child_rows.set_cursor(tx, child_id, changes.cursor)
    return taken


def apply_changes(
    tx: Transaction, change: int, child_id: str, items: Sequence[InstanceChange], now: float
) -> bool:
    """Bring instances to what their child says, as far as their present placement is the one it speaks of.

    False when an end was told of an instance whose confirm has not been answered: it cannot be understood
    before that answer, and has to be told again.
    """
    all_taken = True
    places = {p.key: p for p in placements.read_by_uuid(tx, [item.uuid for item in items])}
    rows = instances.read_by_uuid(tx, [item.uuid for item in items])
    for item in items:
        place = places.get((item.uuid, item.attempt))
        if place is None or not isinstance(place.where, InChild) or place.where.child_id != child_id:
            continue
        if place.state is State.CONFIRMING and item.status is InstanceStatus.DELETED:
            all_taken = False
            continue
        if place.state is State.CONFIRMING and item.status in _ONLY_IF_CONFIRMED:
            # This is the answer that the confirm has not got yet.
            placements.move(tx, change, place, State.CONFIRMED)
        elif place.state is not State.CONFIRMED:
            continue
        row = rows[item.uuid]
        if row.attempt != item.attempt or row.status in (InstanceStatus.DELETED, InstanceStatus.ERROR):
            continue
        if item.status is InstanceStatus.DELETED:
            # Not by us: whoever runs the child has deleted it.
            placements.move(tx, change, place, State.RELEASED, reason="deleted_below")
            status, reason = InstanceStatus.ERROR, "deleted_below"
        else:
            status, reason = item.status, item.reason
        if (status, reason) != (row.status, row.reason):
            instances.set_status(tx, change, [item.uuid], status, now, reason=reason)
    return all_taken


_ONLY_IF_CONFIRMED = (InstanceStatus.ACTIVE, InstanceStatus.ERROR)
