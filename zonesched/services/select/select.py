"""Select: find the best places in this zone and its child zones; write nothing and hold nothing.

local hosts -> scheduler.offer --+
                                 +-> merge by best head -> build plan
children -> POST /zones/select --+
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from zonesched import turns
from zonesched.conf import Conf
from zonesched.errors import NotFound, ZoneschedError
from zonesched.filters.contract import FilterFailed
from zonesched.model.build_plan import BuildPlan, FunnelStep, Refusal
from zonesched.model.decision_trace import (
    NO_TRACE,
    DecisionTrace,
    HostJudgement,
    LocalTrace,
)
from zonesched.model.group_place import ANYWHERE, GroupPlace
from zonesched.model.local_hosts import FoundHosts
from zonesched.model.offer_page import WHOLE, Page
from zonesched.model.request_context import RequestContext
from zonesched.model.request_spec import Group, GroupPolicy, RequestSpec, ServerGroup, Weighing
from zonesched.model.request_wire import content_digest
from zonesched.model.work_deadline import OutOfTime, WorkDeadline, always
from zonesched.scheduler.offer import Offer, OfferRequest
from zonesched.scheduler.scale import Range
from zonesched.scheduler.sources import Source
from zonesched.seal.tie_keys import TieSecret
from zonesched.services.placing import group_policy
from zonesched.services.select import child_offers
from zonesched.services.zone import Zone
from zonesched.store import host_instances, placements
from zonesched.store.host_uses import group_key, owner_key
from zonesched.store.store import Transaction
from zonesched.weights.contract import WeigherFailed

log = logging.getLogger(__name__)

MAX_PATH = 16

LARGE = 500
"""A select of more entries is a large request (`turns`); up to this number it takes a few milliseconds."""

BEST_HOSTS = 10
"""Local hosts whose scores are stored with a boot and shown by a dry run."""


class LocalHosts(Protocol):
    """Source of the local hosts."""

    def for_request(self, spec: RequestSpec) -> AbstractContextManager[FoundHosts]:
        """Lend the hosts for a request to this thread alone until the block ends."""


@dataclass(frozen=True)
class Basis:
    """Basis of a plan: the request to the local hosts, their offer, and the child zones' offers (`below`).

    The weighing was chosen by `child_ranges` and `has_children`.
    """

    request: OfferRequest
    own: Offer
    child_ranges: Mapping[str, Range]
    has_children: bool
    below: tuple[Source, ...] = ()


@dataclass(frozen=True)
class Decision:
    """Plan, the spec with its chosen weighing as all zones got it, and the decision trace.

    `group_place`: the place of the request's affinity group; no other place was considered.
    `child_blob_sizes`: bytes of the blobs that children have offered for it.
    """

    plan: BuildPlan
    spec: RequestSpec
    trace: DecisionTrace
    group_place: GroupPlace = ANYWHERE
    child_blob_sizes: Sequence[int] = ()


def decide(
    zone: Zone,
    spec: RequestSpec,
    caller_id: str,
    scored: int = 0,
    is_wanted: Callable[[], bool] = always,
    page: Page = WHOLE,
) -> Decision:
    """Make the unsealed plan of this zone and its child zones, for this zone's own use.

    `scored`: the number of best local hosts whose scores the trace has. `page`: the part of the plan that is
    wanted. Raises CallerGone soon after `is_wanted` has become false.
    """
    if zone.uuid in spec.path:
        # This zone is the first of the loop and has offered its hosts already.
        log.warning("request %s came back to this zone: zones are registered in a loop", spec.request_id)
        return Decision(no_offer(zone.conf, complete=True), spec, NO_TRACE)
    if len(spec.path) >= MAX_PATH:
        return Decision(no_offer(zone.conf, complete=False), spec, refused("path", "path_too_long"))
    decision, _ = decide_on(zone, zone.hosts, spec, caller_id, scored, is_wanted, page)
    return decision


def decide_on(
    zone: Zone,
    hosts: LocalHosts,
    spec: RequestSpec,
    caller_id: str,
    scored: int,
    is_wanted: Callable[[], bool] = always,
    page: Page = WHOLE,
) -> tuple[Decision, Basis]:
    """Variant of `decide` on these local hosts; returns its basis too."""
    started_at = zone.clock.monotonic()
    if min(spec.num_instances, page.end) + spec.alternates > LARGE:
        turns.become_large()
    context = context_of(zone, spec, caller_id)
    return decide_in(zone, hosts, spec, context, scored, started_at, is_wanted, page)


def decide_in(
    zone: Zone,
    hosts: LocalHosts,
    spec: RequestSpec,
    context: RequestContext,
    scored: int,
    started_at: float,
    is_wanted: Callable[[], bool] = always,
    page: Page = WHOLE,
) -> tuple[Decision, Basis]:
    """Variant of `decide_on` in a known context; the time budget began at `started_at` (monotonic)."""
    ends_at = started_at + spec.time_budget_s - _reserve_s(zone.conf, spec)
    deadline = WorkDeadline(zone.clock.monotonic, ends_at, is_wanted)
    basis = _own_basis(zone, hosts, spec, context, scored, deadline, page)
    own = basis.own
    spec = spec.varied(weighing=own.weighing)
    # Once they are merged, no more is in memory than was asked for.
    with zone.children.hand(context.caller) as hand:
        answers = child_offers.ask(zone, replace(basis.request, spec=spec, deadline=deadline), own, hand)
        merged = answers.merged
        is_found = bool(merged.bundles) or len(merged.entries) >= basis.request.count
        plan = BuildPlan(
            entries=merged.entries[page.skip :],
            alternates=merged.alternates,
            bundles=merged.bundles,
            complete=answers.complete and own.complete,
            expires_in_s=min([zone.conf.build_plan_ttl, *(o.expires_in_s for o in answers.offers)]),
            more=len(merged.entries) == page.end < spec.num_instances,
            limited=any(o.limited for o in answers.offers) and not is_found,
        )
    trace = DecisionTrace(_own_trace(spec, own), tuple(answers.traces))
    blob_sizes = [offer.blob_size for offer in answers.offers]
    decision = Decision(plan, spec, trace, context.group_place, blob_sizes)
    return decision, replace(basis, below=answers.sources)


@dataclass(frozen=True)
class LocalDecision:
    """Hosts for a request in a zone without children, by id and in greedy order, and how it was weighed."""

    host_ids: Sequence[str]
    weighing: Weighing
    trace: DecisionTrace
    complete: bool


def decide_here(
    zone: Zone, hosts: LocalHosts, spec: RequestSpec, context: RequestContext, scored: int
) -> LocalDecision:
    """Choose hosts as `decide_in` does where there are no children: there is nothing to merge."""
    ends_at = zone.clock.monotonic() + spec.time_budget_s - _reserve_s(zone.conf, spec)
    deadline = WorkDeadline(zone.clock.monotonic, ends_at)
    basis = _own_basis(zone, hosts, spec, context, scored, deadline, WHOLE)
    own = basis.own
    host_ids = [pick.host_id for pick in own.picks]
    return LocalDecision(host_ids, own.weighing, DecisionTrace(_own_trace(spec, own)), own.complete)


def check_ready(zone: Zone) -> None:
    """Check that hosts of this zone or its children are known. Raises NotReady."""
    if not zone.children.snapshot():
        zone.hosts.check_ready()


def no_offer(conf: Conf, *, complete: bool) -> BuildPlan:
    """Make a plan without entries."""
    return BuildPlan((), (), (), complete=complete, expires_in_s=conf.build_plan_ttl)


def refused(name: str, code: str) -> DecisionTrace:
    """Make the trace of a request that this zone refused as a whole."""
    return DecisionTrace(LocalTrace(steps=(Refusal(name, code),)))


def failed(error: ZoneschedError) -> DecisionTrace:
    """Make the trace of a select that failed by a plugin or an invalid request."""
    match error:
        case FilterFailed(filter_name=name) | WeigherFailed(weigher_name=name):
            return refused(name, error.code)
        case _:
            return NO_TRACE


def _own_trace(spec: RequestSpec, own: Offer) -> LocalTrace:
    offered = spec.num_instances if own.bundles else len(own.picks)
    return LocalTrace(own.why, offered, own.runs_out, own.best)


def _own_basis(
    zone: Zone,
    hosts: LocalHosts,
    spec: RequestSpec,
    context: RequestContext,
    scored: int,
    deadline: WorkDeadline,
    page: Page,
) -> Basis:
    with hosts.for_request(spec) as found:
        # A wait for the host table shortens the children's time, not the time for local offers.
        deadline = deadline.at_least(_reserve_s(zone.conf, spec))
        capabilities = own_capabilities(zone.conf)
        request = OfferRequest(found.table, spec, context, capabilities, scored, deadline, page)
        ranges, has_children = zone.children.ranges(), bool(zone.children.snapshot())
        try:
            schedulers = zone.schedulers_of_all_hosts if found.are_all else zone.schedulers
            scheduler, request = schedulers.prepare(request, ranges, has_children)
        except OutOfTime as error:
            # Children are not asked either: they would need the weighing that was not chosen.
            late = FunnelStep("weighing", error.code, len(found.table), 0)
            offer = Offer((), (), (), (late,), complete=False)
        else:
            offer = scheduler.offer(request)
        if found.steps:
            offer = replace(offer, why=(*found.steps, *offer.why))
        return Basis(request, offer, ranges, has_children)


def judge_host(zone: Zone, spec: RequestSpec, caller_id: str, name_or_id: str) -> HostJudgement:
    """Judge one local host for this request as it is now. Raises NotFound, and the errors of a select."""
    with zone.hosts.current() as table:
        rows = [*table.rows_named([name_or_id]).tolist(), *table.rows_of([name_or_id]).tolist()]
        if not rows:
            raise NotFound("There is no such host.", code="host_not_found", field="host")
        context = context_of(zone, spec, caller_id)
        request = OfferRequest(table, spec, context, zone_capabilities=own_capabilities(zone.conf))
        has_children = bool(zone.children.snapshot())
        schedulers = zone.schedulers_of_all_hosts
        scheduler, request = schedulers.prepare(request, zone.children.ranges(), has_children)
        weighed = replace(spec, weighing=scheduler.offer(request).weighing)
        return scheduler.judge(replace(request, spec=weighed), rows[0])


def own_capabilities(conf: Conf) -> Mapping[str, frozenset[str]]:
    """Capabilities from this zone's configuration, by key; the values of a repeated key are merged."""
    found: dict[str, frozenset[str]] = {}
    for item in conf.zone_capabilities:
        key, _, values = item.partition("=")
        named = frozenset(value.strip() for value in values.split(";"))
        found[key.strip()] = found.get(key.strip(), frozenset()) | named
    return found


