"""Values between the API and the services: validated forms in, views out.

A form has checked types and limits and no resolved references; a view has only what its reader may see.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zonesched.model.caller import Explained, Role
from zonesched.model.capacity import Inventory, InventorySetting
from zonesched.model.decision_trace import NO_TRACE, DecisionTrace
from zonesched.model.desired_state import NEW, InstanceState
from zonesched.model.pending_step import PendingStep
from zonesched.model.placement import InstanceChange, InstanceStatus
from zonesched.model.request_spec import Flavor, GroupPolicy, Image


@dataclass(frozen=True)
class Accepted:
    """A boot that is in the database: its reservation, and its instances in order."""

    reservation_id: str
    uuids: tuple[str, ...]


@dataclass(frozen=True)
class DryRunView:
    """Outcome of a dry run: how many of `num_instances` would fit.

    `runs_out` has pairs (resource class or filter, code), the one that limits most hosts first; `refused_by`
    has codes; both are empty if all fit. For an admin only: the trace of the select, the number of instances
    per child (by id; "" for the local hosts), and the record, {} unless it was requested.
    """

    num_instances: int
    fits: int
    complete: bool
    runs_out: tuple[tuple[str, str], ...]
    refused_by: tuple[str, ...]
    trace: DecisionTrace
    fits_in: Mapping[str, int]
    record: Mapping[str, Any]


@dataclass(frozen=True)
class FailedAttempt:
    """A failed placement of an instance in ERROR, and the code of the reason.

    `host` and `child` are names, for this zone's admin only; one of them is not "".
    """

    number: int
    reason: str
    host: str = ""
    child: str = ""


@dataclass(frozen=True)
class ServerView:
    """An instance as its reader may see it.

    Times are UTC epoch seconds. `host_name` is "" unless the reader is this zone's admin and the host is
    local. `instance_name`: the name that the host's driver knows it by, "" likewise. `fault_code` and
    `fault_message` are "" without a fault. `stale`: the child that has the instance is unreachable, and the
    values are from its last report. `sent`: state of the attempt, for a parent. `child_name`: the child zone
    that has the instance, for this zone's admin only. `failed_attempts`: failed placements of an instance in
    ERROR, oldest first. `launched_at`: when it was built, 0 before. `locked_reason`: None unless it is
    locked. `pinned_availability_zone`: the one that its owner asked for. `group_id`: its server group's. Both
    are "" for none. `launch_index`: its place among those of its boot. `ended_at`: when one in ERROR or
    DELETED ended. `to_admin`: this zone's admin reads it, and only then `host_status` and `fault_details` are
    not "".
    """

    uuid: str
    name: str
    status: InstanceStatus
    task_state: str
    project_id: str
    user_id: str
    reservation_id: str
    created_at: float
    updated_at: float
    flavor: Flavor
    image: Image
    passthrough: Mapping[str, Any]
    availability_zone: str
    host_id_for_tenant: str
    host_name: str
    fault_code: str
    fault_message: str
    stale: bool
    sent: InstanceChange | None = None
    child_name: str = ""
    failed_attempts: Sequence[FailedAttempt] = ()
    state: InstanceState = NEW
    launched_at: float = 0.0
    locked_reason: str | None = None
    pinned_availability_zone: str = ""
    group_id: str = ""
    instance_name: str = ""
    launch_index: int = 0
    ended_at: float = 0.0
    to_admin: bool = False
    host_status: str = ""
    fault_details: str = ""


@dataclass(frozen=True)
class ReservationView:
    """One boot: its state, its number of instances by status, and the reasons why some are not built.

    `reasons` has lines of {"code", "count"}; `instances` has pairs of uuid and status. `waiting_for`: the
    steps that its pending instances wait for. `why`: trace of the last select, for this zone's admin only.
    """

    id: str
    state: str
    num_instances: int
    min_count: int
    counts: Mapping[str, int]
    reasons: Sequence[Mapping[str, Any]]
    instances: Sequence[tuple[str, str]]
    created_at: float
    waiting_for: Sequence[PendingStep] = ()
    why: DecisionTrace = NO_TRACE


@dataclass(frozen=True)
class ServerGroupForm:
    """A server group to add."""

    name: str
    policy: GroupPolicy
    max_server_per_host: int = 1


@dataclass(frozen=True)
class ServerGroupView:
    """A server group; `members` are the uuids of its instances that are not deleted, oldest first."""

    id: str
    name: str
    policy: GroupPolicy
    max_server_per_host: int
    members: Sequence[str]
    project_id: str
    user_id: str


@dataclass(frozen=True)
class ChildForm:
    """A child zone to add. `password` is this zone's credential there; no view ever shows it."""

    name: str
    api_url: str
    username: str
    password: str = field(repr=False)
    weight_offset: float = 0.0
    weight_scale: float = 1.0


@dataclass(frozen=True)
class ChildChange:
    """Changes to a child zone; None keeps a value."""

    name: str | None = None
    api_url: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    weight_offset: float | None = None
    weight_scale: float | None = None
    is_enabled: bool | None = None


