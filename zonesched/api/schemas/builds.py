"""Bodies of a parent zone: builds of sealed entries, and the attempts to confirm or cancel."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from zonesched.api.schemas.body_limit import ATTEMPTS, BUILDS, NAMED, BodyLimit
from zonesched.api.schemas.fields import Amount, FirstFault, Name, PerBuild, Schema, Text, Uuid, refusal
from zonesched.api.schemas.select import FlavorOfSpec, ImageOfSpec, KnownSpecBody, RequestSpecBody
from zonesched.errors import BadRequest
from zonesched.model.named_boot import MAX_BOOTS, MAX_BUILDS, NamedBoot
from zonesched.model.placement import Attempt, Build

ONLY_WITH_BLOB = frozenset({"uuid", "attempt", "name", "flavor_ref", "image_ref"})


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
    """A parent's builds, or the user's form with one `blob`, which alone names its instance."""

    reservation_id: Uuid = ""
    hold_s: float = Field(default=1.0, gt=0, le=3600)
    builds: Annotated[list[BuildItem], Field(min_length=1), FirstFault, PerBuild] = Field(
        default_factory=list
    )
    blob: str = ""
    uuid: Uuid = ""
    attempt: Amount = 0
    name: Name = ""
    flavor_ref: Name = Field(default="", alias="flavorRef")
    image_ref: Text = Field(default="", alias="imageRef")

    def hold_or(self, default_s: float) -> float:
        """Return the seconds to hold the builds; `default_s` where the parent gives none."""
        return self.hold_s if "hold_s" in self.model_fields_set else default_s

    def to_builds(self, new_uuid: str) -> list[Build]:
        """Return the builds; `new_uuid` names the instance of a single blob that came without a uuid."""
        given = {"builds", "blob"} & self.model_fields_set
        if len(given) != 1:
            raise BadRequest(
                "server.builds: exactly one of builds and blob is needed.",
                code="missing_field",
                field="server.builds",
            )
        if "blob" in given:
            return [Build(self.uuid or new_uuid, self.attempt, (self.blob,), self.name)]
        for name in sorted(ONLY_WITH_BLOB & self.model_fields_set):
            field = f"server.{ParentServer.model_fields[name].alias or name}"
            raise BadRequest(f"{field}: only with blob.", code="unknown_field", field=field)
        if "reservation_id" not in self.model_fields_set:
            raise BadRequest(
                "server.reservation_id: needed with builds.",
                code="missing_field",
                field="server.reservation_id",
            )
        if len({item.uuid for item in self.builds}) < len(self.builds):
            raise BadRequest("server.builds: an instance is named twice.", field="server.builds")
        return [Build(item.uuid, item.attempt, tuple(item.blobs)) for item in self.builds]


class BuildBody(Schema):
    """A parent's POST /servers."""

    body_limit: ClassVar[BodyLimit] = BUILDS

    server: ParentServer
    request_spec: RequestSpecBody

    def checked(self) -> ParentServer:
        """Return the server; raises BadRequest for one of another flavor or image than the request."""
        server, spec = self.server, self.request_spec
        for field, ref, asked in (
            ("flavor_ref", server.flavor_ref, spec.flavor),
            ("image_ref", server.image_ref, spec.image),
        ):
            if field in server.model_fields_set and not _names(ref, asked):
                path = f"server.{ParentServer.model_fields[field].alias}"
                raise BadRequest(f"{path}: must be that of request_spec: its id, name or link.", field=path)
        return server


def _names(ref: str, asked: FlavorOfSpec | ImageOfSpec) -> bool:
    return ref in (asked.id, asked.name) or (asked.id != "" and ref.rpartition("/")[2] == asked.id)


class AttemptsBody(Schema):
    """A parent's confirm or cancel."""

    body_limit: ClassVar[BodyLimit] = ATTEMPTS

    builds: Annotated[list[AttemptItem], Field(min_length=1), FirstFault, PerBuild]

    def to_attempts(self) -> list[Attempt]:
        return [Attempt(item.uuid, item.attempt) for item in self.builds]


class NamedBootItem(Schema):
    """One boot of a parent, and those of its attempts that are here."""

    reservation_id: Uuid
    request_spec: KnownSpecBody
    builds: Annotated[list[AttemptItem], Field(min_length=1, max_length=MAX_BUILDS), FirstFault]

    def to_boot(self) -> NamedBoot:
        builds = tuple(Attempt(item.uuid, item.attempt) for item in self.builds)
        return NamedBoot(self.reservation_id, self.request_spec.to_spec(), builds)


def _not_too_many(boots: list[NamedBootItem]) -> list[NamedBootItem]:
    if sum(len(boot.builds) for boot in boots) > MAX_BUILDS:
        raise refusal("too_long", f"must have at most {MAX_BUILDS} builds in all")
    return boots


class NamedBody(Schema):
    """A page of the instances that a parent has here; `last`: it has no others."""

    body_limit: ClassVar[BodyLimit] = NAMED

    boots: Annotated[
        list[NamedBootItem], Field(max_length=MAX_BOOTS), FirstFault, AfterValidator(_not_too_many)
    ]
    last: bool
