"""Filter for hosts with enough RAM left."""

from __future__ import annotations

from zonesched.filters.free_amount import FreeAmountFilter
from zonesched.model.request_spec import MEMORY_MB


class RamFilter(FreeAmountFilter):
    """Passes hosts whose capacity of MEMORY_MB, less what claims take, covers one instance.

    Reads: the flavor's RAM, or its extra spec `resources:MEMORY_MB` in its place, and the host's capacity.
    That is the very number that a claim is checked with, the host's allocation ratio and those of its
    aggregates included: floor((total - reserved) * ratio). Option `ram_allocation_ratio` (1.0) is the ratio
    where nothing else says one. A request that takes no MEMORY_MB passes everywhere.

    Example: a host of 1000 MB with 100 MB reserved and ratio 1.5 has a capacity of 1350 MB: a flavor of 1350
    MB passes, one of 1351 MB does not.
    """

    code = "not_enough_ram"
    resource_class = MEMORY_MB


class AggregateRamFilter(RamFilter):
    """Passes the same hosts as RamFilter, under a name and a code of its own.

    Reads: what RamFilter reads. Metadata of aggregates, `ram_allocation_ratio`, is in the capacity that
    RamFilter and every claim read; where several aggregates of a host set it, the smallest counts. So a host
    passes this filter exactly if it passes RamFilter, and no claim disagrees with either.

    Example: hosts of an aggregate with `ram_allocation_ratio = 1.0` are never over-committed, whichever of
    the two filters is enabled.
    """

    code = "not_enough_ram_for_aggregate"
