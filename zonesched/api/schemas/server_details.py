"""Bodies of PUT /servers/{id}, and of a server's metadata and tags; the settings that POST takes, too."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from zonesched.api.schemas.body_limit import WITH_MAP, BodyLimit
from zonesched.api.schemas.fields import (
    HOSTNAME,
    PART_OF_PATH,
    TAG_TEXT,
    GivenName,
    LenientQuery,
    Metadata,
    Name,
    Schema,
    Text,
    refusal,
)
from zonesched.errors import BadRequest
from zonesched.model.controls import CONTROLS

MAX_TAGS = 50
TAG = re.compile(rf"(?!\.{{1,2}}$)[^,/{CONTROLS}]{{1,60}}")

Tag = Annotated[str, Field(min_length=1, max_length=60, pattern=TAG_TEXT), PART_OF_PATH]


def _ipv4(text: str) -> str:
    try:
        return str(IPv4Address(text)) if text else ""
    except AddressValueError:
        raise refusal("invalid_value", "must be an IPv4 address") from None


def _ipv6(text: str) -> str:
    try:
        found = IPv6Address(text) if text else ""
    except AddressValueError:
        found = None
    if found is None or "%" in text:
        raise refusal("invalid_value", "must be an IPv6 address without a zone")
    return str(found)


def _ip(text: str) -> str:
    try:
        ip_address(text.replace("%", " "))  # A zone means nothing outside of its machine.
    except ValueError:
        raise refusal("invalid_value", "must be an IPv4 or IPv6 address without a zone") from None
    return text


Ipv4 = Annotated[str, Field(max_length=15, json_schema_extra={"format": "ipv4"}), AfterValidator(_ipv4)]
Ipv6 = Annotated[str, Field(max_length=45, json_schema_extra={"format": "ipv6"}), AfterValidator(_ipv6)]
Ip = Annotated[str, Field(max_length=45), AfterValidator(_ip)]
"""An address of either kind, kept as it came."""


class PersonalityFile(Schema):
    """A file that older versions of OpenStack Nova write into a new server."""

    path: Name
    contents: Annotated[str, Field(max_length=65_535)]


Certificates = Annotated[list[Name], Field(min_length=1, max_length=50)]
Personality = Annotated[list[PersonalityFile], Field(max_length=64)]


DiskConfig = Literal["AUTO", "MANUAL"]


class ServerSettings(Schema):
    """Members of a server that no host reads, in the bodies that make, change and rebuild one.

    `trusted_image_certificates` and `personality` are checked as in OpenStack Nova, and refused.
    """

    access_ipv4: Ipv4 = Field(default="", alias="accessIPv4")
    access_ipv6: Ipv6 = Field(default="", alias="accessIPv6")
    disk_config: DiskConfig = Field(default="MANUAL", alias="OS-DCF:diskConfig")
    hostname: Annotated[str, Field(max_length=255, pattern=HOSTNAME)] = ""
    trusted_image_certificates: Certificates | None = None
    personality: Personality = Field(default_factory=list)

    def settings(self, within: str) -> dict[str, Any]:
        """Return the given members that are kept with the instance. `within`: the object's name in its body.

        Raises BadRequest for those that no zone can do.
        """
        if self.trusted_image_certificates is not None:
            field = f"{within}.trusted_image_certificates"
            message = f"{field}: a zone verifies no signatures of images."
            raise BadRequest(message, code="image_certificates_unsupported", field=field)
        if self.personality:
            field = f"{within}.personality"
            message = f"{field}: no driver writes files into a server."
            raise BadRequest(message, code="file_injection_unsupported", field=field)
        return self.given(SETTINGS)


SETTINGS = {"access_ipv4", "access_ipv6", "disk_config", "hostname"}
"""Settings that are kept with the instance, by their names in its passthrough."""


class ServerChange(ServerSettings):
    """The parts of a server that may change; null removes the description, a part left out stays."""

    name: GivenName = ""
    description: Text | None = None

    def changes(self) -> dict[str, Any]:
        """Return the given members that are kept with the instance, but for its name. Raises BadRequest."""
        return {**self.settings("server"), **self.given({"description"})}


class ChangeServerBody(Schema):
    """Changes of a server."""

    server: ServerChange


class MetadataBody(Schema):
    """Metadata of a server."""

    body_limit: ClassVar[BodyLimit] = WITH_MAP

    metadata: Metadata


class MetadataItemBody(Schema):
    """One item of a server's metadata."""

    meta: Annotated[Metadata, Field(min_length=1, max_length=1)]


class TagsBody(Schema):
    """All tags of a server."""

    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)]


class VolumesQuery(LenientQuery):
    """Any page of a list that is always empty."""
