"""Only hosts with enough RAM left."""

from __future__ import annotations

from zonesched.filters.room_of_class import RoomOfClassFilter
from zonesched.model.request_spec import MEMORY_MB


class RamFilter(RoomOfClassFilter):
    """Passes hosts whose capacity of MEMORY_MB, less what claims take, covers one instance."""

    code = "not_enough_ram"
    resource_class = MEMORY_MB
