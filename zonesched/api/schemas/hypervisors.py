"""Bodies of /os-hypervisors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from zonesched.api.schemas.fields import Amount, ResourceClass, Schema
from zonesched.model.capacity import InventorySetting
from zonesched.model.views import SettingChange


class ResourceSetting(Schema):
    """Settings of one resource class; null removes one, a field left out stays."""

    allocation_ratio: Annotated[float, Field(ge=0, le=1_000_000)] | None = None
    reserved: Amount | None = None


class HypervisorChange(Schema):
    resources: dict[ResourceClass, ResourceSetting] = Field(min_length=1, max_length=64)


class HypervisorBody(Schema):
    hypervisor: HypervisorChange

    def to_changes(self) -> Mapping[str, SettingChange]:
        return {
            name: SettingChange(
                frozenset(asked.model_fields_set), InventorySetting(asked.reserved, asked.allocation_ratio)
            )
            for name, asked in self.hypervisor.resources.items()
        }
