"""What a zone does unasked: each function is one step, and returns the pause until its next one."""

from __future__ import annotations

import logging

from zonesched.errors import LeaseLost
from zonesched.model.placement import PlacementState
from zonesched.services import child_calls, provision, reaper
from zonesched.services.sync import Sync
from zonesched.services.zone import Zone
from zonesched.store import placements, reservations
from zonesched.store.reservations import Lease

log = logging.getLogger(__name__)

State = PlacementState
CALLS_PER_STEP = 2000
REAPER_PAUSE_S = 2.0
FIRST_POLL_PAUSE_S = 0.1


def start(zone: Zone) -> None:
    """Start all background work of a zone; `Zone.stop` ends it."""
    loop = zone.executor.start_loop
    loop("children", lambda: poll_children(zone))
    for number in range(zone.conf.boot_workers):
        zone.boot_loops.append(loop(f"boot-{number}", lambda: work_on_boots(zone)))
    zone.call_loops.append(loop("calls", lambda: repeat_calls(zone)))
    loop("reaper", lambda: reap(zone))
    zone.sync_loops.append(loop("sync", Sync(zone).step))


def poll_children(zone: Zone) -> float:
    """Ask each child how it is."""
    zone.children.poll()
    return float(zone.conf.zone_db_check_interval)


def work_on_boots(zone: Zone) -> float:
    """Lease the reservation whose turn it is and carry it on; 0 when there may be another.

    Boots that were left over wait for the first poll: before it, no child would be asked.
    """
    if zone.children.awaits_first_poll:
        return FIRST_POLL_PAUSE_S
    now = zone.clock.now()
    lease = zone.store.write(lambda tx: reservations.take_lease(tx, now, zone.conf.boot_lease))
    if lease is None:
        due_in_s = zone.store.read(reservations.next_due) - zone.clock.now()
        return float(max(0.0, min(due_in_s, zone.conf.boot_poll_interval)))
    try:
        provision.carry_on(zone, lease)
    except LeaseLost:
        log.warning("another worker has taken reservation %s over", lease.reservation_id)
    except Exception:
        log.exception("work on reservation %s failed and will be repeated", lease.reservation_id)
        _postpone(zone, lease)
    return 0.0


def _postpone(zone: Zone, lease: Lease) -> None:
    due_at = zone.clock.now() + zone.conf.retry_pause
    zone.store.write(lambda tx: reservations.postpone(tx, lease, due_at))


def repeat_calls(zone: Zone) -> float:
    """Send again what a child has not answered: confirms, cancels, deletes."""
    now = zone.clock.now()
    column = placements.COLUMNS
    due = zone.store.read(
        lambda tx: placements.read(
            tx,
            column.state.in_([s.value for s in (State.CONFIRMING, State.CANCELLING, State.RELEASING)]),
            column.next_call_at <= now,
            limit=CALLS_PER_STEP,
        )
    )
    by_state = {state: [p for p in due if p.state is state] for state in {p.state for p in due}}
    child_calls.send_confirms(zone, by_state.get(State.CONFIRMING, []))
    child_calls.send_cancels(zone, by_state.get(State.CANCELLING, []))
    child_calls.send_deletes(zone, by_state.get(State.RELEASING, []))
    if due:
        zone.wake_workers()
    return float(zone.conf.retry_pause)


def reap(zone: Zone) -> float:
    """Let go of what nobody confirmed in time, and forget what nobody can ask for any more."""
    reaper.reap(zone)
    return REAPER_PAUSE_S
