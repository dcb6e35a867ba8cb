"""The host table of a zone, compared with one that is read anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from zonesched.services.state.host_cache import HostCache
from zonesched.services.state.listening import Listening
from zonesched.services.zone import Zone
from zonesched.store.hosts import Changes


def table_is_as_stored(zone: Zone) -> None:
    """The table in memory, refreshed, says of every host what a table that is read anew says."""
    fresh = HostCache(zone.store, zone.clock, Listening(zone.clock, 1e6))
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


@contextmanager
def hosts_read(zone: Zone) -> Iterator[list[str]]:
    """Ids of the changed hosts that this zone reads within the block.

    No table may be read anew meanwhile: on PostgreSQL, transactions of other databases of the server make it
    read some hosts twice.
    """
    read, transaction = [], zone.store.read

    def watched(fn: Any) -> Any:
        result = transaction(fn)
        if isinstance(result, tuple) and isinstance(result[0], Changes):
            read.extend([*result[0].uses.ids, *(row.facts.id for row in result[0].rows)])
        return result

    zone.store.read = watched  # type: ignore[method-assign]
    try:
        yield read
    finally:
        zone.store.read = transaction  # type: ignore[method-assign]


def _by_host(table: Any, column: Any) -> dict[str, Any]:
    return {table.host_id(row): value for row, value in zip(range(table.size), column, strict=False)}
