"""Only hosts with enough VCPUs left."""

from __future__ import annotations

from zonesched.filters.room_of_class import RoomOfClassFilter
from zonesched.model.request_spec import VCPU


class CoreFilter(RoomOfClassFilter):
    """Passes hosts whose capacity of VCPU, less what claims take, covers one instance.

    The capacity is the very number that a claim is checked with, the host's allocation ratio and those of its
    aggregates included: floor((total - reserved) * ratio). A request that takes no VCPU passes everywhere.

    Example: a host of 8 VCPUs with ratio 2.0 of which 15 are claimed passes a flavor of 1 VCPU, and not one
    of 2.
    """

    code = "not_enough_vcpus"
    resource_class = VCPU


class AggregateCoreFilter(CoreFilter):
    """Passes the same hosts as CoreFilter, under a name and a code of its own.

    Metadata of aggregates: `cpu_allocation_ratio`; where several aggregates of a host set it, the smallest
    counts, and it is in the capacity that CoreFilter and every claim read. So a host passes this filter
    exactly if it passes CoreFilter, and no claim disagrees with either.

    Example: hosts of an aggregate with `cpu_allocation_ratio` = `1.0` are never over-committed, whichever of
    the two filters is enabled.
    """

    code = "not_enough_vcpus_for_aggregate"
