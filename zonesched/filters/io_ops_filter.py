"""Filter for hosts that are not busy building instances."""

from __future__ import annotations

from zonesched.filters.host_limit import AggregateHostLimitFilter, HostLimitFilter


class IoOpsFilter(HostLimitFilter):
    """Passes hosts on which fewer than `max_io_ops_per_host` instances are being built.

    Reads: option `max_io_ops_per_host` (8), and the number of instances that the host has got and not built
    yet, including those of this request: they keep its disks busy.

    Example: with `max_io_ops_per_host = 2` a host that builds one instance passes. A host that builds two
    passes once one of them is built.
    """

    code = "too_many_io_ops"
    counted = "num_io_ops"
    limit = "max_io_ops_per_host"


class AggregateIoOpsFilter(AggregateHostLimitFilter):
    """Passes hosts on which fewer instances are being built than their aggregates allow.

    Reads: `max_io_ops_per_host` in the metadata of the host's aggregates, of several numbers the smallest.
    Without any, and if one of them is not a number (which is logged once), the option `max_io_ops_per_host`
    (8) counts, as for IoOpsFilter.

    Example: an aggregate of hosts with slow disks has `max_io_ops_per_host = 1`: each builds one instance at
    a time, all others eight.
    """

    code = "too_many_io_ops_for_aggregate"
    counted = "num_io_ops"
    limit = "max_io_ops_per_host"
