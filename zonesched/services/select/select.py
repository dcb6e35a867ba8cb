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
from zonesched.errors import ChildBusy, NotFound, ZoneschedError
from zonesched.filters.contract import FilterFailed
from zonesched.model.build_plan import BuildPlan, Bundle, ChildBlob, Entry, Refusal
from zonesched.model.decision_trace import (
    NO_TRACE,
    ChildTrace,
    DecisionTrace,
    HostJudgement,
    LocalTrace,
)
from zonesched.model.group_place import ANYWHERE, Anywhere, GroupPlace
from zonesched.model.local_hosts import FoundHosts
from zonesched.model.own_zone import keeps_to_own_hosts
from zonesched.model.place import ChildPlace, LocalPlace
from zonesched.model.request_context import RequestContext
from zonesched.model.request_spec import RequestSpec, spec_for_child
from zonesched.model.request_wire import content_digest
from zonesched.model.work_deadline import WorkDeadline, always
from zonesched.scheduler.merge import adjust
from zonesched.scheduler.offer import Offer, OfferRequest
from zonesched.scheduler.scale import Range
from zonesched.scheduler.sources import Source, merge_sources, own_source
from zonesched.seams import Done, Failed
from zonesched.services.placing import group_policy
from zonesched.services.select.child_traces import not_asked, traces_of
from zonesched.services.zone import Zone
from zonesched.store import placements
from zonesched.store.host_uses import group_key, owner_key
from zonesched.store.store import Transaction
from zonesched.weights.contract import WeigherFailed
from zonesched.zones.answer_room import AnswerHand
from zonesched.zones.child import Child, ChildOffer, OfferedBundle, OfferedEntry
from zonesched.zones.eligible import EligibleChildren

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


@dataclass(frozen=True)
class _ChildAnswers:
    """Answers of the child zones. `traces`: of every child, also of those that were not asked.

    `unreliable`: the ids of children that have mostly failed for this very request.
    """

    offers: Sequence[tuple[Child, ChildOffer]]
    complete: bool
    traces: Sequence[ChildTrace]
    unreliable: frozenset[str] = frozenset()


def decide(
    zone: Zone,
    spec: RequestSpec,
    caller_id: str,
    scored: int = 0,
    is_wanted: Callable[[], bool] = always,
) -> Decision:
    """Make the unsealed plan of this zone and its child zones, for this zone's own use.

    `scored`: the number of best local hosts whose scores the trace has. Raises CallerGone soon after
    `is_wanted` has become false.
    """
    if zone.uuid in spec.path:
        # This zone is the first of the loop and has offered its hosts already.
        log.warning("request %s came back to this zone: zones are registered in a loop", spec.request_id)
        return Decision(no_offer(zone.conf, complete=True), spec, NO_TRACE)
    if len(spec.path) >= MAX_PATH:
        return Decision(no_offer(zone.conf, complete=False), spec, refused("path", "path_too_long"))
    decision, _ = decide_on(zone, zone.hosts, spec, caller_id, scored, is_wanted)
    return decision


def decide_on(
    zone: Zone,
    hosts: LocalHosts,
    spec: RequestSpec,
    caller_id: str,
    scored: int,
    is_wanted: Callable[[], bool] = always,
) -> tuple[Decision, Basis]:
    """Variant of `decide` on these local hosts, for a user's request; returns its basis too."""
    started_at = zone.clock.monotonic()
    if spec.num_instances + spec.alternates > LARGE:
        turns.become_large()
    context = context_of(zone, spec, caller_id)
    ends_at = started_at + spec.time_budget_s - _reserve_s(zone.conf, spec)
    deadline = WorkDeadline(zone.clock.monotonic, ends_at, is_wanted)
    basis = _own_basis(zone, hosts, spec, context, scored, deadline)
    spec, own = basis.request.spec, basis.own
    # Once they are merged, no more is in memory than was asked for.
    with zone.children.hand(caller_id) as hand:
        answers = _ask_children(zone, spec, hand, context.group_place, deadline)
        below = tuple(
            replace(_child_source(child, offer), unreliable=child.id in answers.unreliable)
            for child, offer in answers.offers
        )
        plan = _merge(zone, spec, own, answers, below)
    trace = DecisionTrace(_own_trace(spec, own), tuple(answers.traces))
    blob_sizes = [offer.blob_size for _, offer in answers.offers]
    decision = Decision(plan, spec, trace, context.group_place, blob_sizes)
    return decision, replace(basis, below=below)


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
) -> Basis:
    with hosts.for_request(spec) as found:
        request = OfferRequest(found.table, spec, context, zone_capabilities=own_capabilities(zone.conf))
        ranges, has_children = zone.children.ranges(), bool(zone.children.snapshot())
        scheduler, request = zone.schedulers.prepare(request, ranges, has_children)
        # A wait for the host table shortens the children's time, not the time for local offers.
        deadline = deadline.at_least(_reserve_s(zone.conf, spec))
        offer = scheduler.offer(replace(request, scored=scored, deadline=deadline))
        offer = replace(offer, why=(*found.steps, *offer.why))
        weighed = replace(request, spec=replace(spec, weighing=offer.weighing))
        return Basis(weighed, offer, ranges, has_children)


