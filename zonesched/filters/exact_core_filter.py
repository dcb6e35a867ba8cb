"""Filter for hosts whose free VCPUs are exactly what one instance requests."""

from __future__ import annotations

from zonesched.filters.exact_free_amount import ExactFreeAmountFilter
from zonesched.model.request_spec import VCPU


class ExactCoreFilter(ExactFreeAmountFilter):
    """Passes hosts whose free VCPU is exactly what one instance takes.

    For machines that are given away whole. A request that takes no VCPU passes where none is free.

    Reads: the flavor's VCPUs, or its extra spec `resources:VCPU` in their place, and what is free on the
    host: total - reserved - claimed, without any allocation ratio.

    Example: a flavor of 8 VCPUs goes to hosts with 8 VCPUs free, and neither to one with 7 nor to one with 9.
    """

    code = "not_exact_vcpus"
    resource_class = VCPU
