"""Bodies and queries of /servers and /zones/boot."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from zonesched.api.schemas.body_limit import REQUEST, BodyLimit
from zonesched.api.schemas.destination import destination
from zonesched.api.schemas.fields import (
    PRINTABLE,
    FilterName,
    InstanceCount,
    LenientQuery,
    Name,
    QueryBool,
    QueryInt,
    Schema,
    Text,
    TextMap,
    refusal,
)
from zonesched.api.schemas.hints import SchedulerHints
from zonesched.api.schemas.moments import Moment, epoch_s
from zonesched.api.schemas.server_details import MAX_TAGS, ServerSettings, Tag
from zonesched.errors import BadRequest, Forbidden
from zonesched.model.boot_form import BootForm
from zonesched.model.name_pattern import is_pattern
from zonesched.model.own_zone import AS_CONFIGURED, ChosenFilters, EnabledFilters
from zonesched.model.server_query import ListOrder, ServerQuery, SortKey

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


NAME_LENGTH = 255
NUMBER_LENGTH = len("-100000")


def _base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        raise refusal("invalid_value", "must be base64") from None
    return text


def _networks(value: Any) -> Any:
    if isinstance(value, str) and value not in ("auto", "none"):
        raise refusal("invalid_value", "must be auto, none or a list of networks")
    return value


def _number(value: object) -> object:
    return 0 if value == "0" else value


def _is_true(value: object) -> object:
    return True if isinstance(value, str) and value.lower() == "true" else value


def _status(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


class Network(Schema):
    """A network; stored with the instance and passed through."""

    uuid: Name = ""
    port: Name = ""
    fixed_ip: Name = ""
    tag: Name = ""


class SecurityGroup(Schema):
    """A security group; stored with the instance and passed through."""

    name: Name


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
Networks = Annotated[Literal["auto", "none"] | NetworkList, BeforeValidator(_networks)]


class Server(ServerSettings):
    """An instance that a user asks for; several with min_count and max_count."""

    name: Name
    flavor_ref: Name = Field(alias="flavorRef")
    image_ref: Text = Field(default="", alias="imageRef")
    min_count: InstanceCount = 1
    max_count: InstanceCount = 1
    return_reservation_id: bool = False
    block_device_mapping_v2: list[LocalDisk] = Field(default_factory=list, max_length=1)
    availability_zone: Text = ""
    host: Text = ""
    hypervisor_hostname: Text = ""
    admin_pass: Text = Field(default="", alias="adminPass")
    metadata: TextMap = Field(default_factory=dict)
    networks: Networks = "auto"
    key_name: Name = ""
    user_data: UserData = ""
    security_groups: list[SecurityGroup] = Field(default_factory=list, max_length=64)
    config_drive: bool = False
    description: Text = ""
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
    hints: SchedulerHints = Field(default_factory=SchedulerHints, alias="os:scheduler_hints")
    ext_hints: SchedulerHints = Field(default_factory=SchedulerHints, alias="OS-SCH-HNT:scheduler_hints")

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
                **server.model_dump(include=PASSTHROUGH, exclude_unset=True),
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


StatusName = Annotated[
    Literal[
        "BUILD",
        "ACTIVE",
        "SHUTOFF",
        "PAUSED",
        "SUSPENDED",
        "REBOOT",
        "HARD_REBOOT",
        "REBUILD",
        "RESIZE",
        "VERIFY_RESIZE",
        "REVERT_RESIZE",
        "ERROR",
        "DELETED",
        "UNKNOWN",
        "SHELVED_OFFLOADED",
    ],
    BeforeValidator(_status, json_schema_input_type=str),
]


SortName = Literal["created_at", "updated_at", "display_name", "name", "uuid", "project_id", "user_id"]
SortNames = Annotated[list[SortName], Field(max_length=len(SortKey))]
Directions = Annotated[list[Literal["asc", "desc"]], Field(max_length=len(SortKey))]
LongText = Annotated[str, Field(max_length=4096, pattern=PRINTABLE)]


class DeleteQuery(Schema):
    """`attempt`: only at this attempt of the parent; 0 for the present one."""

    attempt: QueryInt = Field(default=0, ge=0)


class ListQuery(LenientQuery):
    """The filters, order, page and scope of a list of instances; `deleted` lists what was deleted.

    Each `sort_key` has the `sort_dir` at its place, those without one the first.
    """

    repeated: ClassVar[frozenset[str]] = frozenset({"sort_key", "sort_dir"})

    reservation_id: Text = ""
    status: StatusName | Literal[""] = ""
    name: Text = ""
    limit: QueryInt = Field(default=1000, ge=1, le=1000)
    marker: Text = ""
    all_tenants: QueryBool = False
    deleted: QueryBool = False
    flavor: Text = ""
    changes_since: Moment = Field(default="", alias="changes-since")
    changes_before: Moment = Field(default="", alias="changes-before")
    uuid: Text = ""
    user_id: Text = ""
    project_id: Text = ""
    tenant_id: Text = ""
    sort_key: SortNames = Field(default_factory=list)
    sort_dir: Directions = Field(default_factory=list)
    image: Text = ""
    ip: Text = ""
    ip6: Text = ""
    tags: LongText = ""
    tags_any: LongText = Field(default="", alias="tags-any")
    not_tags: LongText = Field(default="", alias="not-tags")
    not_tags_any: LongText = Field(default="", alias="not-tags-any")
    locked: QueryBool | None = None
    config_drive: QueryBool | None = None
    key_name: Text = ""
    availability_zone: Text = ""
    description: Text = ""
    hostname: Text = ""
    access_ip_v4: Text = ""
    access_ip_v6: Text = ""
    vm_state: Text = ""
    task_state: Text = ""
    power_state: QueryInt | None = None
    host: Text = ""
    node: Text = ""

    def to_query(self, *, by_admin: bool) -> ServerQuery:
        """Return what the database looks for; a name that is a regular expression is not among it."""
        everybody = by_admin and self.all_tenants
        return ServerQuery(
            reservation_id=self.reservation_id,
            status=self.status or ("DELETED" if self.deleted else ""),
            flavor_id=self.flavor,
            changed_since=epoch_s(self.changes_since) if self.changes_since else 0.0,
            changed_before=epoch_s(self.changes_before) if self.changes_before else 0.0,
            name="" if is_pattern(self.name) else self.name,
            uuid=self.uuid,
            user_id=self.user_id if everybody else "",
            project_id=(self.project_id or self.tenant_id) if everybody else "",
            host=(self.host or self.node) if by_admin else "",
            order=self._order(),
            limit=self.limit,
            marker=self.marker,
            all_tenants=self.all_tenants,
        )

    def _order(self) -> tuple[ListOrder, ...]:
        """Return the order asked for. Raises BadRequest for more directions than keys."""
        keys = self.sort_key or ["created_at"]
        if len(self.sort_dir) > len(keys):
            raise BadRequest("sort_dir: there are more directions than sort_keys.", field="sort_dir")
        first = self.sort_dir[0] if self.sort_dir else "desc"
        directions = [*self.sort_dir, *(first for _ in keys[len(self.sort_dir) :])]
        found: dict[SortKey, ListOrder] = {}
        for name, direction in zip(keys, directions, strict=True):
            key = SortKey("display_name" if name == "name" else name)
            found.setdefault(key, ListOrder(key, is_descending=direction == "desc"))
        return tuple(found.values())
