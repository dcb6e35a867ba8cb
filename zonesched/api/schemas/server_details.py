"""Bodies of PUT /servers/{id}, and of a server's metadata and tags."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar

from pydantic import Field

from zonesched.api.schemas.body_limit import WITH_MAP, BodyLimit
from zonesched.api.schemas.fields import Name, Schema, Text, TextMap

MAX_TAGS = 50
TAG = re.compile(r"[^,/\x00-\x1f]{1,60}")

Tag = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[^,/\x00-\x1f]*$")]


class ServerChange(Schema):
    """The parts of a server that may change; null removes the description, a part left out stays."""

    name: Name | None = None
    description: Text | None = None


class ChangeServerBody(Schema):
    """Changes of a server."""

    server: ServerChange


class MetadataBody(Schema):
    """Metadata of a server."""

    body_limit: ClassVar[BodyLimit] = WITH_MAP

    metadata: TextMap


class MetadataItemBody(Schema):
    """One item of a server's metadata."""

    meta: Annotated[TextMap, Field(min_length=1, max_length=1)]


class TagsBody(Schema):
    """All tags of a server."""

    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)]
