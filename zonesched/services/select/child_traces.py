"""Traces of a zone's children in a select: asked or not, answered or unreachable, and why."""

from __future__ import annotations

from collections.abc import Sequence

from zonesched.errors import ChildDatabaseAway, ChildUnreachable
from zonesched.model.build_plan import Refusal
from zonesched.model.decision_trace import ChildOutcome, ChildTrace
from zonesched.model.request_spec import RequestSpec
from zonesched.seams import Done, Failed, Late
from zonesched.services.select.faults import OFFERS_LIMITED
from zonesched.zones.child import Child, ChildOffer
from zonesched.zones.eligible import EligibleChildren
from zonesched.zones.zone_manager import ZoneManager


def traces_of(
    manager: ZoneManager,
    spec: RequestSpec,
    asked: EligibleChildren,
    outcomes: Sequence[Done[ChildOffer] | Failed | Late],
) -> list[ChildTrace]:
    """Trace each child's answer, or the reason it was not asked, in the order in which they were added."""
    traces = {
        child.id: _trace(spec, child, outcome) for child, outcome in zip(asked.to_ask, outcomes, strict=True)
    }
    for child in asked.ineligible:
        code = asked.codes[child.id]
        why = (Refusal(_FILTERS_BY_CODE[code], code),) if code in _FILTERS_BY_CODE else ()
        traces[child.id] = ChildTrace(child.id, child.name, ChildOutcome.INELIGIBLE, code, why=why)
    for child in asked.unavailable:
        traces[child.id] = ChildTrace(child.id, child.name, ChildOutcome.NOT_READY, asked.codes[child.id])
    added = {known.child.id: number for number, known in enumerate(manager.snapshot())}
    return sorted(traces.values(), key=lambda trace: added.get(trace.child_id, len(added)))


def not_asked(manager: ZoneManager) -> list[ChildTrace]:
    """Trace the children for a request that stays on local hosts."""
    children = [known.child for known in manager.snapshot()]
    return [ChildTrace(c.id, c.name, ChildOutcome.INELIGIBLE, "own_hosts_only") for c in children]


_FILTERS_BY_CODE = {
    "wrong_availability_zone": "AvailabilityZoneFilter",
    "zone_capability": "zone_capabilities",
    "traits_not_met": "TraitsFilter",
    "not_enough_resources": "ResourceClassFilter",
    "group_elsewhere": "server_group",
}
"""Filter that would refuse every host of a child that is ineligible for this code."""


_LIMITED = Refusal("max_entries_per_select", OFFERS_LIMITED)
"""Why a child, or a zone further down, offers no further place to this select."""


def _trace(spec: RequestSpec, child: Child, outcome: Done[ChildOffer] | Failed | Late) -> ChildTrace:
    match outcome:
        case Done(offer):
            state = ChildOutcome.ANSWERED if offer.complete else ChildOutcome.INCOMPLETE
            code = ChildDatabaseAway.code if offer.database_away and not offer.complete else ""
            offered = spec.num_instances if offer.bundles else len(offer.entries)
            limited = (_LIMITED,) if offer.limited else ()
            runs_out = (*offer.runs_out, *limited)
            return ChildTrace(child.id, child.name, state, code, offered, offer.why, runs_out)
        case Failed(ChildUnreachable(code=code)):
            return ChildTrace(child.id, child.name, ChildOutcome.UNREACHABLE, code)
        case _:
            return ChildTrace(child.id, child.name, ChildOutcome.UNREACHABLE, "child_timeout")
