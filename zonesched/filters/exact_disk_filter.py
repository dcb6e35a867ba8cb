"""Filter for hosts whose free disk is exactly what one instance requests."""

from __future__ import annotations

from zonesched.filters.exact_free_amount import ExactFreeAmountFilter
from zonesched.model.request_spec import DISK_GB


class ExactDiskFilter(ExactFreeAmountFilter):
    """Passes hosts whose free DISK_GB is exactly what one instance takes.

    For machines that are given away whole. A request that takes no DISK_GB passes where none is free.

    Reads: the flavor's disk, or its extra spec `resources:DISK_GB` in its place, and what is free on the
    host: total - reserved - claimed, without any allocation ratio.

    Example: a flavor of 100 GB goes to a host with 100 GB free, and not to one with 200 GB.
    """

    code = "not_exact_disk"
    resource_class = DISK_GB
