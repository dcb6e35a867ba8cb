"""Select: the best places in this zone and below it. Writes nothing and holds nothing.

own hosts -> scheduler.offer ----+
                                 +-> merge by best head -> build plan -> sealed, for a parent
children -> POST /zones/select --+
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from zonesched.errors import BadRequest, Unavailable, WeighingUnknown
from zonesched.model.build_plan import (
    BuildPlan,
    Bundle,
    ChildPlace,
    Entry,
    LocalPlace,
    Refusal,
    Why,
)
from zonesched.model.caller import Caller
from zonesched.model.own_zone import keeps_to_own_hosts
from zonesched.model.request_context import RequestContext
from zonesched.model.request_spec import Policy, RequestSpec, Unweighed, spec_for_child
from zonesched.model.tie_break import text_hash
from zonesched.model.views import SealedOffer
from zonesched.scheduler.merge import adjust, merge_heads
from zonesched.scheduler.offer import Offer, OfferRequest, Pick
from zonesched.seal.envelope import Bound, ChildContent, Content, HostContent
from zonesched.seams import Done
from zonesched.services.explain import explain
from zonesched.services.zone import Zone
from zonesched.store import placements
from zonesched.store.hosts import group_key, owner_key
from zonesched.store.store import Transaction
from zonesched.zones.child import Child, ChildOffer

log = logging.getLogger(__name__)

MAX_PATH = 16


@dataclass(frozen=True)
class Decision:
    """A plan, and the spec as it was asked everywhere (its weighing chosen).

    `child_blob_sizes`: bytes of the blobs that children have offered for it.
    """

    plan: BuildPlan
    spec: RequestSpec
    child_blob_sizes: Sequence[int] = ()


@dataclass(frozen=True)
class _ChildAnswers:
    """`unreliable`: the ids of children that have mostly failed for this very request."""

    offers: Sequence[tuple[Child, ChildOffer]]
    complete: bool
    unreliable: frozenset[str] = frozenset()


def decide(zone: Zone, spec: RequestSpec, caller_id: str) -> Decision:
    """The open plan of this zone and all below it, for this zone's own use."""
    if zone.uuid in spec.path:
        # Its offers are with the first zone of the loop, which is this one.
        log.warning("request %s came back to this zone: zones are registered in a loop", spec.request_id)
        return Decision(_no_offer(zone, complete=True), spec)
    if len(spec.path) >= MAX_PATH:
        return Decision(_no_offer(zone, Refusal("path", "path_too_long"), complete=False), spec)
    started_at = zone.clock.monotonic()
    spec, own = _own_offer(zone, spec, caller_id)
    answers = _ask_children(zone, spec, started_at)
    plan = _merge(zone, spec, own, answers)
    return Decision(plan, spec, [offer.blob_size for _, offer in answers.offers])


def answer_parent(zone: Zone, caller: Caller, unverified_spec: RequestSpec) -> SealedOffer:
    """What this zone and all below it offer, sealed for this caller, project and request.

    At most `max_entries_per_select` entries, alternates included. Raises Unavailable for a zone without a key
    of its own, BadRequest for an affinity request of more instances than that.
    """
    if not zone.keyring.can_seal:
        raise Unavailable("This zone cannot offer anything: it has no key.", code="zone_has_no_key")
    spec = _capped(unverified_spec, zone.conf.max_entries_per_select)
    try:
        decision = decide(zone, spec, caller.user_id)
    except WeighingUnknown:
        plan = _no_offer(zone, Refusal("weighing", "weighing_unknown"), complete=False)
        decision = Decision(plan, spec)
    return _seal(zone, caller, unverified_spec, decision)


