"""Info of a zone and its child zones: extremes over hosts, and no host by name.

The ranges of weighers are of raw values: for the built-in weighers, the smallest and largest free amount of
one host. In a subtree with one host, the range is that host's value. Capacities are widened to classes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from zonesched.model.host_table import HostTable
from zonesched.model.work_deadline import OutOfTime, WorkDeadline, always
from zonesched.scheduler.scale import Range, in_classes
from zonesched.services.select import subtree
from zonesched.services.select.select import own_capabilities
from zonesched.services.zone import Zone
from zonesched.store import identity, schema
from zonesched.store.outages import log_unreadable
from zonesched.store.schema import SchemaState
from zonesched.store.store import Store, StoreError
from zonesched.zones.child import Ready

log = logging.getLogger(__name__)


def is_ready(store: Store) -> bool:
    """Tell whether the zone's rows can be read; a zone that is not ready takes no requests."""
    try:
        return schema.state(store) is SchemaState.CURRENT
    except StoreError as error:
        log_unreadable(error)
        return False


def is_recovering(zone: Zone) -> bool:
    """Tell whether the zone was restored from a copy and not compared since; false if no row can be read."""
    try:
        return zone.restored.is_under_way
    except StoreError:
        return False


def report(zone: Zone, is_wanted: Callable[[], bool] = always) -> Mapping[str, Any]:
    """Make the `zone` object of GET /zones/info.

    `services.compute` has the smallest and largest capacity of one host by resource class; `weighers` the
    range of each weigher's raw value; both as "min,max" over the subtree. `complete` is false while a
    child zone has not answered or has reported more than a parent reads: then unlisted items may exist.
    Raises OutOfTime if the weighers need longer than a poll may take, CallerGone once `is_wanted` is false.
    """
    deadline = WorkDeadline.after(zone.clock.monotonic, zone.conf.zone_poll_timeout, is_wanted)
    known = zone.children.snapshot()
    below = [k.status.info for k in known if isinstance(k.status, Ready)]
    with zone.hosts.current() as table:
        own_ranges = _own_ranges(zone, table, deadline)
        own_capacities = _own_capacities(table)
        own_traits, own_zones = _traits(table), _availability_zones(table)
    ranges = subtree.ranges(own_ranges, [info.ranges for info in below])
    capacities = subtree.ranges(own_capacities, [info.capacities for info in below])
    traits = subtree.texts(own_traits, [info.traits for info in below])
    zones = subtree.texts(own_zones, [info.availability_zones for info in below])
    capabilities = subtree.capabilities(
        own_capabilities(zone.conf), [info.zone_capabilities for info in below]
    )
    heard = len(below) == len(known) and all(info.complete for info in below)
    return {
        "name": zone.conf.zone_name,
        "uuid": zone.uuid,
        "zone_capabilities": capabilities.part,
        "services": {"compute": capacities.part},
        "weighers": ranges.part,
        "traits": traits.part,
        "availability_zones": zones.part,
        "blob_size": zone.envelope.blob_size,
        "can_seal": zone.keyring.can_seal,
        "has_pages": True,
        "recovering": zone.restored.is_under_way,
        "start": zone.store.read(identity.newest_start),
        "complete": heard and all(part.whole for part in (ranges, capacities, traits, zones, capabilities)),
    }


def _own_ranges(zone: Zone, table: HostTable, deadline: WorkDeadline) -> Mapping[str, Range]:
    # Selects wait for the table meanwhile, and each parent asks again.
    try:
        return zone.schedulers.default.ranges(table, deadline)
    except OutOfTime:
        log.error("the weighers take longer than zone_poll_timeout over all hosts: parents get no answer")
        raise


def _own_capacities(table: HostTable) -> Mapping[str, Range]:
    """Find the smallest and largest capacity of one host, by resource class, in classes."""
    alive = table.alive
    found = {name: table.capacity(name)[alive] for name in table.resource_classes}
    return {
        name: in_classes(Range(float(column[column > 0].min()), float(column.max())))
        for name, column in found.items()
        if column.any()
    }


def _traits(table: HostTable) -> frozenset[str]:
    return frozenset().union(*table.trait_sets.distinct())


def _availability_zones(table: HostTable) -> frozenset[str]:
    return frozenset(name for name in table.availability_zones.distinct() if name)
