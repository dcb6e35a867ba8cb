"""Bodies and queries of /servers and /zones/boot."""

from __future__ import annotations

import base64
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from zonesched.api.schemas.body_limit import REQUEST, BodyLimit
from zonesched.api.schemas.destination import destination
from zonesched.api.schemas.fields import (
    UNPADDED,
    FilterName,
    FlavorRef,
    GivenName,
    InstanceCount,
    Metadata,
    Name,
    QueryInt,
    Schema,
    SpelledBool,
    SpelledCount,
    SpelledUuid,
    Text,
    refusal,
)
from zonesched.api.schemas.hints import SchedulerHints, no_hints
from zonesched.api.schemas.server_details import MAX_TAGS, Ip, ServerSettings, Tag
from zonesched.errors import BadRequest, Forbidden
from zonesched.model.boot_form import BootForm
from zonesched.model.own_zone import AS_CONFIGURED, ChosenFilters, EnabledFilters

PASSTHROUGH = {
    "metadata",
    "networks",
    "key_name",
    "user_data",
    "security_groups",
    "config_drive",
    "description",
    "tags",
}
"""Keys of a user's `server` that are stored with the instance and passed through."""


VOLUMES = ("volume", "snapshot")
"""Sources and destinations of disks that are volumes."""

NAME_LENGTH = 255
NUMBER_LENGTH = len("-100000")


def _base64(text: str) -> str:
    """Return a text in base64 without the line breaks that encoders put in."""
    joined = "".join(text.split())
    try:
        base64.b64decode(joined, validate=True)
    except ValueError:
        # Also for a text that is not ASCII.
        raise refusal("invalid_value", "must be base64") from None
    return joined


def _networks(value: Any) -> Any:
    if not isinstance(value, list) and value not in ("auto", "none"):
        raise refusal("invalid_value", "must be auto, none or a list of networks")
    return value


def _number(value: object) -> object:
    return 0 if value == "0" else value


def _is_true(value: object) -> object:
    return True if isinstance(value, str) and value.lower() == "true" else value


def _local_disks(value: Any) -> Any:
    """Say of disks that no zone has what is wrong with them, and not which of their members is unknown."""
    disks = [disk for disk in value if isinstance(disk, dict)] if isinstance(value, list) else []
    if any(disk.get(end) in VOLUMES for disk in disks for end in ("source_type", "destination_type")):
        raise refusal("invalid_value", "a zone keeps no volumes: a server boots from an image")
    if len(disks) > 1:
        words = "must be the disk of the image alone: a flavor says what ephemeral disk and swap there are"
        raise refusal("too_long", words)
    return value


class Network(Schema):
    """A network or a port of one, as OpenStack Nova takes it; stored with the instance and passed through."""

    uuid: SpelledUuid = ""
    port: SpelledUuid | None = None
    fixed_ip: Ip = ""
    tag: Tag = ""

    @model_validator(mode="after")
    def _network_or_port(self) -> Network:
        if not self.uuid and not self.port:
            raise refusal("invalid_value", "must have the uuid of a network, or a port")
        if self.port and self.fixed_ip:
            raise refusal("invalid_value", "must not have both a port and a fixed_ip: a port has its address")
        return self


class SecurityGroup(Schema):
    """A security group; stored with the instance and passed through."""

    name: GivenName


class LocalDisk(Schema):
    """The disk that a server boots from, made of its image on its host; a zone has no volumes.

    OpenStack's clients write numbers and truths as texts, too.
    """

    boot_index: Annotated[Literal[0], BeforeValidator(_number)] = 0
    source_type: Literal["image"]
    destination_type: Literal["local"] = "local"
    uuid: Name
    delete_on_termination: Annotated[Literal[True], BeforeValidator(_is_true)] = True


UserData = Annotated[str, Field(max_length=65_535), AfterValidator(_base64)]
NetworkList = Annotated[list[Network], Field(max_length=64)]
# The list first: what is wrong with one of its networks is said, and not that a list is no word.
Networks = Annotated[NetworkList | Literal["auto", "none"], BeforeValidator(_networks)]


LocalDisks = Annotated[list[LocalDisk], Field(max_length=1), BeforeValidator(_local_disks)]


class Server(ServerSettings):
    """An instance that a user asks for; several with min_count and max_count."""

    name: GivenName
    flavor_ref: FlavorRef = Field(alias="flavorRef")
    image_ref: Text = Field(default="", alias="imageRef")
    min_count: SpelledCount = 1
    max_count: SpelledCount = 1
    return_reservation_id: SpelledBool = False
    block_device_mapping_v2: LocalDisks = Field(default_factory=list)
    availability_zone: Annotated[Text, UNPADDED] = ""
    host: Text = ""
    hypervisor_hostname: Text = ""
    admin_pass: Text = Field(default="", alias="adminPass")
    metadata: Metadata = Field(default_factory=dict)
    networks: Networks = "auto"
    key_name: GivenName = ""
    user_data: UserData = ""
    security_groups: list[SecurityGroup] = Field(default_factory=list, max_length=64)
    config_drive: SpelledBool = False
    description: Text | None = None
    tags: list[Tag] = Field(default_factory=list, max_length=MAX_TAGS)

    def security_group_names(self) -> list[str]:
        return [group.name for group in self.security_groups] or ["default"]

    def counts(self) -> tuple[int, int]:
        """(min_count, max_count): 1 each, and max_count where only min_count is given, as in OpenStack."""
        return self.min_count, self.max_count if "max_count" in self.model_fields_set else self.min_count

    def checked_image_ref(self) -> str:
        """Return the image to boot from; raises BadRequest where the disk is of another image."""
        disks = self.block_device_mapping_v2
        if disks and self.image_ref and disks[0].uuid != self.image_ref:
            field = "server.block_device_mapping_v2.0.uuid"
            raise BadRequest(f"{field}: must be the image of server.imageRef.", field=field)
        return disks[0].uuid if disks else self.image_ref

    def checked_counts(self) -> tuple[int, int]:
        """The counts; raises BadRequest for ones that contradict each other or the name's length."""
        min_count, max_count = self.counts()
        if min_count > max_count:
            raise BadRequest(
                f"server.min_count: {min_count} is more than the {max_count} asked for.",
                code="out_of_range",
                field="server.min_count",
            )
        if max_count > 1 and len(self.name) + NUMBER_LENGTH > NAME_LENGTH:
            raise BadRequest(
                f"server.name: at most {NAME_LENGTH - NUMBER_LENGTH} characters, with room for a number.",
                code="too_long",
                field="server.name",
            )
        if max_count > 1 and self.hostname:
            message = "server.hostname: one host name does not do for several instances."
            raise BadRequest(message, field="server.hostname")
        return min_count, max_count

    def requested_filters(self) -> tuple[str, ...]:
        """Return the filters to add to the zone's own."""
        return ()

    def chosen_filters(self, by_admin: bool) -> EnabledFilters:
        """Return the filters that replace the zone's own for its local hosts; raises Forbidden."""
        return AS_CONFIGURED


