"""Only hosts that are not busy building instances."""

from __future__ import annotations

from zonesched.filters.host_limit import AggregateHostLimitFilter, HostLimitFilter


class IoOpsFilter(HostLimitFilter):
    """Passes hosts on which fewer than `max_io_ops_per_host` instances are being built.

    Reads: option `max_io_ops_per_host` (8), and of a host what keeps its disks busy: instances that it has
    been given and has not built yet, those of this request included.

    Example: with `max_io_ops_per_host = 2` a host that builds one instance passes, and one that builds two
    does not, until the first of them is done.
    """

    code = "too_many_io_ops"
    counted = "num_io_ops"
    limit = "max_io_ops_per_host"


class AggregateIoOpsFilter(AggregateHostLimitFilter):
    """Passes hosts on which fewer instances are being built than their aggregates allow.

    Reads: metadata of aggregates, `max_io_ops_per_host`; where several aggregates of a host say a number, the
    smallest counts. Where none does, the option `max_io_ops_per_host` (8) does, as for IoOpsFilter. It also
    does where the value of one of them is not a number, which is logged once.

    Example: an aggregate of hosts with slow disks has `max_io_ops_per_host = 1`: each builds one instance at
    a time, all others eight.
    """

    code = "too_many_io_ops_for_aggregate"
    counted = "num_io_ops"
    limit = "max_io_ops_per_host"