def context_of(zone: Zone, spec: RequestSpec, caller_id: str) -> RequestContext:
    """Build the context of a request: its caller, and the local hosts that concern it by this zone's rows.

    These are the hosts whose claim or build failed for this request, the hosts of its owner's instances that
    its hints name, and the host of its affinity group.
    """

    new = context_of_new(zone.tie_secret, spec, caller_id)

    def read(tx: Transaction) -> RequestContext:
        owned = (caller_id, spec.project_id)
        place = group_policy.place_of(tx, caller_id, spec.group)
        return replace(
            new,
            group=_group_of(caller_id, spec.group, place),
            same_hosts=host_instances.hosts_of(tx, *owned, spec.same_host),
            different_hosts=host_instances.hosts_of(tx, *owned, spec.different_host),
            tried_hosts=placements.failed_hosts(tx, caller_id, spec.request_id, zone.clock.now()),
            group_place=place,
        )

    return zone.store.read(read)


def _group_of(caller_id: str, group: Group, place: GroupPlace) -> str:
    """Return the key of the group whose members on hosts count; "" for none."""
    match group:
        case ServerGroup(policy=GroupPolicy.AFFINITY) if place == ANYWHERE:
            # The claims that it may still have wait to be released, maybe on a host that is down.
            return ""
        case ServerGroup(group_id):
            return group_key(caller_id, group_id)
        case _:
            return ""


def context_of_new(tie_secret: TieSecret, spec: RequestSpec, caller_id: str) -> RequestContext:
    """Build the context of a request without hints and group for which no host was tried yet."""
    return RequestContext(
        owner=owner_key(caller_id, spec.project_id),
        tie_key=tie_secret.request_key(caller_id, spec.request_id, content_digest(spec)),
        caller=caller_id,
    )


def _reserve_s(conf: Conf, spec: RequestSpec) -> float:
    """Return the seconds of the time budget reserved to merge, seal and answer."""
    return min(float(conf.select_reserve), spec.time_budget_s / 5)
