"""Bodies of a parent zone: the desired states of its instances."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from zonesched.api.schemas.body_limit import DESIRED, BodyLimit
from zonesched.api.schemas.fields import MAX_INT, Amount, FirstFault, Schema, Uuid
from zonesched.errors import BadRequest
from zonesched.model.desired_call import MAX_PER_CALL, DesiredOf
from zonesched.model.desired_state import Desired, RebootType
from zonesched.model.observed_state import Power


class DesiredItem(Schema):
    """The desired state of one attempt of an instance."""

    uuid: Uuid
    attempt: Amount
    generation: Annotated[int, Field(ge=1, lt=MAX_INT)]
    power: Literal["running", "stopped", "paused", "suspended"]
    reboots: Amount
    reboot_type: Literal["SOFT", "HARD"]

    def to_desired(self) -> DesiredOf:
        power, reboot_type = Power(self.power), RebootType(self.reboot_type)
        return DesiredOf(self.uuid, self.attempt, Desired(self.generation, power, self.reboots, reboot_type))


class DesiredBody(Schema):
    body_limit: ClassVar[BodyLimit] = DESIRED

    servers: Annotated[list[DesiredItem], Field(min_length=1, max_length=MAX_PER_CALL), FirstFault]

    def to_desired(self) -> list[DesiredOf]:
        """Return the desired states. Raises BadRequest for an instance that is named twice."""
        if len({item.uuid for item in self.servers}) < len(self.servers):
            raise BadRequest("servers: an instance is named twice.", field="servers")
        return [item.to_desired() for item in self.servers]
