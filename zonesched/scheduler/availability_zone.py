"""The scheduler that chooses pseudo-randomly inside the requested availability zone."""

from __future__ import annotations

from zonesched.filters.availability_zone_filter import AvailabilityZoneFilter
from zonesched.filters.contract import BaseHostFilter
from zonesched.model.request_spec import RequestSpec
from zonesched.scheduler.chance import ChanceScheduler


class AvailabilityZoneScheduler(ChanceScheduler):
    """A ChanceScheduler that stays in the request's availability zone whatever filters are configured.

    When to use: ChanceScheduler suits you, and users name availability zones.

    Reads: `enabled_filters` and the filters that a request adds; it adds AvailabilityZoneFilter if that is
    not among them.

    Example: with `enabled_filters = ComputeFilter`, a request with `"availability_zone": "az-east"` still
    goes to hosts of az-east only.
    """

    def _filters(self, spec: RequestSpec) -> tuple[BaseHostFilter, ...]:
        filters = super()._filters(spec)
        is_there = any(isinstance(host_filter, AvailabilityZoneFilter) for host_filter in filters)
        return filters if is_there else (AvailabilityZoneFilter(), *filters)
