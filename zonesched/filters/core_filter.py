"""Filter for hosts with enough VCPUs left."""

from __future__ import annotations

from zonesched.filters.free_amount import FreeAmountFilter
from zonesched.model.request_spec import VCPU


class CoreFilter(FreeAmountFilter):
    """Passes hosts whose capacity of VCPU, less what claims take, covers one instance.

    Reads: the flavor's VCPUs, or its extra spec `resources:VCPU` in their place, and the host's capacity.
    That is the very number that a claim is checked with, the host's allocation ratio and those of its
    aggregates included: floor((total - reserved) * ratio). Option `cpu_allocation_ratio` (1.0) is the ratio
    where nothing else says one. A request that takes no VCPU passes everywhere.

    Example: a host of 8 VCPUs with ratio 2.0 of which 15 are claimed passes a flavor of 1 VCPU, and not one
    of 2.
    """

    code = "not_enough_vcpus"
    resource_class = VCPU


class AggregateCoreFilter(CoreFilter):
    """Passes the same hosts as CoreFilter, under a name and a code of its own.

    Reads: what CoreFilter reads. Metadata of aggregates, `cpu_allocation_ratio`, is in the capacity that
    CoreFilter and every claim read; where several aggregates of a host set it, the smallest counts. So a host
    passes this filter exactly if it passes CoreFilter, and no claim disagrees with either.

    Example: hosts of an aggregate with `cpu_allocation_ratio = 1.0` are never over-committed, whichever of
    the two filters is enabled.
    """

    code = "not_enough_vcpus_for_aggregate"
