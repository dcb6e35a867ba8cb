"""Bodies of /os-hypervisors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from zonesched.api.schemas.fields import (
    LONGEST_PAGE,
    MAX_INT,
    Amount,
    LenientQuery,
    QueryBool,
    QueryInt,
    ResourceClass,
    Schema,
    Text,
)
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


class HypervisorQuery(LenientQuery):
    """`with_servers`: list the instances on the host."""

    with_servers: QueryBool = False


class HypervisorsQuery(HypervisorQuery):
    """A part of the hosts' names, and a page. A `limit` of 0: none.

    A page has no more than `LONGEST_PAGE`, as those of other lists. Without `limit` and `marker`: all hosts
    of such a name, or before microversion 2.33 all hosts.
    """

    hypervisor_hostname_pattern: Text = ""
    limit: Annotated[QueryInt, AfterValidator(lambda asked: min(asked, LONGEST_PAGE))] = Field(
        default=0, ge=0, le=MAX_INT
    )
    marker: Text = ""
