"""The `request_spec` of a parent zone, complete and bounded."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from zonesched.api.schemas.body_limit import REQUEST, BodyLimit
from zonesched.api.schemas.fields import (
    MAX_INT,
    Amount,
    FilterName,
    Finite,
    KeptMap,
    KeptName,
    KeptSpecs,
    KeptText,
    Name,
    ParentsCount,
    Schema,
    Text,
)
from zonesched.api.schemas.hints import QueryText, SchedulerHints
from zonesched.errors import BadRequest, Forbidden
from zonesched.model.offer_page import WHOLE, Page
from zonesched.model.request_spec import RequestSpec
from zonesched.model.request_wire import spec_from_wire

MAX_PATH = 16
MAX_WEIGHERS = 64
MAX_ENTRIES = WHOLE.entries


class FlavorOfSpec(Schema):
    """The flavor, inline: zones share no definitions."""

    id: KeptName
    name: KeptName
    vcpus: Amount
    ram: Amount
    disk: Amount
    ephemeral: Amount = 0
    swap: Amount = 0
    extra_specs: KeptSpecs


class ImageOfSpec(Schema):
    """The image, inline; an id of "" where none is booted from."""

    id: KeptText
    name: KeptText
    properties: KeptMap


class Scale(Schema):
    """One weigher's part of the scale of the whole request."""

    weigher: Name
    low: Finite
    high: Finite
    multiplier: Finite


class Score(Schema):
    """Weighing by the sum of scaled weighers."""

    name: Literal["score"]
    scales: list[Scale] = Field(max_length=MAX_WEIGHERS)


class Function(Schema):
    """A cost function and its factor."""

    name: Name
    weight: Finite


class Cost(Schema):
    """Weighing by a driver that gives integer costs."""

    name: Literal["cost"]
    driver: Name
    functions: list[Function] = Field(max_length=MAX_WEIGHERS)


class Unweighed(Schema):
    """No weighing was chosen: the boot's zone was restored from a copy, and has not selected for it since."""

    name: Literal["unweighed"]


class NoGroupOfSpec(Schema):
    """The instances join no server group."""

    name: Literal["none"]


class GroupOfSpec(Schema):
    """The server group that the instances join; `name` is its policy."""

    name: Literal["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]
    id: Name
    max_server_per_host: int = Field(ge=1, le=MAX_INT)


class _SpecBody(Schema):
    """The wire form of `zonesched.model.request_spec.RequestSpec`, but for its weighing."""

    request_id: Name
    project_id: Name
    num_instances: ParentsCount
    alternates: int = Field(ge=0, le=1000)
    policy: Literal["each", "affinity"]
    group: Annotated[NoGroupOfSpec | GroupOfSpec, Field(discriminator="name")]
    flavor: FlavorOfSpec
    image: ImageOfSpec
    availability_zone: Text
    hints: SchedulerHints
    filters: list[FilterName] = Field(max_length=32)
    filter_query: Literal[""] | QueryText
    path: list[Name] = Field(max_length=MAX_PATH)
    time_budget_s: float = Field(gt=0, le=3600)

    def to_spec(self) -> RequestSpec:
        """The spec; raises Forbidden for hints of hosts or addresses, BadRequest for ones nothing honours."""
        self.hints.refuse_unheeded(Forbidden, "request_spec.hints")
        if "group" in self.hints.model_fields_set:
            raise BadRequest(
                "request_spec.hints.group: between zones the group is request_spec.group.",
                code="hint_unsupported",
                field="request_spec.hints.group",
            )
        hints = self.hints.model_dump(exclude_unset=True)
        return spec_from_wire({**self.model_dump(), "hints": hints})


class RequestSpecBody(_SpecBody):
    """The spec of instances to place, with the weighing that all zones of the tree use."""

    weighing: Annotated[Score | Cost, Field(discriminator="name")]


class KnownSpecBody(_SpecBody):
    """The spec of instances that are placed already."""

    weighing: Annotated[Score | Cost | Unweighed, Field(discriminator="name")]


class PageOfOffers(Schema):
    """The part of a zone's greedy sequence that is asked for; by default all of it."""

    skip: int = Field(ge=0, le=MAX_ENTRIES)
    entries: int = Field(ge=1, le=MAX_ENTRIES)

    def to_page(self) -> Page:
        return Page(self.skip, self.entries)


class SelectBody(Schema):
    """A parent's POST /zones/select: ask for the offers of this zone and its child zones."""

    body_limit: ClassVar[BodyLimit] = REQUEST

    version: Literal[1]
    request_spec: RequestSpecBody
    page: PageOfOffers = PageOfOffers(skip=WHOLE.skip, entries=WHOLE.entries)
