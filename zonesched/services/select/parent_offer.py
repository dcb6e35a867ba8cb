"""Offer of a zone to a parent: the select's plan, sealed for that parent, its project and its request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zonesched.errors import BadRequest, FilterUnknown, Unavailable, WeighingUnknown
from zonesched.filters.contract import FilterFailed
from zonesched.model.caller import Caller, Explained
from zonesched.model.decision_trace import NO_TRACE
from zonesched.model.offer_page import WHOLE, Page
from zonesched.model.request_spec import Policy, RequestSpec
from zonesched.model.request_wire import content_digest
from zonesched.model.sealed_offer import SealedBundle, SealedEntry, SealedOffer
from zonesched.model.work_deadline import always
from zonesched.seal.envelope import Bound
from zonesched.services.select.explain import explain
from zonesched.services.select.select import Decision, decide, no_offer, refused
from zonesched.services.zone import Zone
from zonesched.weights.contract import WeigherFailed


def answer_parent(
    zone: Zone,
    caller: Caller,
    unverified_spec: RequestSpec,
    is_wanted: Callable[[], bool] = always,
    page: Page = WHOLE,
) -> SealedOffer:
    """Offer hosts of this zone and its child zones, sealed for this caller, project and request.

    At most `max_entries_per_select` entries, alternates included, on all pages together: none for an affinity
    request of more instances. Raises Unavailable for a zone without a key of its own, BadRequest for a page
    of an affinity request, OverLimit, ZoneBusy, and CallerGone once `is_wanted` is false.
    """
    if unverified_spec.policy is Policy.AFFINITY and page != WHOLE:
        raise BadRequest("page: an affinity request has no pages.", code="page_unsupported", field="page")
    if not zone.keyring.can_seal:
        raise Unavailable("This zone has no key and cannot seal offers.", code="zone_has_no_key")
    spec = _capped(unverified_spec, zone.conf.max_entries_per_select)
    # Filters tell by the path that a request is a parent's; it may claim to have passed no zone.
    path = spec.path or (caller.user_id,)
    spec = replace(spec, path=path, time_budget_s=min(spec.time_budget_s, zone.conf.max_time_budget))
    zone.quotas.admit_select(caller.user_id)
    try:
        with zone.select_slots.of_parent(caller.user_id):
            if _is_too_large(spec, zone.conf.max_entries_per_select):
                plan = replace(no_offer(zone.conf, complete=True), limited=True)
                decision = Decision(plan, spec, NO_TRACE)
            else:
                decision = decide(zone, spec, caller.user_id, is_wanted=is_wanted, page=page)
    except FilterFailed as error:
        # Its code says enough to a parent; the log names the plugin to the zone's own operator.
        decision = Decision(no_offer(zone.conf, complete=False), spec, refused("filters", error.code))
    except (WeigherFailed, WeighingUnknown) as error:
        decision = Decision(no_offer(zone.conf, complete=False), spec, refused("weighing", error.code))
    except FilterUnknown as error:
        # No host passes a missing filter: another select would have the same answer.
        decision = Decision(no_offer(zone.conf, complete=True), spec, refused(error.filter_name, error.code))
    offered = page.skip + len(decision.plan.entries)
    is_cut = spec.num_instances < unverified_spec.num_instances and offered >= spec.num_instances
    if decision.plan.bundles or offered >= min(spec.num_instances, page.end):
        decision = replace(decision, trace=decision.trace.without_runs_out())
    offer = _seal(zone, caller, unverified_spec, decision, more=is_cut or decision.plan.limited)
    # Those that a page skips were asked for below, too, in this zone's name.
    zone.quotas.note_entries(caller.user_id, min(page.skip, spec.num_instances) + offer.entries)
    return offer


def _is_too_large(spec: RequestSpec, max_entries: int) -> bool:
    """Tell whether one bundle would have more entries than an answer: no other select gets it either."""
    return spec.policy is Policy.AFFINITY and spec.num_instances > max_entries


def _capped(spec: RequestSpec, max_entries: int) -> RequestSpec:
    """Cap the spec's number of entries at the limit of one answer, but never the size of a bundle."""
    if spec.policy is Policy.AFFINITY:
        bundles = max(1, max_entries // spec.num_instances)
        return replace(spec, alternates=min(spec.alternates, bundles - 1))
    count = min(spec.num_instances, max_entries)
    return replace(spec, num_instances=count, alternates=min(spec.alternates, max_entries - count))


def _seal(zone: Zone, caller: Caller, spec: RequestSpec, decision: Decision, *, more: bool) -> SealedOffer:
    plan = decision.plan
    # Children may have been added or changed since: the blob size must fit what they have offered.
    envelope = zone.envelope_for(decision.child_blob_sizes)
    bound = Bound(zone.uuid, caller.user_id, spec.project_id, content_digest(spec))
    entries = [*plan.entries, *plan.alternates, *(e for b in plan.bundles for e in b.entries)]
    # Valid as long as this zone's own offers: a child's shorter time affects only its own entries.
    blobs = iter(envelope.seal(bound, [e.place for e in entries]))
    explained = caller.explained
    how_much = zone.conf.explain_to_parent if explained is Explained.AS_THE_ZONE else explained.value
    return SealedOffer(
        weights=[SealedEntry(entry.weight, entry.tie, next(blobs)) for entry in plan.entries],
        alternates=[SealedEntry(entry.weight, entry.tie, next(blobs)) for entry in plan.alternates],
        bundles=[SealedBundle(b.weight, b.tie, [next(blobs) for _ in b.entries]) for b in plan.bundles],
        complete=plan.complete,
        more=plan.more or more,
        expires_in_s=plan.expires_in_s,
        why=explain(decision.trace.why, how_much),
        runs_out=explain(decision.trace.runs_out, how_much),
        database_away=decision.trace.lacks_a_database,
    )
