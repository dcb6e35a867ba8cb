"""Background work of a zone: each function is one step and returns the seconds until its next one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from zonesched import tracing
from zonesched.errors import LeaseLost
from zonesched.seams import Loop, ThreadLoop
from zonesched.services.boot import batch, provision
from zonesched.services.boot.batch import Begun
from zonesched.services.children.pending_calls import PendingCalls
from zonesched.services.children.returned import ready_ids, wake_waiting_for
from zonesched.services.children.sync import Sync
from zonesched.services.children.unranged_weighers import log_new, unranged
from zonesched.services.hosts import automatic_evacuation, services
from zonesched.services.hosts.membership import Membership
from zonesched.services.moves import mover
from zonesched.services.owners import resize_confirms
from zonesched.services.owners.reclaims import Reclaims
from zonesched.services.placing import build_timeouts, reaper
from zonesched.services.placing.pruning import Pruning
from zonesched.services.recovery import naming, read_from_children
from zonesched.services.state.boot_queue import Batch, NewBoot
from zonesched.services.state.clock_steps import bring_near
from zonesched.services.subscriber import Subscriber
from zonesched.services.zone import Zone
from zonesched.store import reservations
from zonesched.store.outages import database_fault, log_failed
from zonesched.store.reservations import Lease
from zonesched.tracing import Trace

log = logging.getLogger(__name__)

REAPER_PAUSE_S = 2.0
FIRST_POLL_PAUSE_S = 0.1
RESTORED_PAUSE_S = 2.0


def start(zone: Zone) -> None:
    """Start all background work of a zone; `Zone.stop` ends it."""

    def loop(name: str, step: Callable[[], float]) -> Loop:
        return zone.executor.start_loop(name, partial(_unless_away, name, step))

    def acting(name: str, step: Callable[[], float]) -> Loop:
        return loop(name, partial(_unless_restored, zone, step))

    loop("children", lambda: poll_children(zone))
    for number in range(zone.conf.boot_workers):
        zone.wake.boot_loops.append(acting(f"boot-{number}", lambda: work_on_boots(zone)))
    zone.wake.child_call_loops.append(acting("calls", PendingCalls(zone).step))
    acting("reaper", lambda: reap(zone))
    acting("build-timeouts", lambda: build_timeouts.end_lost_builds(zone))
    zone.wake.move_loops.append(acting("moves", lambda: mover.work(zone)))
    acting("resize-confirms", lambda: resize_confirms.confirm_overdue(zone))
    acting("reclaims", Reclaims(zone).step)
    acting("pruning", Pruning(zone).step)
    if zone.notifications.broker.is_there:
        zone.notifications.loops.append(loop("notifications", zone.notifications.send))
        loop("subscriber", Subscriber(zone).step)
    if zone.group.is_there:
        loop("membership", Membership(zone).step)
    loop("heartbeats", zone.heartbeats.write)
    acting("fences", lambda: automatic_evacuation.evacuate_fenced(zone))
    loop("own-service", lambda: beat_own(zone))
    if zone.store.has_clock:
        loop("clock-difference", zone.clock_difference.look)
        acting("lost-commits", zone.lost_commits.look)
    zone.wake.sync_loops.append(acting("sync", Sync(zone).step))


def _unless_away(name: str, step: Callable[[], float]) -> float:
    """Act; while the database is to blame, log one line for each try instead of a traceback."""
    try:
        return step()
    except Exception as error:
        if database_fault(error) is None:
            raise
        log_failed(f"background step {name} failed", error)
        return ThreadLoop.retry_pause_s


def _unless_restored(zone: Zone, step: Callable[[], float]) -> float:
    """Act on the rows, unless they were restored from a copy and not compared yet."""
    return RESTORED_PAUSE_S if zone.restored.is_under_way else step()


def poll_children(zone: Zone) -> float:
    """Ask the children whose turn it is how they are; what waits for one that is back goes on at once."""
    before, unranged_before = ready_ids(zone.children), unranged(zone.children, zone.schedulers)
    pause_s = float(zone.conf.zone_db_check_interval) / zone.children.poll()
    log_new(unranged_before, unranged(zone.children, zone.schedulers))
    naming.tell_restored(zone)
    if zone.restored.is_under_way:
        read_from_children.read_all(zone)
        return pause_s
    if returned := ready_ids(zone.children) - before:
        wake_waiting_for(zone.store, zone.wake, returned)
    return pause_s


def work_on_boots(zone: Zone) -> float:
    """Work on the reservation that is due; return 0 when there may be another.

    Boots left over wait for the first poll of the children: before it, no child would be asked.
    """
    if zone.children.awaits_first_poll or zone.boots.is_closed:
        return FIRST_POLL_PAUSE_S
    if (lease := _left_over(zone)) is not None:
        _work(zone, lease, partial(provision.carry_on, zone, lease))
        return 0.0
    match zone.boots.take_batch(partial(batch.may_share, zone)):
        case Batch(boots):
            _begin_batch(zone, boots)
        case NewBoot() as new:
            _work(zone, new.lease, partial(provision.begin, zone, new))
        case None:
            return max(0.0, zone.boots.poll_at - zone.clock.monotonic())
    return 0.0


def _begin_batch(zone: Zone, boots: Sequence[NewBoot]) -> None:
    begun = Begun((), boots, ())
    try:
        begun = _begun_safely(zone, boots)
        for boot in begun.settled:
            zone.boots.end(boot.lease)
        for boot in begun.alone:
            _work(zone, boot.lease, partial(provision.begin, zone, boot))
    finally:
        for boot in begun.alone:
            zone.boots.end(boot.lease)
        zone.boots.end_batch(begun.rest)


def _begun_safely(zone: Zone, boots: Sequence[NewBoot]) -> Begun:
    try:
        return batch.begin(zone, boots)
    except Exception as error:
        log_failed(f"a batch of {len(boots)} boots failed; each is begun by itself", error)
        return Begun((), boots, ())


def _work(zone: Zone, lease: Lease, work: Callable[[], None]) -> None:
    if zone.boots.waiting:
        # This worker may wait for children; only it may have been woken for the others.
        zone.wake.boot_worker()
    try:
        with tracing.within(Trace(lease.traced_by, lease.reservation_id)):
            _work_safely(zone, lease, work)
    finally:
        # Also where nothing could be written: the lease expires, and another worker begins.
        zone.boots.end(lease)


def _work_safely(zone: Zone, lease: Lease, work: Callable[[], None]) -> None:
    try:
        work()
    except LeaseLost as lost:
        log.warning("work on reservation %s is left: %s", lease.reservation_id, lost.message)
    except provision.NoProgress as stuck:
        log.error("reservation %s is postponed: %s", lease.reservation_id, stuck)
        _postpone(zone, lease)
    except Exception as error:
        log_failed(f"work on reservation {lease.reservation_id} failed and will be repeated", error)
        _postpone(zone, lease)


def _left_over(zone: Zone) -> Lease | None:
    """Take the lease of a reservation that is due, if it is time to poll the rows."""
    if zone.clock.monotonic() < zone.boots.poll_at:
        return None
    wakes, now = zone.boots.wakes, zone.clock.now()
    lease = zone.store.write(lambda tx: reservations.take_lease(tx, now, zone.conf.boot_lease))
    if lease is None:
        due_in_s = zone.store.read(reservations.next_due) - zone.clock.now()
        pause_s = max(0.0, min(due_in_s, zone.conf.boot_poll_interval))
        zone.boots.polled(wakes, zone.clock.monotonic() + pause_s)
    else:
        zone.boots.begin(lease)
    return lease


def _postpone(zone: Zone, lease: Lease) -> None:
    due_at = zone.clock.now() + zone.conf.retry_pause
    zone.store.write(lambda tx: reservations.postpone(tx, lease, due_at))


def beat_own(zone: Zone) -> float:
    """Write this process's heartbeat; that succeeds only while those of agents can be heard and written."""
    pause_s = services.beat_own(zone)
    zone.listening.note()
    return pause_s


def reap(zone: Zone) -> float:
    """Cancel holds that were not confirmed in time, and delete tombstones that have expired.

    After the clock was set back, nothing waits until it has caught up.
    """
    if zone.clock_steps.take_set_back():
        zone.store.write(lambda tx: bring_near(tx, zone.conf, zone.clock.now()))
        log.warning("the clock of this machine was set back: what waits by it was brought near")
    reaper.reap(zone)
    return REAPER_PAUSE_S
