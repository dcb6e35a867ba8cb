"""The scheduler that chooses by chance inside the availability zone asked for."""

from __future__ import annotations

from zonesched.filters.availability_zone_filter import AvailabilityZoneFilter
from zonesched.filters.contract import BaseHostFilter
from zonesched.model.request_spec import RequestSpec
from zonesched.scheduler.chance import ChanceScheduler


class AvailabilityZoneScheduler(ChanceScheduler):
    """A ChanceScheduler that stays in the request's availability zone whatever filters are configured.

    When to use: ChanceScheduler is right, and users name availability zones.

    Reads: `enabled_filters` and what a request adds to them, and AvailabilityZoneFilter where it is not among
    them.

    Example: with `enabled_filters = ComputeFilter`, a request with `"availability_zone": "az-east"` still
    goes to hosts of az-east only.
    """

    def _filters(self, spec: RequestSpec) -> tuple[BaseHostFilter, ...]:
        filters = super()._filters(spec)
        is_there = any(isinstance(host_filter, AvailabilityZoneFilter) for host_filter in filters)
        return filters if is_there else (AvailabilityZoneFilter(), *filters)
