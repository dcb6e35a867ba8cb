"""The query of a list of servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from zonesched.api.schemas.fields import (
    LONGEST_PAGE,
    PRINTABLE,
    LenientQuery,
    PageLimit,
    QueryBool,
    QueryInt,
    Text,
    upper,
)
from zonesched.api.schemas.moments import Moment, since_s, until_s
from zonesched.errors import BadRequest
from zonesched.model.name_pattern import is_pattern
from zonesched.model.server_query import NEWEST_FIRST, ListOrder, ServerQuery, SortKey
from zonesched.model.shown_status import Status

StatusName = Annotated[
    Literal[
        "",
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
        "MIGRATING",
        "PASSWORD",
        "RESCUE",
        "SHELVED",
        "SOFT_DELETED",
    ],
    BeforeValidator(upper, json_schema_input_type=str),
]


MAX_STATUSES = 20
StatusNames = Annotated[list[StatusName], Field(max_length=MAX_STATUSES)]
SortName = Literal[
    "created_at",
    "updated_at",
    "display_name",
    "name",
    "uuid",
    "project_id",
    "user_id",
    "launch_index",
    "instance_type_id",
    "locked_by",
    "vm_state",
    "power_state",
    "kernel_id",
    "ramdisk_id",
    "root_device_name",
]
NOT_ORDERED = ("kernel_id", "ramdisk_id", "root_device_name")
"""Keys by which all servers of a zone are equal."""
SortNames = Annotated[list[SortName], Field(max_length=len(SortKey))]
Directions = Annotated[list[Literal["asc", "desc"]], Field(max_length=len(SortKey))]
LongText = Annotated[str, Field(max_length=4096, pattern=PRINTABLE)]


def statuses_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of these statuses that a server of a zone may have."""
    return tuple(dict.fromkeys(name for name in names if name in Status.__members__))


def are_of_no_server(names: Sequence[str]) -> bool:
    """Tell whether only statuses of OpenStack Nova are asked for that no server of a zone has."""
    return any(names) and not statuses_of(names)


class ParentListQuery(LenientQuery):
    """The filters and the page of a parent's list.

    Nothing orders or selects by the times of changes: instances that changed together are mostly in one zone
    below.
    """

    repeated: ClassVar[frozenset[str]] = frozenset({"status"})

    reservation_id: Text = ""
    status: StatusNames = Field(default_factory=list)
    limit: PageLimit = LONGEST_PAGE
    marker: Text = ""

    def to_query(self) -> ServerQuery:
        """Return what the database looks for."""
        statuses = statuses_of(self.status)
        return ServerQuery(
            reservation_id=self.reservation_id, statuses=statuses, limit=self.limit, marker=self.marker
        )


class ListQuery(LenientQuery):
    """The filters, order, page and scope of a list of instances; `deleted` lists what was deleted.

    `display_name`, `display_description` and `image_ref` are OpenStack Nova's other names of `name`,
    `description` and `image`. Servers of any `status` given are listed. Each `sort_key` has the `sort_dir`
    at its place, those without one the first.
    """

    repeated: ClassVar[frozenset[str]] = frozenset({"status", "sort_key", "sort_dir"})

    reservation_id: Text = ""
    status: StatusNames = Field(default_factory=list)
    name: Text = ""
    display_name: Text = ""
    limit: PageLimit = LONGEST_PAGE
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
    image_ref: Text = ""
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
    pinned_availability_zone: Text = ""
    description: Text = ""
    display_description: Text = ""
    hostname: Text = ""
    access_ip_v4: Text = ""
    access_ip_v6: Text = ""
    vm_state: Text = ""
    task_state: Text = ""
    power_state: QueryInt | None = None
    progress: QueryInt | None = None
    launch_index: QueryInt | None = None
    host: Text = ""
    node: Text = ""
    created_at: Text = ""
    launched_at: Text = ""
    terminated_at: Text = ""
    auto_disk_config: QueryBool | None = None
    kernel_id: Text = ""
    ramdisk_id: Text = ""
    root_device_name: Text = ""

    @property
    def asked_name(self) -> str:
        """Return the name, or the part or regular expression of it, that is asked for."""
        return self.name or self.display_name

    @property
    def asked_description(self) -> str:
        """Return the description that is asked for."""
        return self.description or self.display_description

    @property
    def asked_image(self) -> str:
        """Return the id of the image that is asked for."""
        return self.image or self.image_ref

    @property
    def names_what_no_server_has(self) -> bool:
        """Whether it asks for an address, a part of a boot disk or a status that no server of a zone has."""
        given = (self.ip, self.ip6, self.kernel_id, self.ramdisk_id, self.root_device_name)
        return any(given) or are_of_no_server(self.status)

    def to_query(self, *, by_admin: bool) -> ServerQuery:
        """Return what the database looks for; a name that is a regular expression is not among it."""
        everybody = by_admin and self.all_tenants
        return ServerQuery(
            reservation_id=self.reservation_id,
            statuses=statuses_of(self.status)
            or (("DELETED", "SOFT_DELETED") if self.deleted and not any(self.status) else ()),
            flavor_id=self.flavor,
            changed_since=since_s(self.changes_since),
            changed_before=until_s(self.changes_before),
            name="" if is_pattern(self.asked_name) else self.asked_name,
            uuid=self.uuid,
            user_id=self.user_id,
            project_id=(self.project_id or self.tenant_id) if everybody else "",
            host=(self.host or self.node) if by_admin else "",
            order=self._order(),
            limit=self.limit,
            marker=self.marker,
            all_tenants=self.all_tenants,
            locked=self.locked,
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
            if name in NOT_ORDERED:
                continue
            key = SortKey("display_name" if name == "name" else name)
            found.setdefault(key, ListOrder(key, is_descending=direction == "desc"))
        return tuple(found.values()) or NEWEST_FIRST
