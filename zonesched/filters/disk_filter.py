"""Filter for hosts with enough disk left."""

from __future__ import annotations

from zonesched.filters.free_amount import FreeAmountFilter
from zonesched.model.request_spec import DISK_GB


class DiskFilter(FreeAmountFilter):
    """Passes hosts whose capacity of DISK_GB, less what claims take, covers one instance.

    Reads: the flavor's disk, or its extra spec `resources:DISK_GB` in its place, and the host's capacity.
    That is the very number that a claim is checked with, the host's allocation ratio and those of its
    aggregates included: floor((total - reserved) * ratio). Option `disk_allocation_ratio` (1.0) is the ratio
    where nothing else says one. A request that takes no DISK_GB passes everywhere.

    Example: a host of 10 GB of which 5 are claimed passes a flavor of 5 GB, and not one of 6.
    """

    code = "not_enough_disk"
    resource_class = DISK_GB


class AggregateDiskFilter(DiskFilter):
    """Passes the same hosts as DiskFilter, under a name and a code of its own.

    Reads: what DiskFilter reads. Metadata of aggregates, `disk_allocation_ratio`, is in the capacity that
    DiskFilter and every claim read; where several aggregates of a host set it, the smallest counts. So a host
    passes this filter exactly if it passes DiskFilter, and no claim disagrees with either.

    Example: hosts of an aggregate with `disk_allocation_ratio = 1.0` are never over-committed, whichever of
    the two filters is enabled.
    """

    code = "not_enough_disk_for_aggregate"