class BootServer(Server):
    """An instance as for /servers, and a count; `filter` and `filters` are added to the zone's own.

    `enabled_filters`, of an admin, replace the zone's own for its local hosts.
    """

    num_instances: InstanceCount = 1
    filter: FilterName = ""
    filters: list[FilterName] = Field(default_factory=list, max_length=32)
    enabled_filters: list[FilterName] = Field(default_factory=list, max_length=64)

    def counts(self) -> tuple[int, int]:
        """(min_count, max_count), each num_instances where it is not given."""
        given = self.model_fields_set
        least = self.min_count if "min_count" in given else self.num_instances
        return least, self.max_count if "max_count" in given else self.num_instances

    def requested_filters(self) -> tuple[str, ...]:
        first = (self.filter,) if self.filter else ()
        return tuple(dict.fromkeys((*first, *self.filters)))

    def chosen_filters(self, by_admin: bool) -> EnabledFilters:
        if "enabled_filters" not in self.model_fields_set:
            return AS_CONFIGURED
        if not by_admin:
            raise Forbidden(
                "server.enabled_filters: only this zone's admin chooses its filters.",
                code="enabled_filters_refused",
                field="server.enabled_filters",
            )
        return ChosenFilters(tuple(dict.fromkeys(self.enabled_filters)))


class CreateBody(Schema):
    """A user's POST /servers; hints stand beside `server`, under one of their two names."""

    body_limit: ClassVar[BodyLimit] = REQUEST

    server: Server
    hints: SchedulerHints = Field(default_factory=no_hints, alias="os:scheduler_hints")
    ext_hints: SchedulerHints = Field(default_factory=no_hints, alias="OS-SCH-HNT:scheduler_hints")

    def to_form(self, idempotency_key: str, fingerprint: str, *, by_admin: bool = False) -> BootForm:
        """Return the boot; raises BadRequest or Forbidden that names the field.

        `by_admin`: an admin of this zone asks, who may choose its hosts and their filters.
        """
        server, hints = self.server, self._hints(by_admin)
        min_count, num_instances = server.checked_counts()
        where = destination(
            server.availability_zone, server.host, server.hypervisor_hostname, by_admin=by_admin
        )
        given = hints.passthrough()
        if twice := given.keys() & where.hints.keys():
            field = f"{self._hints_field}.{min(twice)}"
            raise BadRequest(
                f"{field}: the server names a host as well.", code="hints_contradict", field=field
            )
        return BootForm(
            name=server.name,
            flavor_ref=server.flavor_ref,
            image_ref=server.checked_image_ref(),
            num_instances=num_instances,
            min_count=min_count,
            availability_zone=where.availability_zone,
            hints={**given, **where.hints},
            named_hosts=where.named_hosts,
            hints_field=self._hints_field,
            group_ref=hints.group,
            policy=hints.policy(),
            filters=server.requested_filters(),
            filter_query=hints.query,
            enabled=server.chosen_filters(by_admin),
            passthrough={
                **server.given(PASSTHROUGH),
                **server.settings("server"),
            },
            idempotency_key=idempotency_key,
            fingerprint=fingerprint,
        )

    @property
    def _hints_field(self) -> str:
        return "OS-SCH-HNT:scheduler_hints" if "ext_hints" in self.model_fields_set else "os:scheduler_hints"

    def _hints(self, by_admin: bool) -> SchedulerHints:
        if {"hints", "ext_hints"} <= self.model_fields_set:
            field = "os:scheduler_hints"
            raise BadRequest(f"{field}: hints are given twice.", field=field)
        hints = self.ext_hints if "ext_hints" in self.model_fields_set else self.hints
        hints.refuse_unheeded(BadRequest, self._hints_field, by_admin=by_admin)
        return hints


class BootBody(CreateBody):
    """A user's POST /zones/boot.

    `dry_run`: only count how many would fit, and write nothing anywhere. `record`: of an admin, with a dry
    run: also return all that it was decided by.
    """

    server: BootServer
    dry_run: bool = False
    record: bool = False

    def to_form(self, idempotency_key: str, fingerprint: str, *, by_admin: bool = False) -> BootForm:
        if self.record and not self.dry_run:
            raise BadRequest("record: only a dry run is recorded.", field="record")
        return super().to_form(idempotency_key, fingerprint, by_admin=by_admin)


class DeleteQuery(Schema):
    """`attempt`: only at this attempt of the parent; 0 for the present one."""

    attempt: QueryInt = Field(default=0, ge=0)
