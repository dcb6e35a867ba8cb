"""What a zone does unasked: each function is one step, and returns the pause until its next one."""

from __future__ import annotations

import logging

from zonesched.errors import LeaseLost
from zonesched.services import provision, reaper
from zonesched.services.pruning import Pruning
from zonesched.services.sync import Sync
from zonesched.services.told_children import ToldChildren
from zonesched.services.zone import Zone
from zonesched.store import reservations
from zonesched.store.reservations import Lease

log = logging.getLogger(__name__)

REAPER_PAUSE_S = 2.0
FIRST_POLL_PAUSE_S = 0.1


def start(zone: Zone) -> None:
    """Start all background work of a zone; `Zone.stop` ends it."""
    loop = zone.executor.start_loop
    loop("children", lambda: poll_children(zone))
    for number in range(zone.conf.boot_workers):
        zone.boot_loops.append(loop(f"boot-{number}", lambda: work_on_boots(zone)))
    zone.call_loops.append(loop("calls", ToldChildren(zone).step))
    loop("reaper", lambda: reap(zone))
    loop("pruning", Pruning(zone).step)
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


def reap(zone: Zone) -> float:
    """Let go of what nobody confirmed in time, and forget what nobody can ask for any more."""
    reaper.reap(zone)
    return REAPER_PAUSE_S
