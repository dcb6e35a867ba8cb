"""A request to a scheduler for an offer of local hosts, and the offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zonesched.model.build_plan import FunnelStep
from zonesched.model.decision_trace import HostScore
from zonesched.model.host_table import HostTable
from zonesched.model.offer_page import WHOLE, Page
from zonesched.model.request_context import NOTHING_KNOWN, RequestContext
from zonesched.model.request_spec import RequestSpec, Unweighed, Weighing
from zonesched.model.work_deadline import NO_DEADLINE, WorkDeadline


@dataclass(frozen=True)
class OfferRequest:
    """A request for free slots on the hosts of `table`.

    `context`: the zone's facts about the request; hosts that have refused it are left out.
    `zone_capabilities`: the values of each of this zone's own capabilities. `scored`: the number of best
    hosts whose scores the offer includes. `deadline`: the time at which the work ends, even if incomplete.
    `page`: the part of the greedy sequence that is wanted; the picks begin with the first all the same.
    """

    table: HostTable
    spec: RequestSpec
    context: RequestContext = NOTHING_KNOWN
    zone_capabilities: Mapping[str, frozenset[str]] = field(default_factory=dict)
    scored: int = 0
    deadline: WorkDeadline = NO_DEADLINE
    page: Page = WHOLE

    @property
    def count(self) -> int:
        """Number of picks that are wanted."""
        return min(self.spec.num_instances, self.page.end)


class Pick(NamedTuple):
    """A host for one instance (in a bundle: for all), with the weight and tie key of an `Entry`."""

    host_id: str
    weight: int
    tie: int


@dataclass(frozen=True)
class Offer:
    """The offer of a zone's local hosts.

    `picks`: the greedy sequence, at most one per requested instance. `alternates`: the best hosts that are
    not among the picks. `bundles` replace both for an affinity request. `why`: the ordered funnel from all
    hosts to the offered ones. `runs_out`: if fewer instances fit than were requested, the reasons why the
    offered hosts take no further one. `best`: the scores of the best hosts, as many as were requested.

    `weighing`: the request's weighing, or the one chosen from the filtered hosts. If the deadline passed
    first, the offer is not `complete`; every offered host has still passed all filters.
    """

    picks: tuple[Pick, ...]
    alternates: tuple[Pick, ...]
    bundles: tuple[Pick, ...]
    why: tuple[FunnelStep, ...]
    runs_out: tuple[FunnelStep, ...] = ()
    best: tuple[HostScore, ...] = ()
    weighing: Weighing = field(default_factory=Unweighed)
    complete: bool = True
