"""Filter for hosts whose free RAM is exactly what one instance requests."""

from __future__ import annotations

from zonesched.filters.exact_free_amount import ExactFreeAmountFilter
from zonesched.model.request_spec import MEMORY_MB


class ExactRamFilter(ExactFreeAmountFilter):
    """Passes hosts whose free MEMORY_MB is exactly what one instance takes.

    For machines that are given away whole. A request that takes no MEMORY_MB passes where none is free.

    Reads: the flavor's RAM, or its extra spec `resources:MEMORY_MB` in its place, and what is free on the
    host: total - reserved - claimed, without any allocation ratio.

    Example: a flavor of 65536 MB goes to a host with 65536 MB free, and not to one with 65537 MB.
    """

    code = "not_exact_ram"
    resource_class = MEMORY_MB