def judge_host(zone: Zone, spec: RequestSpec, caller_id: str, name_or_id: str) -> HostJudgement:
    """Judge one local host for this request as it is now. Raises NotFound, and the errors of a select."""
    with zone.hosts.current() as table:
        rows = [*table.rows_named([name_or_id]).tolist(), *table.rows_of([name_or_id]).tolist()]
        if not rows:
            raise NotFound("There is no such host.", code="host_not_found", field="host")
        context = context_of(zone, spec, caller_id)
        request = OfferRequest(table, spec, context, zone_capabilities=own_capabilities(zone.conf))
        has_children = bool(zone.children.snapshot())
        scheduler, request = zone.schedulers.prepare(request, zone.children.ranges(), has_children)
        weighed = replace(spec, weighing=scheduler.offer(request).weighing)
        return scheduler.judge(replace(request, spec=weighed), rows[0])


def own_capabilities(conf: Conf) -> Mapping[str, frozenset[str]]:
    """Capabilities from this zone's configuration, by key."""
    pairs = (text.partition("=") for text in conf.zone_capabilities)
    return {key.strip(): frozenset(v.strip() for v in values.split(";")) for key, _, values in pairs}


def context_of(zone: Zone, spec: RequestSpec, caller_id: str) -> RequestContext:
    """Build the context of a request: its caller, and the local hosts that concern it by this zone's rows.

    These are the hosts whose claim or build failed for this request, the hosts of its owner's instances that
    its hints name, and the host of its affinity group.
    """

    tie_key = zone.tie_secret.request_key(caller_id, spec.request_id, content_digest(spec))

    def read(tx: Transaction) -> RequestContext:
        owned = (caller_id, spec.project_id)
        return RequestContext(
            owner=owner_key(*owned),
            group=group_key(caller_id, spec.group_id) if spec.group_id else "",
            same_hosts=placements.hosts_of(tx, *owned, spec.same_host),
            different_hosts=placements.hosts_of(tx, *owned, spec.different_host),
            tried_hosts=placements.failed_hosts(tx, caller_id, spec.request_id),
            group_place=group_policy.place_of(tx, caller_id, spec.group),
            tie_key=tie_key,
            caller=caller_id,
        )

    return zone.store.read(read)


def _reserve_s(conf: Conf, spec: RequestSpec) -> float:
    """Return the seconds of the time budget reserved to merge, seal and answer."""
    return min(float(conf.select_reserve), spec.time_budget_s / 5)


def _ask_children(
    zone: Zone, spec: RequestSpec, hand: AnswerHand, group: GroupPlace, deadline: WorkDeadline
) -> _ChildAnswers:
    if keeps_to_own_hosts(spec.hints):
        return _ChildAnswers((), complete=True, traces=not_asked(zone.children))
    asked = _of_group(zone.children.eligible(spec), group)
    if not asked.to_ask:
        return _ChildAnswers((), asked.complete, traces_of(zone.children, spec, asked, []))
    unreliable = zone.store.read(
        lambda tx: placements.unreliable_children(tx, hand.caller_id, spec.request_id)
    )
    budget_s = deadline.left_s
    if budget_s <= 0:
        traces = traces_of(zone.children, spec, asked.out_of_time(), [])
        return _ChildAnswers((), complete=False, traces=traces)
    child_spec = spec_for_child(spec, zone.uuid, budget_s)
    outcomes = zone.children.ask(
        asked.to_ask, lambda client: client.select(child_spec, budget_s), budget_s, deadline.is_wanted, hand
    )
    # All selects of a caller that waited for one child continue together; to merge and seal they take turns.
    turns.give_way()
    deadline.check_wanted()
    offers = [
        (child, outcome.value)
        for child, outcome in zip(asked.to_ask, outcomes, strict=True)
        if isinstance(outcome, Done)
    ]
    for child, offer in offers:
        zone.children.offered(child.id, offer.blob_size)
    for child, outcome in zip(asked.to_ask, outcomes, strict=True):
        match outcome:
            case Failed(ChildBusy(retry_after_s=pause_s)):
                zone.children.is_busy(child.id, pause_s)
    complete = asked.complete and len(offers) == len(outcomes) and all(o.complete for _, o in offers)
    return _ChildAnswers(offers, complete, traces_of(zone.children, spec, asked, outcomes), unreliable)


def _of_group(asked: EligibleChildren, group: GroupPlace) -> EligibleChildren:
    """Reduce the children to the one that has the request's group; to none if a local host has it."""
    match group:
        case Anywhere():
            return asked
        case LocalPlace():
            return asked.only("", "group_elsewhere")
        case ChildPlace(child_id):
            return asked.only(child_id, "group_elsewhere")


def _merge(
    zone: Zone, spec: RequestSpec, own: Offer, answers: _ChildAnswers, below: Sequence[Source]
) -> BuildPlan:
    """Merge all offers into one plan."""
    merged = merge_sources(spec, [own_source(zone.uuid, spec, own), *below])
    return BuildPlan(
        entries=merged.entries,
        alternates=merged.alternates,
        bundles=merged.bundles,
        complete=answers.complete and own.complete,
        expires_in_s=min([zone.conf.build_plan_ttl, *(o.expires_in_s for _, o in answers.offers)]),
    )


def _child_source(child: Child, offer: ChildOffer) -> Source:
    def entry(offered: OfferedEntry) -> Entry:
        return Entry(_weight_here(child, offered.weight), offered.tie, ChildBlob(child.id, offered.blob))

    def bundle(offered: OfferedBundle) -> Bundle:
        entries = [entry(OfferedEntry(offered.weight, offered.tie, blob)) for blob in offered.blobs]
        return Bundle(_weight_here(child, offered.weight), offered.tie, tuple(entries))

    return Source(
        id=child.id,
        entries=tuple(map(entry, offer.entries)),
        alternates=tuple(map(entry, offer.alternates)),
        bundles=tuple(map(bundle, offer.bundles)),
    )


def _weight_here(child: Child, weight: int) -> int:
    return adjust(weight, child.weight_offset, child.weight_scale)
