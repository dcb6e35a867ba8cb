"""The host table of a zone, compared with one that is read anew."""

from __future__ import annotations

from typing import Any

from zonesched.services.state.host_cache import HostCache
from zonesched.services.zone import Zone


def table_is_as_stored(zone: Zone) -> None:
    """The table in memory, refreshed, says of every host what a table that is read anew says."""
    fresh = HostCache(zone.store, zone.clock, 1e6)
    with zone.hosts.current() as kept, fresh.current() as read:
        for name in ("VCPU", "MEMORY_MB", "DISK_GB"):
            assert _by_host(kept, kept.used(name)) == _by_host(read, read.used(name))
            columns, anew = kept.columns(name), read.columns(name)
            assert _by_host(kept, columns.left) == _by_host(read, anew.left)
            assert _by_host(kept, columns.free) == _by_host(read, anew.free)
        assert _by_host(kept, kept.num_instances) == _by_host(read, read.num_instances)
        assert _by_host(kept, kept.num_building) == _by_host(read, read.num_building)
        for counters in ("owners", "flavors", "images", "groups"):
            ours, theirs = getattr(kept, counters), getattr(read, counters)
            assert _by_host(kept, map(ours.of_row, range(kept.size))) == _by_host(
                read, map(theirs.of_row, range(read.size))
            )


def _by_host(table: Any, column: Any) -> dict[str, Any]:
    return {table.host_id(row): value for row, value in zip(range(table.size), column, strict=False)}
