"""Bodies of a parent zone: the desired states of its instances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from zonesched.api.schemas.body_limit import DESIRED, BodyLimit
from zonesched.api.schemas.fields import MAX_INT, Amount, FirstFault, Generation, Schema, Uuid
from zonesched.api.schemas.select import FlavorOfSpec, ImageOfSpec
from zonesched.errors import BadRequest
from zonesched.model.desired_call import MAX_IMAGES, MAX_PER_CALL, DesiredOf
from zonesched.model.desired_state import Desired, RebootType
from zonesched.model.instance_flavor import InstanceFlavor
from zonesched.model.instance_image import AS_BOOTED, InstanceImage
from zonesched.model.observed_state import Power, Resizes
from zonesched.model.request_spec import Flavor, Image
from zonesched.model.request_wire import flavor_from_wire, image_from_wire


class ResizeCounts(Schema):
    """How many resizes were asked for, confirmed and reverted."""

    begun: Annotated[int, Field(ge=0, lt=MAX_INT)]
    confirmed: Annotated[int, Field(ge=0, lt=MAX_INT)]
    reverted: Annotated[int, Field(ge=0, lt=MAX_INT)]


class DesiredItem(Schema):
    """The desired state of one attempt of an instance.

    `image`: position in `images`, of a new rebuild; `flavor`: position in `flavors`, of a new resize.
    """

    uuid: Uuid
    attempt: Amount
    generation: Annotated[int, Field(ge=1, lt=MAX_INT)]
    power: Literal["running", "stopped", "paused", "suspended", "offloaded"]
    reboots: Generation
    reboot_type: Literal["SOFT", "HARD"]
    rebuilds: Annotated[int, Field(ge=0, lt=MAX_INT)] = 0
    image: Annotated[int, Field(ge=0, lt=MAX_IMAGES)] | None = None
    resizes: ResizeCounts = ResizeCounts(begun=0, confirmed=0, reverted=0)
    flavor: Annotated[int, Field(ge=0, lt=MAX_IMAGES)] | None = None

    def to_desired(self, images: Sequence[Image], flavors: Sequence[Flavor]) -> DesiredOf:
        desired = Desired(
            generation=self.generation,
            power=Power(self.power),
            reboots=self.reboots,
            reboot_type=RebootType(self.reboot_type),
            rebuilds=self.rebuilds,
            image=self._image(images),
            resizes=Resizes(**self.resizes.model_dump()),
            flavor=self._flavor(flavors),
        )
        return DesiredOf(self.uuid, self.attempt, desired)

    def _image(self, images: Sequence[Image]) -> InstanceImage:
        if self.image is None:
            return AS_BOOTED
        if self.image >= len(images):
            raise BadRequest("servers: an image is not among images.", field="servers")
        return images[self.image]

    def _flavor(self, flavors: Sequence[Flavor]) -> InstanceFlavor:
        if self.flavor is None:
            return AS_BOOTED
        if self.flavor >= len(flavors):
            raise BadRequest("servers: a flavor is not among flavors.", field="servers")
        return flavors[self.flavor]


class DesiredBody(Schema):
    body_limit: ClassVar[BodyLimit] = DESIRED

    servers: Annotated[list[DesiredItem], Field(min_length=1, max_length=MAX_PER_CALL), FirstFault]
    images: Annotated[list[ImageOfSpec], Field(max_length=MAX_IMAGES)] = []
    flavors: Annotated[list[FlavorOfSpec], Field(max_length=MAX_IMAGES)] = []

    def to_desired(self) -> list[DesiredOf]:
        """Return the desired states.

        Raises BadRequest for an instance named twice, and a missing image or flavor.
        """
        if len({item.uuid for item in self.servers}) < len(self.servers):
            raise BadRequest("servers: an instance is named twice.", field="servers")
        images = [image_from_wire(image.model_dump()) for image in self.images]
        flavors = [flavor_from_wire(flavor.model_dump()) for flavor in self.flavors]
        return [item.to_desired(images, flavors) for item in self.servers]
