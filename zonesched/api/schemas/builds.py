"""What a parent zone sends: builds of sealed entries, and the second step that names their attempts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from zonesched.api.schemas.fields import Amount, Name, PerInstance, Schema, Uuid
from zonesched.api.schemas.select import RequestSpecBody
from zonesched.errors import BadRequest
from zonesched.model.placement import Attempt, Build


class BuildItem(Schema):
    """One instance to build: its entries are tried in order. A blob that does not open is refused as such."""

    uuid: Uuid
    attempt: Amount
    blobs: list[str] = Field(min_length=1, max_length=16)


class AttemptItem(Schema):
    """One attempt of an instance."""

    uuid: Uuid
    attempt: Amount


class ParentServer(Schema):
    """A parent's builds, or the user's form with one `blob`."""

    reservation_id: Uuid = ""
    hold_s: float = Field(default=1.0, gt=0, le=3600)
    builds: Annotated[list[BuildItem], Field(min_length=1), PerInstance] = Field(default_factory=list)
    blob: str = ""
    uuid: Uuid = ""
    attempt: Amount = 0
    name: Name = ""
    flavor_ref: Name = Field(default="", alias="flavorRef")
    image_ref: Name = Field(default="", alias="imageRef")

    def hold_or(self, default_s: float) -> float:
        """Seconds that the builds are to be held; `default_s` where the parent does not say."""
        return self.hold_s if "hold_s" in self.model_fields_set else default_s

    def to_builds(self, new_uuid: str) -> list[Build]:
        """The builds; `new_uuid` names the instance of a single blob that came without a uuid."""
        given = {"builds", "blob"} & self.model_fields_set
        if len(given) != 1:
            raise BadRequest(
                "server.builds: exactly one of builds and blob is needed.",
                code="missing_field",
                field="server.builds",
            )
        if "blob" in given:
            return [Build(self.uuid or new_uuid, self.attempt, (self.blob,))]
        if "reservation_id" not in self.model_fields_set:
            raise BadRequest(
                "server.reservation_id: needed with builds.",
                code="missing_field",
                field="server.reservation_id",
            )
        if len({item.uuid for item in self.builds}) < len(self.builds):
            raise BadRequest("server.builds: an instance stands there twice.", field="server.builds")
        return [Build(item.uuid, item.attempt, tuple(item.blobs)) for item in self.builds]


class BuildBody(Schema):
    """A parent's POST /servers."""

    server: ParentServer
    request_spec: RequestSpecBody


class AttemptsBody(Schema):
    """A parent's confirm or cancel."""

    builds: Annotated[list[AttemptItem], Field(min_length=1), PerInstance]

    def to_attempts(self) -> list[Attempt]:
        return [Attempt(item.uuid, item.attempt) for item in self.builds]
