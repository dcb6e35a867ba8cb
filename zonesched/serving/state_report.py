"""Report on one serving process for its log: what it does now, and where each thread is."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator

from zonesched.services.state.host_cache import HostCache
from zonesched.services.state.restored import Restored
from zonesched.services.zone import Zone
from zonesched.serving.gauges import Load
from zonesched.store.server_history import lost
from zonesched.zones.zone_manager import ZoneManager


def report(zone: Zone, load: Load) -> str:
    """Return the report, of several lines. It has no secrets and no values of requests."""
    return "\n".join(
        (
            "state of this process:",
            *_work(zone, load),
            *_recovery(zone.restored),
            *_children(zone.children),
            *_threads(),
        )
    )


def _work(zone: Zone, load: Load) -> Iterator[str]:
    seconds = zone.clock.monotonic() - zone.opened_at
    yield f"zone: {zone.conf.zone_name} {zone.uuid}, open for {seconds:.0f} s"
    yield f"requests: {load.requests_running} running of {load.threads}, {load.requests_waiting} waiting"
    in_use = zone.store.connections_in_use
    yield f"connections: {load.connections} of callers, {in_use} to the database in use"
    yield f"boots: {zone.boots.waiting} waiting for a worker"
    for lease in sorted(zone.boots.leases, key=lambda one: one.reservation_id):
        yield f"boot in hand: {lease.reservation_id}, lease {lease.number}"
    yield f"selects: {zone.select_slots.held} of parents and dry runs running"
    yield f"notifications: {zone.notifications.waiting} waiting, {zone.notifications.dropped} dropped"
    hosts = f"{zone.hosts.size} in memory" if isinstance(zone.hosts, HostCache) else "in the database only"
    yield f"hosts: {hosts}"
    if zone.clock_difference.is_large:
        yield f"clock: {zone.clock_difference.ahead_s:.0f} s ahead of the database's"
    if zone.lost_commits.change:
        yield f"database: {lost(zone.lost_commits.change)}"


def _recovery(restored: Restored) -> Iterator[str]:
    if restored.is_under_way:
        names = [f"{one.kind.value} {one.name}" for one in restored.unheard()]
        yield f"restored from a copy: waits for {', '.join(names) or 'its operator'}"


def _children(children: ZoneManager) -> Iterator[str]:
    for known in children.snapshot():
        code = known.last_error or children.holds.error(known.child.id)
        error = f", last error {code}" if code else ""
        yield f"child {known.child.name}: {type(known.status).__name__.lower()}{error}"


def _threads() -> Iterator[str]:
    frames = sys._current_frames()
    for thread in sorted(threading.enumerate(), key=lambda one: one.name):
        yield f"thread {thread.name}:"
        frame = frames.get(thread.ident or 0)
        for where in traceback.extract_stack(frame) if frame is not None else ():
            yield f"    {where.filename}:{where.lineno} {where.name}"
