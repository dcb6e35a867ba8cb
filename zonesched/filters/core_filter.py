"""Only hosts with enough VCPUs left."""

from __future__ import annotations

from zonesched.filters.room_of_class import RoomOfClassFilter
from zonesched.model.request_spec import VCPU


class CoreFilter(RoomOfClassFilter):
    """Passes hosts whose capacity of VCPU, less what claims take, covers one instance."""

    code = "not_enough_vcpus"
    resource_class = VCPU
