"""Filter for hosts with few instances."""

from __future__ import annotations

from zonesched.filters.host_limit import AggregateHostLimitFilter, HostLimitFilter


class NumInstancesFilter(HostLimitFilter):
    """Passes hosts with fewer than `max_instances_per_host` instances.

    Reads: option `max_instances_per_host` (50), and the number of living instances on the host, of all
    projects and including those of this request.

    Example: with `max_instances_per_host = 3` a host with two instances takes one more instance.
    """

    code = "too_many_instances_on_host"
    counted = "num_instances"
    limit = "max_instances_per_host"


class AggregateNumInstancesFilter(AggregateHostLimitFilter):
    """Passes hosts with fewer instances than their aggregates allow.

    Reads: `max_instances_per_host` in the metadata of the host's aggregates, of several numbers the smallest.
    Without any, and if one of them is not a number (which is logged once), the option
    `max_instances_per_host` (50) counts, as for NumInstancesFilter.

    Example: an aggregate of licensed hosts has `max_instances_per_host = 4`: none of them ever has a fifth.
    """

    code = "too_many_instances_for_aggregate"
    counted = "num_instances"
    limit = "max_instances_per_host"
