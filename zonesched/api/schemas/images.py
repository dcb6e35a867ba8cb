"""Bodies of /images."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from zonesched.api.schemas.body_limit import WITH_MAP, BodyLimit
from zonesched.api.schemas.fields import ItemId, Name, Schema, TextMap
from zonesched.model.request_spec import Image


class NewImage(Schema):
    """An image's id, name and the properties that filters read; without an id it gets one."""

    id: ItemId = ""
    name: Name
    properties: TextMap = Field(default_factory=dict)


class ImageBody(Schema):
    body_limit: ClassVar[BodyLimit] = WITH_MAP

    image: NewImage

    def to_image(self, new_id: str) -> Image:
        return Image(self.image.id or new_id, self.image.name, self.image.properties)
