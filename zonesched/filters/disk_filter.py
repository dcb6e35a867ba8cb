"""Only hosts with enough disk left."""

from __future__ import annotations

from zonesched.filters.room_of_class import RoomOfClassFilter
from zonesched.model.request_spec import DISK_GB


class DiskFilter(RoomOfClassFilter):
    """Passes hosts whose capacity of DISK_GB, less what claims take, covers one instance."""

    code = "not_enough_disk"
    resource_class = DISK_GB
