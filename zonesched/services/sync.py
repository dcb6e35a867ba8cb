"""What children tell of the instances they were given."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

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


def step(zone: Zone) -> float:
    """Ask each child what has changed; soon again while anything is unfinished."""
    known = [k.child for k in zone.children.snapshot() if isinstance(k.status, Ready)]
    cursors = {row.id: row.cursor for row in zone.store.read(child_rows.read_all)}
    timeout_s = zone.conf.build_timeout

    def question(child_id: str) -> Callable[[ChildClient], Changes]:
        return lambda client: client.changes(cursors.get(child_id, ""), timeout_s)

    outcomes = zone.children.call([(child.id, question(child.id)) for child in known], timeout_s)
    more = False
    for child, outcome in zip(known, outcomes, strict=True):
        if isinstance(outcome, Done):
            taken = zone.store.write(partial(_apply, zone, child.id, outcome.value))
            more = more or (taken and outcome.value.more)
    if more:
        return 0.0
    unfinished = zone.store.read(feed.has_unfinished_below)
    return float(zone.conf.retry_pause if unfinished else zone.conf.instance_sync_interval)


def _apply(zone: Zone, child_id: str, changes: Changes, tx: Transaction) -> bool:
    """Take a page over; false when a part of it has to be read again later."""
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
