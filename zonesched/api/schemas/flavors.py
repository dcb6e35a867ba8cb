"""Bodies of /flavors."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from zonesched.api.schemas.body_limit import WITH_MAP, BodyLimit
from zonesched.api.schemas.fields import (
    LONGEST_PAGE,
    MAX_INT,
    GivenName,
    LenientQuery,
    Name,
    PageLimit,
    QueryInt,
    Schema,
    SpecValue,
    SpelledAmount,
    SpelledBool,
    SpelledItemId,
    SpelledSpecs,
    Text,
    refusal,
    truth,
)
from zonesched.model.catalog import CatalogFlavor
from zonesched.model.request_spec import Flavor

MOST_RXTX_FACTOR = 3.40282e38
"""The limit of OpenStack Nova."""

Description = Annotated[str, Field(max_length=65_535)]


def _no_swap(value: Any) -> Any:
    """Read an empty text as 0: OpenStack's clients send it for no swap."""
    return 0 if value == "" else value


def _factor(value: Any) -> Any:
    """Read a number that OpenStack's clients write as a text."""
    return float(value) if isinstance(value, str) and re.fullmatch(_FACTOR, value) else value


_FACTOR = r"^[0-9]{1,10}(\.[0-9]{1,10})?$"
FactorText = Annotated[str, Field(pattern=_FACTOR)]


def _is_public(value: Any) -> Any:
    """Read a truth, or null: OpenStack's `none` stands for public flavors and others."""
    if isinstance(value, str) and value.lower() == "none":
        return None
    return truth(value) if value else value


IsPublic = Annotated[bool | None, BeforeValidator(_is_public, json_schema_input_type=bool | Literal["none"])]


class NewFlavor(Schema):
    """A size; `ram` and `swap` in MB, disks in GB."""

    name: GivenName
    vcpus: SpelledAmount
    ram: SpelledAmount
    disk: SpelledAmount
    id: SpelledItemId | None = None
    extra_specs: SpelledSpecs = Field(default_factory=dict)
    description: Description | None = None
    ephemeral: SpelledAmount = Field(default=0, alias="OS-FLV-EXT-DATA:ephemeral")
    swap: Annotated[SpelledAmount, BeforeValidator(_no_swap, json_schema_input_type=int | Literal[""])] = 0
    rxtx_factor: Annotated[float, BeforeValidator(_factor, json_schema_input_type=float | FactorText)] = (
        Field(default=1, gt=0, le=MOST_RXTX_FACTOR)
    )
    is_public: SpelledBool = Field(default=True, alias="os-flavor-access:is_public")


class FlavorBody(Schema):
    body_limit: ClassVar[BodyLimit] = WITH_MAP

    flavor: NewFlavor

    def to_flavor(self, new_id: str) -> CatalogFlavor:
        """Return the flavor; `new_id` names it where the body does not."""
        asked = self.flavor
        flavor = Flavor(
            id=new_id if asked.id in (None, "auto") else str(asked.id),
            name=asked.name,
            vcpus=asked.vcpus,
            ram_mb=asked.ram,
            disk_gb=asked.disk,
            extra_specs=asked.extra_specs,
            ephemeral_gb=asked.ephemeral,
            swap_mb=asked.swap,
        )
        return CatalogFlavor(flavor, asked.is_public, asked.description or "", asked.rxtx_factor)


class FlavorDescription(Schema):
    """The one part of a flavor that may change; null removes it."""

    description: Description | None


class ChangeFlavorBody(Schema):
    """A flavor's new description."""

    flavor: FlavorDescription


class Project(Schema):
    """A project that is given access, or loses it."""

    tenant: Name


class FlavorActionBody(Schema):
    """One of the two actions on the access to a flavor that is not public."""

    add: Project | None = Field(default=None, alias="addTenantAccess")
    remove: Project | None = Field(default=None, alias="removeTenantAccess")

    @model_validator(mode="after")
    def _one_action(self) -> FlavorActionBody:
        if (self.add is None) is (self.remove is None):
            raise refusal("invalid_value", "must have one of addTenantAccess and removeTenantAccess")
        return self


SortKey = Literal[
    "name",
    "flavorid",
    "id",
    "memory_mb",
    "ram",
    "vcpus",
    "root_gb",
    "disk",
    "ephemeral_gb",
    "swap",
    "rxtx_factor",
    "disabled",
    "is_public",
]


class FlavorsQuery(LenientQuery):
    """Filters, order and page of a list of flavors; sizes are least sizes."""

    is_public: IsPublic = True
    min_ram: QueryInt = Field(default=0, ge=0, le=MAX_INT, alias="minRam")
    min_disk: QueryInt = Field(default=0, ge=0, le=MAX_INT, alias="minDisk")
    sort_key: SortKey = "name"
    sort_dir: Literal["asc", "desc"] = "asc"
    limit: PageLimit = LONGEST_PAGE
    marker: Text = ""


class ExtraSpecsBody(Schema):
    """Extra specs to add or to change; the others stay."""

    body_limit: ClassVar[BodyLimit] = WITH_MAP

    extra_specs: SpelledSpecs


class ExtraSpecBody(Schema):
    """One extra spec: its key and value."""

    model_config = ConfigDict(extra="allow")

    __pydantic_extra__: dict[str, SpecValue] = Field(init=False)
