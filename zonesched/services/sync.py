"""What children tell of the instances they were given, and what this zone tells its own parents."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from zonesched.errors import BadRequest
from zonesched.model.caller import Caller
from zonesched.model.placement import InstanceChange, InstanceStatus, PlacementState
from zonesched.seams import Done
from zonesched.services.zone import Zone
from zonesched.store import children as child_rows
from zonesched.store import feed, identity, instances, placements
from zonesched.store.placements import InChild
from zonesched.store.store import Transaction
from zonesched.zones.child import Changes, Ready

log = logging.getLogger(__name__)

State = PlacementState
PAGE = 1000
PAGES_PER_STEP = 20


def step(zone: Zone) -> float:
    """Ask each child what has changed; soon again while anything is unfinished."""
    known = [k.child for k in zone.children.snapshot() if isinstance(k.status, Ready)]
    cursors = {row.id: row.cursor for row in zone.store.read(child_rows.read_all)}
    outcomes = zone.children.call(
        [
            (child.id, lambda client, c=child.id: client.changes(cursors.get(c, ""), zone.conf.build_timeout))
            for child in known
        ],
        timeout_s=zone.conf.build_timeout,
    )
    more = False
    for child, outcome in zip(known, outcomes, strict=True):
        if isinstance(outcome, Done):
            changes: Changes = outcome.value
            zone.store.write(lambda tx, c=child.id, found=changes: _apply(zone, tx, c, found))
            more = more or changes.more
    if more:
        return 0.0
    unfinished = zone.store.read(feed.has_unfinished_below)
    return float(zone.conf.retry_pause if unfinished else zone.conf.instance_sync_interval)


def _apply(zone: Zone, tx: Transaction, child_id: str, changes: Changes) -> None:
    now = zone.clock.now()
    change = identity.next_change(tx)
    apply_changes(tx, change, child_id, changes.items, now)
    child_rows.set_cursor(tx, child_id, changes.cursor)


def apply_changes(
    tx: Transaction, change: int, child_id: str, items: Sequence[InstanceChange], now: float
) -> None:
    """Bring instances to what their child says, as far as their present placement is the one it speaks of."""
    places = {p.key: p for p in placements.read_by_uuid(tx, [item.uuid for item in items])}
    rows = instances.read_by_uuid(tx, [item.uuid for item in items])
    for item in items:
        place = places.get((item.uuid, item.attempt))
        if place is None or not isinstance(place.where, InChild) or place.where.child_id != child_id:
            continue
        if place.state is State.CONFIRMING and item.status is InstanceStatus.ACTIVE:
            # Only a confirmed instance runs: this is the answer that the confirm has not got yet.
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


@dataclass(frozen=True)
class ChangePage:
    """One page of what has changed for a parent since its cursor."""

    items: Sequence[InstanceChange]
    cursor: str
    more: bool


def changes(zone: Zone, caller: Caller, cursor: str) -> ChangePage:
    """What has changed of this parent's instances since `cursor` ("" for all), a page at a time.

    The cursor is opaque to the parent. Raises BadRequest for one that this zone did not give.
    """
    seq, uuid = _read_cursor(cursor)
    found = zone.store.read(lambda tx: feed.changes(tx, caller.user_id, seq, uuid, PAGE + 1))
    page = found[:PAGE]
    last = (page[-1].seq, page[-1].change.uuid) if page else (seq, uuid)
    return ChangePage([line.change for line in page], f"{last[0]}.{last[1]}", more=len(found) > PAGE)


def _read_cursor(cursor: str) -> tuple[int, str]:
    seq, _, uuid = cursor.partition(".")
    if cursor and (not seq.isdigit() or len(cursor) > 64):
        raise BadRequest("cursor is not one that this zone gave.", code="cursor_invalid", field="cursor")
    return int(seq or 0), uuid
