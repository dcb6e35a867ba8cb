"""Bodies of compute agents: their hosts and instances."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from zonesched.api.schemas.body_limit import CONSOLE, HOSTS, REPORTS, BodyLimit
from zonesched.api.schemas.fields import (
    MAX_AGENT_ITEMS,
    MAX_INT,
    TAGS,
    Amount,
    Finite,
    FirstFault,
    FreeJson,
    Generation,
    Name,
    ReasonCode,
    ResourceClass,
    Schema,
    Text,
    Trait,
    Uuid,
    ZoneText,
)
from zonesched.api.schemas.select import FlavorOfSpec
from zonesched.model.agent_instances import AgentReport, AgentState
from zonesched.model.console import MAX_CONSOLE_BYTES, ConsoleAnswer, ConsoleState
from zonesched.model.observed_state import Observed, Power
from zonesched.model.request_wire import flavor_from_wire
from zonesched.model.told_instance import ToldInstance
from zonesched.model.views import HostForm, InventoryForm

Unit = Annotated[int, Field(ge=1, le=MAX_INT)]

MAX_FENCE_S = 86400.0


class InventoryItem(Schema):
    """One resource class of a host; without a ratio, the zone's default counts."""

    total: Amount
    reserved: Amount = 0
    allocation_ratio: float | None = Field(default=None, ge=0, le=1_000_000)
    min_unit: Unit = 1
    max_unit: Unit = MAX_INT
    step_size: Unit = 1


class HostItem(Schema):
    """A host; its name is unique in the zone."""

    name: Name
    address: Text = ""
    availability_zone: ZoneText = ""
    inventories: dict[ResourceClass, InventoryItem] = Field(max_length=64)
    capabilities: FreeJson = Field(default_factory=dict)
    traits: list[Trait] = Field(default_factory=list, max_length=512)
    metrics: dict[Name, Finite] = Field(default_factory=dict, max_length=64)

    def to_form(self) -> HostForm:
        return HostForm(
            name=self.name,
            address=self.address,
            availability_zone=self.availability_zone,
            inventories={name: InventoryForm(**dict(item)) for name, item in self.inventories.items()},
            capabilities=self.capabilities,
            traits=frozenset(self.traits),
            metrics=self.metrics,
        )


class Promise(Schema):
    """`fence_after`: the agent ends all its instances so many seconds after it sent this, or never.

    That is counted from there unless another promise is answered before.
    """

    fence_after: Annotated[float, Field(ge=1, le=MAX_FENCE_S)] | None = None

    @property
    def fence_after_s(self) -> float:
        return math.inf if self.fence_after is None else self.fence_after


class RegisterBody(Promise):
    """Hosts that the agent named `service` has, and its promise.

    `registrations`: how often they were registered when the agent wrote this, as the zone has said. Where
    that has changed, the report is too late, and is refused.
    """

    body_limit: ClassVar[BodyLimit] = HOSTS

    service: Name
    hosts: Annotated[list[HostItem], Field(max_length=MAX_AGENT_ITEMS), FirstFault]
    registrations: Annotated[int, Field(ge=0, lt=2**63)] | None = None


class BeatBody(Promise):
    """A heartbeat, and the promise of the agent."""

    service: Name


class ServiceQuery(Schema):
    service: Name


class InstancesQuery(ServiceQuery):
    """`known`: tags of the parts of the list that the agent has, with commas between them."""

    known: Annotated[str, Field(pattern=TAGS)] = ""


class ObservedItem(Schema):
    """One instance, and what the agent has observed of it."""

    uuid: Uuid
    attempt: Amount
    reason: ReasonCode = ""
    generation: Generation = 0
    power: Literal["running", "stopped", "paused", "suspended"] = "running"
    rebuilds: Amount = 0

    @property
    def observed(self) -> Observed:
        return Observed(self.generation, Power(self.power), self.reason, self.rebuilds)


class ReportItem(ObservedItem):
    """One instance as the agent found it.

    `generation` and `power`: the desired state that was applied last, and what is so, where active;
    `rebuilds`: how many were done. `reason`: a stable code where the state is error, where it is active and
    not as that generation desires, or where it is left and was not stopped. `left_for`: the new attempt of a
    move for which it was stopped, where left.
    """

    state: Literal["active", "left", "error", "gone"]
    left_for: Amount = 0

    def to_report(self) -> AgentReport:
        state = AgentState(self.state)
        return AgentReport(self.uuid, self.attempt, state, self.reason, self.observed, self.left_for)


class ReportsBody(Schema):
    body_limit: ClassVar[BodyLimit] = REPORTS

    service: Name
    reports: Annotated[list[ReportItem], Field(max_length=MAX_AGENT_ITEMS), FirstFault]

    def to_reports(self) -> list[AgentReport]:
        return [item.to_report() for item in self.reports]


class RunningItem(ObservedItem):
    """One instance that the agent has; `host`: the name of its host, "" where the agent does not know it.

    `flavor`: the one that it was listed with, null where the agent does not know it.
    `generation`, `power`, `reason` and `rebuilds`: as in its last report, where it is built.
    """

    host: Text = ""
    is_built: bool
    flavor: FlavorOfSpec | None = None

    def to_told(self) -> ToldInstance:
        observed = self.observed if self.is_built else None
        flavor = None if self.flavor is None else flavor_from_wire(self.flavor.model_dump())
        return ToldInstance(self.uuid, self.attempt, self.host, self.is_built, observed, flavor)


class RunningBody(Schema):
    """A page of the instances that the agent has; `first` and `last` mark the ends of the list."""

    body_limit: ClassVar[BodyLimit] = REPORTS

    service: Name
    instances: Annotated[list[RunningItem], Field(max_length=MAX_AGENT_ITEMS), FirstFault]
    first: bool
    last: bool


class ConsoleBody(Schema):
    """A console output that the zone has asked for by this id."""

    body_limit: ClassVar[BodyLimit] = CONSOLE

    service: Name
    id: Uuid
    state: Literal["read", "unsupported"]
    output: Annotated[str, Field(max_length=MAX_CONSOLE_BYTES)] = ""

    def to_answer(self) -> ConsoleAnswer:
        return ConsoleAnswer(ConsoleState(self.state), self.output)


class ExcessItem(Schema):
    """The amount of a host's resource class that the agent counts above the claims; 0: they agree."""

    host: Name
    resource_class: ResourceClass
    excess: Annotated[int, Field(ge=-MAX_INT, le=MAX_INT)]


class ExcessesBody(Schema):
    body_limit: ClassVar[BodyLimit] = REPORTS

    service: Name
    excesses: Annotated[list[ExcessItem], Field(max_length=MAX_AGENT_ITEMS), FirstFault]

    def to_amounts(self) -> dict[tuple[str, str], int]:
        return {(d.host, d.resource_class): d.excess for d in self.excesses}