@dataclass(frozen=True)
class Staying:
    """An instance that a drain leaves in a child zone, or without a place after it; with a stable code."""

    id: str
    name: str
    error_code: str
    message: str


@dataclass(frozen=True)
class Drained:
    """How far the drain of a child zone is.

    `asked`: the instances that were let leave now or before and still are in the child; `on_their_way`: those
    that have left it and have no new place yet; `leaving`: the number of all that leave; `waiting` of
    those that can leave later, and `held_up` of those among them whose like has found no place.
    """

    asked: Sequence[str]
    on_their_way: Sequence[str]
    leaving: int
    waiting: int
    held_up: int
    staying: Sequence[Staying]
    staying_count: int


@dataclass(frozen=True)
class ChildView:
    """A child zone as this zone's admin sees it; `seen_at`: epoch seconds of its last answer, or 0."""

    id: str
    name: str
    api_url: str
    username: str
    weight_offset: float
    weight_scale: float
    is_active: bool
    state: str
    last_error: str
    seen_at: float


@dataclass(frozen=True)
class InventoryForm:
    """One resource class of a host as its agent reports it; a ratio of None means the zone's default."""

    total: int
    reserved: int = 0
    allocation_ratio: float | None = None
    min_unit: int = 1
    max_unit: int = 2**31 - 1
    step_size: int = 1


@dataclass(frozen=True)
class HostForm:
    """A host as its agent registers it; the name is unique in the zone."""

    name: str
    address: str
    availability_zone: str
    inventories: Mapping[str, InventoryForm]
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ResourceUse:
    """One resource class of a host: its effective inventory, and the amount that claims take.

    `reported`: the inventory that the agent reports. `setting`: the operator's settings. `agent_excess`: the
    amount by which the agent's count persistently exceeds the claims; negative if it is lower.
    """

    total: int
    reserved: int
    allocation_ratio: float
    capacity: int
    used: int
    reported: Inventory
    setting: InventorySetting
    agent_excess: int = 0


@dataclass(frozen=True)
class SettingChange:
    """Settings for one resource class: the `named` fields of `values`; None there resets a field."""

    named: frozenset[str]
    values: InventorySetting


@dataclass(frozen=True)
class HypervisorState:
    """A host of this zone in brief; its states as in `HypervisorView`."""

    id: str
    name: str
    is_up: bool
    is_enabled: bool


@dataclass(frozen=True)
class HypervisorView:
    """A host of this zone, for its admin; `aggregates` are the names of those it is in.

    `is_up`: its agent lives, and nobody has forced agent or host down; `is_enabled`: it may take instances.
    """

    id: str
    name: str
    address: str
    availability_zone: str
    service: str
    is_up: bool
    is_enabled: bool
    disabled_reason: str
    num_instances: int
    resources: Mapping[str, ResourceUse]
    capabilities: Mapping[str, Any]
    traits: frozenset[str]
    aggregates: tuple[str, ...]


@dataclass(frozen=True)
class AggregateView:
    """An aggregate with the names of its hosts; `number` is its id on the wire. Times are epoch seconds."""

    uuid: str
    number: int
    name: str
    metadata: Mapping[str, str]
    hosts: tuple[str, ...]
    created_at: float
    updated_at: float


class Binary(enum.Enum):
    """Kinds of services by the names of OpenStack's clients: a zone's process, a host, and a hosts' agent."""

    SCHEDULER = "nova-scheduler"
    HOST = "nova-compute"
    AGENT = "zonesched-compute"


@dataclass(frozen=True)
class ServiceView:
    """A process of the zone, a host, or an agent, as a service: `host` is its name.

    `seen_at`: time of its last heartbeat, or of its agent's. `report_count`: number of heartbeats written to
    the database. `topic`: address of notifications for it.
    """

    id: str
    binary: Binary
    host: str
    availability_zone: str
    is_enabled: bool
    disabled_reason: str
    is_up: bool
    forced_down: bool
    seen_at: float
    topic: str
    report_count: int


@dataclass(frozen=True)
class ServiceChange:
    """Changes to a service; None keeps a value. Enabling a service clears its reason."""

    is_enabled: bool | None = None
    disabled_reason: str | None = None
    forced_down: bool | None = None


@dataclass(frozen=True)
class ZoneHosts:
    """An availability zone and its local hosts; it `takes` instances while any of them is enabled."""

    name: str
    takes: bool
    hosts: tuple[ServiceView, ...] = ()


@dataclass(frozen=True)
class UserView:
    """A user of this zone, without its credential; `explained`: detail of refusals that a parent may see."""

    id: str
    name: str
    role: Role
    project_id: str
    explained: Explained = Explained.AS_THE_ZONE


@dataclass(frozen=True)
class NewUser:
    """A created or changed user. `secret` is generated and shown only here; "" for a user with a password."""

    user: UserView
    secret: str = field(default="", repr=False)
