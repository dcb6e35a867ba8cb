"""Timeouts of builds that agents do not report: placed again where that is safe, else ERROR.

It is safe for a build that its agent never fetched: it cannot run there, and a returning agent does not get
it. If it is to be shelved, it rests at once. A fetched build may run, now or later, on the unreachable host.
Its instance ends in ERROR `build_timeout`, and its place is RELEASING: it keeps its claim until the agent has
returned, destroyed it and reported it gone, or until an operator removes the host.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from zonesched.model.placement import InstanceStatus, PlacementState
from zonesched.services.life.shelving import note_offloaded
from zonesched.services.placing import build_retry
from zonesched.services.zone import Zone
from zonesched.store import identity, instances, placements, reservations, unreported_builds
from zonesched.store.placements import Placement
from zonesched.store.store import Transaction
from zonesched.store.unreported_builds import Bounds

State = PlacementState
REASON = "build_timeout"
BATCH = 200
MAX_PAUSE_S = 10.0


def end_lost_builds(zone: Zone) -> float:
    """End builds that are overdue, and those never fetched whose agent or host is down.

    Returns the pause until the next time, in seconds.
    """
    while zone.store.read(lambda tx: unreported_builds.lost(tx, _bounds(zone), BATCH)):
        if not zone.store.write(lambda tx: _end(zone, tx)):
            break
        zone.wake.boots()
    return float(min(MAX_PAUSE_S, zone.conf.service_down_time / 6, zone.conf.instance_build_timeout / 6))


def _bounds(zone: Zone) -> Bounds:
    now, conf = zone.clock.now(), zone.conf
    # After a start, heartbeats are outdated, and builds that ended meanwhile are not reported yet: agents get
    # time to call again.
    is_new = zone.clock.monotonic() - zone.opened_at < conf.service_down_time
    liveness = zone.listening.liveness()
    silence_s = math.inf if is_new else liveness.down_time_s
    build_s = math.inf if is_new else zone.listening.stretched(conf.instance_build_timeout)
    return Bounds(
        placed_before=now - build_s,
        heard_after=now - silence_s,
        heard_before=now + silence_s,
        ahead_s=liveness.ahead_s,
    )


def _end(zone: Zone, tx: Transaction) -> bool:
    """End one batch; return whether any build ended."""
    uuids = unreported_builds.lost(tx, _bounds(zone), BATCH)
    build_retry.lock_with_alternates(tx, uuids, uuids)
    # Read again under the locks: its agent may have fetched or reported it since.
    still_lost = set(unreported_builds.lost(tx, _bounds(zone), BATCH)) & set(uuids)
    present = instances.read_by_uuid(tx, sorted(still_lost))
    places = [p for p in placements.read_by_uuid(tx, sorted(present)) if p.number == present[p.uuid].attempt]
    change, now = identity.next_change(tx), zone.clock.now()
    unfetched = [p for p in places if not p.is_fetched]
    building = [p for p in unfetched if p.state is State.CONFIRMED]
    failed = [p for p in building if build_retry.build_failed(zone, tx, change, p, now, REASON)]
    shelved = [p for p in unfetched if p.state is State.RELEASING]
    left = placements.move_all(tx, change, shelved, State.RELEASED)
    note_offloaded(tx, change, left, now)
    waiting = _await_agents(tx, change, [p for p in places if p.is_fetched], now)
    return bool(failed or left or waiting)


def _await_agents(
    tx: Transaction, change: int, fetched: Sequence[Placement], now: float
) -> Sequence[Placement]:
    """End instances that may still run, and keep their claims until their agents report them gone."""
    building = [p for p in fetched if p.state is State.CONFIRMED]
    shelved = [p for p in fetched if p.state is State.RELEASING]
    awaited = [*shelved, *placements.move_all(tx, change, building, State.RELEASING, reason=REASON)]
    instances.set_status(
        tx,
        change,
        [p.uuid for p in awaited],
        InstanceStatus.ERROR,
        now,
        reason=REASON,
        only_from=[InstanceStatus.BUILD],
    )
    for caller_id, reservation_id in sorted({(p.caller_id, p.reservation_id) for p in awaited}):
        reservations.wake(tx, caller_id, reservation_id)
    return awaited
