"""Options of hosts, their allocation ratios, and the limits that aggregates set on requests."""

from __future__ import annotations

from oslo_config import cfg

HOSTS = [
    cfg.StrOpt(
        "host_source",
        default="memory",
        choices=[
            ("memory", "Each process keeps a table of all hosts and reads the changes."),
            ("sql", "Each request reads only the hosts whose rows meet its needs."),
        ],
        help="Source of the hosts that a request is scheduled on.",
    ),
    cfg.FloatOpt(
        "cpu_allocation_ratio",
        default=1.0,
        min=0.0,
        help="Allocation ratio of VCPU on hosts that report none.",
    ),
    cfg.FloatOpt(
        "ram_allocation_ratio",
        default=1.0,
        min=0.0,
        help="Allocation ratio of MEMORY_MB on hosts that report none.",
    ),
    cfg.FloatOpt(
        "disk_allocation_ratio",
        default=1.0,
        min=0.0,
        help="Allocation ratio of DISK_GB on hosts that report none.",
    ),
    cfg.BoolOpt(
        "limit_tenants_to_aggregate",
        default=False,
        help="Projects named in the filter_tenant_id of aggregates boot only on hosts of these aggregates.",
    ),
    cfg.BoolOpt(
        "placement_aggregate_required_for_tenants",
        default=False,
        help="With limit_tenants_to_aggregate: projects that no aggregate names get no host of this zone.",
    ),
    cfg.BoolOpt(
        "query_placement_for_availability_zone",
        default=False,
        help="If any aggregate has the requested availability zone, only hosts of such aggregates are in it.",
    ),
    cfg.BoolOpt(
        "enable_isolated_aggregate_filtering",
        default=False,
        help="Hosts of aggregates with trait:NAME=required take only requests that require all these traits.",
    ),
]
