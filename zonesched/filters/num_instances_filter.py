"""Only hosts with few instances."""

from __future__ import annotations

from zonesched.filters.host_limit import AggregateHostLimitFilter, HostLimitFilter


class NumInstancesFilter(HostLimitFilter):
    """Passes hosts with fewer than `max_instances_per_host` instances.

    Reads: option `max_instances_per_host` (50), and the living instances of a host, whoever owns them, those
    of this request included.

    Example: with `max_instances_per_host = 3` a host with two instances takes one more, and no second one.
    """

    code = "too_many_instances_on_host"
    counted = "num_instances"
    limit = "max_instances_per_host"


class AggregateNumInstancesFilter(AggregateHostLimitFilter):
    """Passes hosts with fewer instances than their aggregates allow.

    Reads: metadata of aggregates, `max_instances_per_host`; where several aggregates of a host say a number,
    the smallest counts. Where none does, the option `max_instances_per_host` (50) does, as for
    NumInstancesFilter. It also does where the value of one of them is not a number, which is logged once.

    Example: an aggregate of licensed hosts has `max_instances_per_host = 4`: none of them ever has a fifth.
    """

    code = "too_many_instances_for_aggregate"
    counted = "num_instances"
    limit = "max_instances_per_host"
