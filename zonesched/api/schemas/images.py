"""Bodies of /images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import AfterValidator, ConfigDict, Field

from zonesched.api.schemas.body_limit import WITH_MAP, BodyLimit
from zonesched.api.schemas.fields import (
    LONGEST_PAGE,
    MAX_INT,
    Amount,
    GivenName,
    ItemId,
    LenientQuery,
    Metadata,
    PageLimit,
    QueryBool,
    QueryInt,
    Schema,
    Text,
    refusal,
)
from zonesched.api.schemas.moments import Moment, epoch_s
from zonesched.model.catalog import CatalogImage
from zonesched.model.request_spec import Image


class NewImage(Schema):
    """An image's id, name and the properties that filters read; without an id it gets one.

    `min_disk` in GB and `min_ram` in MB are those of the smallest flavor that it fits.
    """

    id: ItemId = ""
    name: GivenName
    properties: Metadata = Field(default_factory=dict)
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
    """Filters and page of a list of images; sizes are least sizes. A zone has no images of servers."""

    name: Text = ""
    status: Text = ""
    type: Text = ""
    server: Text = ""
    min_disk: QueryInt = Field(default=0, ge=0, le=MAX_INT, alias="minDisk")
    min_ram: QueryInt = Field(default=0, ge=0, le=MAX_INT, alias="minRam")
    changes_since: Moment = Field(default="", alias="changes-since")
    limit: PageLimit = LONGEST_PAGE
    marker: Text = ""

    def has(self, found: CatalogImage) -> bool:
        """Tell whether an image is asked for."""
        return (
            self.name in ("", found.image.name)
            and self.status.upper() in ("", "ACTIVE")
            and self.type != "snapshot"
            and not self.server
            and found.min_disk_gb >= self.min_disk
            and found.min_ram_mb >= self.min_ram
            and (not self.changes_since or found.created_at >= epoch_s(self.changes_since))
        )


SortKey = Literal[
    "id",
    "name",
    "status",
    "visibility",
    "container_format",
    "disk_format",
    "size",
    "min_disk",
    "min_ram",
    "created_at",
    "updated_at",
]


def _parts(text: str) -> list[tuple[str, str]]:
    """Split an order such as `name:asc,size` into keys and directions, "" where none is given."""
    found = [part.partition(":") for part in text.split(",")]
    return [(key, direction) for key, _, direction in found]


def _checked_order(text: str) -> str:
    for key, direction in _parts(text) if text else ():
        if key not in get_args(SortKey) or direction not in ("", "asc", "desc"):
            raise refusal("invalid_value", f"must be keys with asc or desc: {', '.join(get_args(SortKey))}")
    return text


class ImagesQuery(LenientQuery):
    """Filters and page of a list of images; other parameters are properties that an image must have."""

    model_config = ConfigDict(extra="allow")

    id: Text = ""
    name: Text = ""
    status: Text = ""
    disk_format: Text = ""
    container_format: Text = ""
    min_disk: QueryInt | None = None
    min_ram: QueryInt | None = None
    size_min: QueryInt = 0
    size_max: QueryInt = MAX_INT
    visibility: Text = ""
    owner: Text = ""
    tag: Text = ""
    protected: QueryBool = False
    os_hidden: QueryBool = False
    sort: Annotated[Text, AfterValidator(_checked_order)] = ""
    sort_key: SortKey = "name"
    sort_dir: Literal["asc", "desc"] | Literal[""] = ""
    limit: PageLimit = LONGEST_PAGE
    marker: Text = ""

    def order(self) -> list[tuple[str, bool]]:
        """Return the members to order by, the first one first, and whether each descends.

        As in OpenStack's Image API a key descends where no direction is given; without a key it is the name.
        """
        if self.sort:
            return [(key, direction != "asc") for key, direction in _parts(self.sort)]
        is_given = "sort_key" in self.model_fields_set
        return [(self.sort_key, self.sort_dir == "desc" or (is_given and not self.sort_dir))]

    def choices(self) -> Mapping[str, frozenset[str]]:
        """Return the values asked for by member, `in:` a list or one; empty for any."""
        asked = {
            "id": self.id,
            "name": self.name,
            "status": self.status,
            "disk_format": self.disk_format,
            "container_format": self.container_format,
        }
        return {name: _any_of(text) for name, text in asked.items()}

    def properties(self) -> Mapping[str, str]:
        """Return the properties asked for."""
        given = self.__pydantic_extra__ or {}
        return {name: value for name, value in given.items() if name not in _IGNORED}


_IGNORED = frozenset({"member_status"})


def _any_of(text: str) -> frozenset[str]:
    operator, colon, values = text.partition(":")
    if colon and operator == "in":
        return frozenset(value.strip().strip('"') for value in values.split(","))
    return frozenset((text,)) if text else frozenset()
