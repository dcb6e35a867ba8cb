"""The question to a scheduler about local hosts, and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zonesched.model.build_plan import FunnelStep
from zonesched.model.decision_trace import HostScore
from zonesched.model.host_table import HostTable
from zonesched.model.request_context import NOTHING_KNOWN, RequestContext
from zonesched.model.request_spec import RequestSpec, Unweighed, Weighing
from zonesched.model.work_deadline import NO_DEADLINE, WorkDeadline


@dataclass(frozen=True)
class OfferRequest:
    """A request for free slots on the hosts of `table`.

    `context` is what the zone knows about the request; hosts that have refused it are left out.
    `zone_capabilities` are the values this zone has of each capability of its own. `scored`: of how many of
    the best hosts the scores are wanted too. `deadline`: when the work for it ends, whatever has been found.
    """

    table: HostTable
    spec: RequestSpec
    context: RequestContext = NOTHING_KNOWN
    zone_capabilities: Mapping[str, frozenset[str]] = field(default_factory=dict)
    scored: int = 0
    deadline: WorkDeadline = NO_DEADLINE


class Pick(NamedTuple):
    """A host for one instance (in a bundle: for all), with the weight and tie key of an `Entry`."""

    host_id: str
    weight: int
    tie: int


@dataclass(frozen=True)
class Offer:
    """The offer of a zone's local hosts.

    `picks` is the greedy sequence, at most as long as the instances asked for; `alternates` are the best
    hosts that are not among the picks; `bundles` take the place of both for an affinity request. `why` is the
    ordered funnel from all hosts to those offered. If fewer instances fit than were requested, `runs_out` has
    the reasons why the offered hosts take no further one. `best` are the scores of as many of the
    best hosts as were asked for.

    `weighing` is the request's, or the one that was chosen from the filtered hosts. Where the deadline came
    first, the offer is not `complete`: no host is offered that some filter was not asked about.
    """

    picks: tuple[Pick, ...]
    alternates: tuple[Pick, ...]
    bundles: tuple[Pick, ...]
    why: tuple[FunnelStep, ...]
    runs_out: tuple[FunnelStep, ...] = ()
    best: tuple[HostScore, ...] = ()
    weighing: Weighing = field(default_factory=Unweighed)
    complete: bool = True
