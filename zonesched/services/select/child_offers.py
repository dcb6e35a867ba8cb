"""Offers of the child zones, merged with the local one.

ask each child for its share -> merge -> is a share used up? - no -> the plan
                                  ^                   |
                                  +-- ask for more <- yes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from zonesched import turns
from zonesched.errors import ChildBusy
from zonesched.model.build_plan import Bundle, ChildBlob, Entry
from zonesched.model.decision_trace import ChildTrace
from zonesched.model.group_place import Anywhere, GroupPlace
from zonesched.model.offer_page import WHOLE, Page
from zonesched.model.own_zone import keeps_to_own_hosts
from zonesched.model.place import ChildPlace, LocalPlace
from zonesched.model.request_spec import Policy, spec_for_child
from zonesched.scheduler.merge import adjust
from zonesched.scheduler.offer import Offer, OfferRequest
from zonesched.scheduler.shares import first_page, next_page
from zonesched.scheduler.sources import Merged, Source, merge_sources, own_source
from zonesched.seams import Done, Failed, Late
from zonesched.services.select.child_traces import not_asked, traces_of
from zonesched.services.zone import Zone
from zonesched.store import child_placements
from zonesched.zones.answer_room import AnswerHand
from zonesched.zones.child import Child, ChildOffer, OfferedBundle, OfferedEntry
from zonesched.zones.client import ChildClient, Question
from zonesched.zones.eligible import EligibleChildren

Outcome = Done[ChildOffer] | Failed | Late


@dataclass(frozen=True)
class ChildAnswers:
    """Answers of the child zones, and what they give together with the local hosts.

    `sources`: the offers of `offers` in the form in which they were merged. `traces`: of every child, also of
    those that were not asked.
    """

    merged: Merged
    offers: Sequence[ChildOffer]
    sources: tuple[Source, ...]
    complete: bool
    traces: Sequence[ChildTrace]


def ask(zone: Zone, request: OfferRequest, own: Offer, hand: AnswerHand) -> ChildAnswers:
    """Ask the children for offers until the request's page is whole, and merge them with the local offer.

    Raises CallerGone.
    """
    spec, deadline = request.spec, request.deadline
    if keeps_to_own_hosts(spec.hints):
        return _without_children(zone, request, own, not_asked(zone.children), complete=True)
    asked = _of_group(zone.children.eligible(spec), request.context.group_place)
    if not asked.to_ask:
        traces = traces_of(zone.children, spec, asked, [])
        return _without_children(zone, request, own, traces, complete=asked.complete)
    unreliable = zone.store.read(
        lambda tx: child_placements.unreliable_children(tx, hand.caller_id, spec.request_id, zone.clock.now())
    )
    if deadline.left_s <= 0:
        traces = traces_of(zone.children, spec, asked.out_of_time(), [])
        return _without_children(zone, request, own, traces, complete=False)
    unreliable |= zone.children.holds.last()
    mine = own_source(zone.uuid, spec, own)
    found: dict[str, Outcome] = {}
    pages = _first_pages(zone, request, asked.to_ask, own)
    while pages:
        for child_id, outcome in _ask_for(zone, request, pages, hand).items():
            found[child_id] = _joined(found[child_id], outcome) if child_id in found else outcome
        sources = [
            replace(_source(child, outcome.value), unreliable=child.id in unreliable)
            for child in asked.to_ask
            if isinstance(outcome := found[child.id], Done)
        ]
        merged = merge_sources([mine, *sources], request.count, spec.alternates)
        read = {source.id: len(source.entries) for source in sources}
        pages = {child_id: next_page(request.count, read[child_id]) for child_id in merged.unread}
    outcomes = [found[child.id] for child in asked.to_ask]
    offers = [outcome.value for outcome in outcomes if isinstance(outcome, Done)]
    return ChildAnswers(
        merged=merged,
        offers=offers,
        sources=tuple(replace(source, more=False) for source in sources),
        complete=asked.complete and len(offers) == len(outcomes) and all(o.complete for o in offers),
        traces=traces_of(zone.children, spec, asked, outcomes),
    )


def _without_children(
    zone: Zone, request: OfferRequest, own: Offer, traces: Sequence[ChildTrace], *, complete: bool
) -> ChildAnswers:
    mine = own_source(zone.uuid, request.spec, own)
    merged = merge_sources([mine], request.count, request.spec.alternates)
    return ChildAnswers(merged, (), (), complete, traces)


def _of_group(asked: EligibleChildren, group: GroupPlace) -> EligibleChildren:
    """Reduce the children to the one that has the request's group; to none if a local host has it."""
    match group:
        case Anywhere():
            return asked
        case LocalPlace():
            return asked.only("", "group_elsewhere")
        case ChildPlace(child_id):
            return asked.only(child_id, "group_elsewhere")


def _first_pages(
    zone: Zone, request: OfferRequest, children: Sequence[Child], own: Offer
) -> Mapping[str, Page]:
    """Return the page to ask each child for: its share, and all of a child that has no pages."""
    if request.spec.policy is Policy.AFFINITY:
        return {child.id: WHOLE for child in children}
    zones = len(children) + (1 if own.picks else 0)
    share = first_page(request.count, zones, zone.conf.select_page)
    with_pages = zone.children.with_pages()
    return {child.id: share if child.id in with_pages else WHOLE for child in children}


def _ask_for(
    zone: Zone, request: OfferRequest, pages: Mapping[str, Page], hand: AnswerHand
) -> Mapping[str, Outcome]:
    """Ask children for these pages, all at once; one outcome for each."""
    deadline = request.deadline
    budget_s = deadline.left_s
    if budget_s <= 0:
        return dict.fromkeys(pages, Late())
    child_spec = spec_for_child(request.spec, zone.uuid, budget_s)

    def ask_select(page: Page, client: ChildClient) -> Question[ChildOffer]:
        return client.ask_select(child_spec, page)

    asked = [(child_id, partial(ask_select, page)) for child_id, page in pages.items()]
    outcomes = zone.children.exchange(asked, budget_s, deadline.is_wanted, hand)
    # All selects of a caller that waited for one child continue together; to merge and seal they take turns.
    turns.give_way()
    deadline.check_wanted()
    for child_id, outcome in zip(pages, outcomes, strict=True):
        has_offer = isinstance(outcome, Done) and bool(outcome.value.entries or outcome.value.bundles)
        zone.children.offers.add(child_id, has_offer=has_offer)
        match outcome:
            case Done(offer):
                zone.children.offered(child_id, offer.blob_size)
            case Failed(ChildBusy(retry_after_s=pause_s)):
                zone.children.is_busy(child_id, pause_s)
    return dict(zip(pages, outcomes, strict=True))


def _joined(earlier: Outcome, outcome: Outcome) -> Outcome:
    """Return what a child has offered so far; a page that does not come leaves its offer incomplete."""
    match earlier, outcome:
        case Done(first), Done(then):
            return Done(
                replace(
                    then,
                    entries=(*first.entries, *then.entries),
                    blob_size=max(first.blob_size, then.blob_size),
                    complete=first.complete and then.complete,
                    database_away=first.database_away or then.database_away,
                    expires_in_s=min(first.expires_in_s, then.expires_in_s),
                )
            )
        case Done(first), _:
            return Done(replace(first, complete=False, more=False))
    return outcome


def _source(child: Child, offer: ChildOffer) -> Source:
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
        more=offer.more,
    )


def _weight_here(child: Child, weight: int) -> int:
    return adjust(weight, child.weight_offset, child.weight_scale)