def _capped(spec: RequestSpec, most: int) -> RequestSpec:
    """The spec, asking for no more entries than one answer may have."""
    if spec.policy is Policy.AFFINITY:
        if spec.num_instances > most:
            raise BadRequest(
                f"An affinity request may have at most {most} instances here.",
                code="too_many_instances",
                field="num_instances",
            )
        return replace(spec, alternates=min(spec.alternates, most // spec.num_instances - 1))
    count = min(spec.num_instances, most)
    return replace(spec, num_instances=count, alternates=min(spec.alternates, most - count))


def _no_offer(zone: Zone, *why: Why, complete: bool) -> BuildPlan:
    return BuildPlan((), (), (), complete=complete, expires_in_s=zone.conf.build_plan_ttl, why=why)


def _own_offer(zone: Zone, spec: RequestSpec, caller_id: str) -> tuple[RequestSpec, Offer]:
    with zone.hosts.current() as table:
        if isinstance(spec.weighing, Unweighed):
            scheduler = zone.schedulers.default
            ranges = zone.children.ranges()
            weighing = scheduler.choose_weighing(
                table, spec, ranges, has_children=bool(zone.children.snapshot())
            )
            spec = replace(spec, weighing=weighing)
        scheduler = zone.schedulers.for_weighing(spec.weighing)
        return spec, scheduler.offer(
            OfferRequest(
                table=table,
                spec=spec,
                context=_context(zone, spec, caller_id),
                zone_capabilities=own_capabilities(zone),
            )
        )


def own_capabilities(zone: Zone) -> Mapping[str, frozenset[str]]:
    """What this zone's own configuration says it offers, by key."""
    pairs = (text.partition("=") for text in zone.conf.zone_capabilities)
    return {key.strip(): frozenset(v.strip() for v in values.split(";")) for key, _, values in pairs}


def _context(zone: Zone, spec: RequestSpec, caller_id: str) -> RequestContext:
    """Who asks, and which own hosts that concerns, by own rows.

    Those whose claim or build failed for this very request, and those of its owner's instances that its hints
    name.
    """

    def read(tx: Transaction) -> RequestContext:
        owned = (caller_id, spec.project_id)
        return RequestContext(
            owner=owner_key(*owned),
            group=group_key(caller_id, spec.group_id) if spec.group_id else "",
            same_hosts=placements.hosts_of(tx, *owned, spec.same_host),
            different_hosts=placements.hosts_of(tx, *owned, spec.different_host),
            tried_hosts=placements.failed_hosts(tx, spec.request_id),
        )

    return zone.store.read(read)


def _ask_children(zone: Zone, spec: RequestSpec, started_at: float) -> _ChildAnswers:
    if keeps_to_own_hosts(spec.hints):
        return _ChildAnswers((), complete=True)
    asked = zone.children.askable(spec)
    if not asked.to_ask:
        return _ChildAnswers((), asked.complete)
    unreliable = zone.store.read(lambda tx: placements.unreliable_children(tx, spec.request_id))
    left_s = spec.time_budget_s - (zone.clock.monotonic() - started_at)
    reserve_s = min(zone.conf.select_reserve, spec.time_budget_s / 5)
    budget_s = left_s - reserve_s
    child_spec = spec_for_child(spec, zone.uuid, budget_s)
    outcomes = zone.children.ask(
        asked.to_ask, lambda client: client.select(child_spec, budget_s), timeout_s=budget_s
    )
    offers = [
        (child, outcome.value)
        for child, outcome in zip(asked.to_ask, outcomes, strict=True)
        if isinstance(outcome, Done)
    ]
    for child, offer in offers:
        zone.children.offered(child.id, offer.blob_size)
    complete = asked.complete and len(offers) == len(outcomes) and all(o.complete for _, o in offers)
    return _ChildAnswers(offers, complete, unreliable)


def _merge(zone: Zone, spec: RequestSpec, own: Offer, answers: _ChildAnswers) -> BuildPlan:
    """One plan of all offers: always the best head next, so that each sequence keeps its order.

    Equal heads go in an order of zones that differs from request to request, so that alike zones fill alike.
    Children that have mostly failed for this very request come after all others, however good their offers.
    """
    sources = [_own_source(zone, spec, own), *(_child_source(*answer) for answer in answers.offers)]
    sources.sort(key=lambda source: text_hash(f"{spec.request_id}:{source.id}"))
    picked: list[Entry] = []
    alternates: list[Entry] = []
    bundles: list[Bundle] = []
    for last in (False, True):
        turn = [source for source in sources if (source.id in answers.unreliable) is last]
        best, rests = merge_heads([source.entries for source in turn], spec.num_instances - len(picked))
        spare = [[*rest, *source.alternates] for rest, source in zip(rests, turn, strict=True)]
        picked += best
        alternates += merge_heads(spare, spec.alternates - len(alternates))[0]
        bundles += merge_heads([source.bundles for source in turn], 1 + spec.alternates - len(bundles))[0]
    return BuildPlan(
        entries=tuple(picked),
        alternates=tuple(alternates),
        bundles=tuple(bundles),
        complete=answers.complete,
        expires_in_s=min([zone.conf.build_plan_ttl, *(o.expires_in_s for _, o in answers.offers)]),
        why=tuple(chain(own.why, *(offer.why for _, offer in answers.offers))),
    )


@dataclass(frozen=True)
class _Source:
    """What one zone offers, as this one weighs it: itself, or a child."""

    id: str
    entries: Sequence[Entry]
    alternates: Sequence[Entry]
    bundles: Sequence[Bundle]


def _own_source(zone: Zone, spec: RequestSpec, own: Offer) -> _Source:
    def entry(pick: Pick) -> Entry:
        return Entry(pick.weight, LocalPlace(pick.host_id))

    return _Source(
        id=zone.uuid,
        entries=[entry(pick) for pick in own.picks],
        alternates=[entry(pick) for pick in own.alternates],
        bundles=[Bundle(pick.weight, (entry(pick),) * spec.num_instances) for pick in own.bundles],
    )


def _child_source(child: Child, offer: ChildOffer) -> _Source:
    def entry(weight: int, blob: str) -> Entry:
        return Entry(_weight_here(child, weight), ChildPlace(child.id, blob))

    return _Source(
        id=child.id,
        entries=[entry(weight, blob) for weight, blob in offer.entries],
        alternates=[entry(weight, blob) for weight, blob in offer.alternates],
        bundles=[
            Bundle(_weight_here(child, weight), tuple(entry(weight, blob) for blob in blobs))
            for weight, blobs in offer.bundles
        ],
    )


def _weight_here(child: Child, weight: int) -> int:
    return adjust(weight, child.weight_offset, child.weight_scale)


def _seal(zone: Zone, caller: Caller, spec: RequestSpec, decision: Decision) -> SealedOffer:
    plan = decision.plan
    # A child that came, grew or went meanwhile may have changed the size: this one holds what was offered.
    envelope = zone.envelope_for(decision.child_blob_sizes)
    bound = Bound(zone.uuid, caller.user_id, spec.project_id, spec.digest())
    entries = [*plan.entries, *plan.alternates, *(e for b in plan.bundles for e in b.entries)]
    # For as long as this zone's own offers last: a child that says less spoils none but its own.
    blobs = iter(envelope.seal(bound, [_content(e) for e in entries]))
    return SealedOffer(
        weights=[(entry.weight, next(blobs)) for entry in plan.entries],
        alternates=[(entry.weight, next(blobs)) for entry in plan.alternates],
        bundles=[(bundle.weight, [next(blobs) for _ in bundle.entries]) for bundle in plan.bundles],
        complete=plan.complete,
        expires_in_s=plan.expires_in_s,
        why=explain(plan.why, zone.conf.explain_to_parent),
    )


def _content(entry: Entry) -> Content:
    match entry.place:
        case LocalPlace(host_id):
            return HostContent(host_id)
        case ChildPlace(child_id, blob):
            return ChildContent(child_id, blob)
