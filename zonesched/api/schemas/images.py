"""Bodies of /images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import ConfigDict, Field

from zonesched.api.schemas.body_limit import WITH_MAP, BodyLimit
from zonesched.api.schemas.fields import Amount, ItemId, LenientQuery, Name, QueryInt, Schema, Text, TextMap
from zonesched.model.catalog import CatalogImage
from zonesched.model.request_spec import Image


class NewImage(Schema):
    """An image's id, name and the properties that filters read; without an id it gets one.

    `min_disk` in GB and `min_ram` in MB are those of the smallest flavor that it fits.
    """

    id: ItemId = ""
    name: Name
    properties: TextMap = Field(default_factory=dict)
    min_disk: Amount = 0
    min_ram: Amount = 0


class ImageBody(Schema):
    body_limit: ClassVar[BodyLimit] = WITH_MAP

    image: NewImage

    def to_image(self, new_id: str, now: float) -> CatalogImage:
        """Return the image; `now` in UTC epoch seconds."""
        asked = self.image
        image = Image(asked.id or new_id, asked.name, asked.properties)
        return CatalogImage(image, asked.min_disk, asked.min_ram, now)


class ComputeImagesQuery(LenientQuery):
    """The image to list; without a name, all."""

    name: Text = ""


class ImagesQuery(LenientQuery):
    """Filters and page of a list of images; other parameters are properties that an image must have."""

    model_config = ConfigDict(extra="allow")

    id: Text = ""
    name: Text = ""
    status: Text = ""
    visibility: Text = ""
    limit: QueryInt = Field(default=1000, ge=1, le=1000)
    marker: Text = ""

    def ids(self) -> frozenset[str]:
        """Return the ids asked for, `in:` a list or one; empty for any."""
        return _any_of(self.id)

    def names(self) -> frozenset[str]:
        """Return the names asked for, `in:` a list or one; empty for any."""
        return _any_of(self.name)

    def properties(self) -> Mapping[str, str]:
        """Return the properties asked for."""
        given = self.__pydantic_extra__ or {}
        return {name: value for name, value in given.items() if name not in _IGNORED}


_IGNORED = frozenset(
    {"sort", "sort_key", "sort_dir", "member_status", "os_hidden", "owner", "protected", "tag"}
)


def _any_of(text: str) -> frozenset[str]:
    operator, colon, values = text.partition(":")
    if colon and operator == "in":
        return frozenset(value.strip().strip('"') for value in values.split(","))
    return frozenset((text,)) if text else frozenset()
