"""Bodies of /flavors."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from zonesched.api.schemas.body_limit import WITH_MAP, BodyLimit
from zonesched.api.schemas.fields import Amount, ExtraSpecs, ItemId, Name, Schema
from zonesched.model.request_spec import Flavor


class NewFlavor(Schema):
    """A size; `ram` in MB, `disk` in GB. OpenStack's other keys are accepted with their default only."""

    name: Name
    vcpus: Amount
    ram: Amount
    disk: Amount
    id: ItemId | Literal["auto"] | None = None
    extra_specs: ExtraSpecs = Field(default_factory=dict)
    ephemeral: Literal[0] = Field(default=0, alias="OS-FLV-EXT-DATA:ephemeral")
    swap: Literal[0] = 0
    rxtx_factor: Literal[1] | float = Field(default=1, ge=1, le=1)
    is_public: Literal[True] = Field(default=True, alias="os-flavor-access:is_public")


class FlavorBody(Schema):
    body_limit: ClassVar[BodyLimit] = WITH_MAP

    flavor: NewFlavor

    def to_flavor(self, new_id: str) -> Flavor:
        """The flavor; `new_id` names it where the body does not."""
        asked = self.flavor
        return Flavor(
            id=new_id if asked.id in (None, "auto") else str(asked.id),
            name=asked.name,
            vcpus=asked.vcpus,
            ram_mb=asked.ram,
            disk_gb=asked.disk,
            extra_specs=asked.extra_specs,
        )


class ExtraSpecsBody(Schema):
    """Extra specs to add or to change; the others stay."""

    body_limit: ClassVar[BodyLimit] = WITH_MAP

    extra_specs: ExtraSpecs
