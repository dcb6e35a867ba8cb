"""The options of what hosts offer, and how aggregates limit requests."""

from __future__ import annotations

from oslo_config import cfg

HOSTS = [
    cfg.StrOpt(
        "host_source",
        default="memory",
        choices=[
            ("memory", "Each process keeps a table of all hosts and reads what has changed."),
            ("sql", "Each request reads the hosts that the database finds to have what it needs."),
        ],
        help="Where a request's hosts come from.",
    ),
    cfg.FloatOpt("cpu_allocation_ratio", default=1.0, min=0.0, help="VCPU ratio of a host that names none."),
    cfg.FloatOpt(
        "ram_allocation_ratio", default=1.0, min=0.0, help="MEMORY_MB ratio of a host that names none."
    ),
    cfg.FloatOpt(
        "disk_allocation_ratio", default=1.0, min=0.0, help="DISK_GB ratio of a host that names none."
    ),
    cfg.BoolOpt(
        "limit_tenants_to_aggregate",
        default=False,
        help="A project that aggregates name in filter_tenant_id boots on their hosts only.",
    ),
    cfg.BoolOpt(
        "placement_aggregate_required_for_tenants",
        default=False,
        help="With limit_tenants_to_aggregate: a project that no aggregate names boots nowhere here.",
    ),
    cfg.BoolOpt(
        "query_placement_for_availability_zone",
        default=False,
        help="Where aggregates have the availability zone asked for, only their hosts are in it.",
    ),
    cfg.BoolOpt(
        "enable_isolated_aggregate_filtering",
        default=False,
        help="Hosts of aggregates with trait:NAME=required take only what asks for all these traits.",
    ),
]
