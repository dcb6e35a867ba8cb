"""Eligibility of children for a request, from the info that each reported; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from zonesched.errors import ChildBusy
from zonesched.filters.availability_zone_filter import AvailabilityZoneFilter
from zonesched.filters.traits_filter import TraitsFilter
from zonesched.model.request_spec import RequestSpec
from zonesched.model.work_deadline import OutOfTime
from zonesched.zones.child import Child, ChildInfo, ChildStatus, Offline, Ready, Waiting
from zonesched.zones.known_child import KnownChild


@dataclass(frozen=True)
class EligibleChildren:
    """Children that a request goes to, those that cannot hold it, and those that cannot be asked now.

    `codes`: why the latter two are not asked, by id of the child.
    """

    to_ask: tuple[Child, ...]
    ineligible: tuple[Child, ...]
    unavailable: tuple[Child, ...]
    codes: Mapping[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Tell whether no offers are missing if all of `to_ask` answer."""
        return not self.unavailable

    def only(self, child_id: str, code: str) -> EligibleChildren:
        """Keep this child alone; all others become ineligible with this code."""
        groups = (self.to_ask, self.ineligible, self.unavailable)
        others = tuple(child for group in groups for child in group if child.id != child_id)
        ask, ineligible, unavailable = (tuple(child for child in g if child.id == child_id) for g in groups)
        codes = {**self.codes, **{child.id: code for child in others}}
        return EligibleChildren(ask, (*ineligible, *others), unavailable, codes)

    def out_of_time(self) -> EligibleChildren:
        """Make all children unavailable: the request has no time left."""
        codes = {**self.codes, **{child.id: OutOfTime.code for child in self.to_ask}}
        return EligibleChildren((), self.ineligible, (*self.unavailable, *self.to_ask), codes)


def eligible(
    children: Iterable[KnownChild], spec: RequestSpec, now: float, filters: Set[str]
) -> EligibleChildren:
    """Sort each child into one of the three groups; `now` in monotonic seconds.

    `filters`: the names of this zone's enabled filters. What none of them reads makes no child ineligible.
    A child without a key to seal with is unavailable, and a busy one until its time is over.
    """
    to_ask: list[Child] = []
    ineligible: list[Child] = []
    unavailable: list[Child] = []
    codes: dict[str, str] = {}
    for known in children:
        child_id = known.child.id
        match known.status:
            case _ if not known.child.is_enabled:
                ineligible.append(known.child)
                codes[child_id] = "child_disabled"
            case Ready(info) if code := why_ineligible(info, spec, filters):
                ineligible.append(known.child)
                codes[child_id] = code
            case Ready() if known.busy_until > now:
                unavailable.append(known.child)
                codes[child_id] = ChildBusy.code
            case Ready(info) if info.can_seal:
                to_ask.append(known.child)
            case status:
                unavailable.append(known.child)
                codes[child_id] = _why_unavailable(status)
    return EligibleChildren(tuple(to_ask), tuple(ineligible), tuple(unavailable), codes)


def why_ineligible(info: ChildInfo, spec: RequestSpec, filters: Set[str]) -> str:
    """Return the code for which no host there could hold an instance, even if all were free; "" if one might.

    Only what is fixed counts. A child whose report is incomplete is always eligible: it may hold more than it
    reports. So is one that has reported no hosts: its agents may have registered some since.
    """
    if info.uuid in spec.path:
        return "zone_passed_before"
    if not (info.complete and info.capacities):
        return ""
    traits = spec.traits
    is_zone_read = spec.availability_zone and AvailabilityZoneFilter.__name__ in filters
    if is_zone_read and spec.availability_zone not in info.availability_zones:
        return "wrong_availability_zone"
    if any(value not in info.zone_capabilities.get(key, ()) for key, value in spec.zone_capabilities.items()):
        return "zone_capability"
    has_traits = traits.required <= info.traits and all(group & info.traits for group in traits.any_of)
    if TraitsFilter.__name__ in filters and not has_traits:
        return "traits_not_met"
    too_small = any(
        name not in info.capacities or amount > info.capacities[name].high
        for name, amount in spec.resources.items()
    )
    return "not_enough_resources" if too_small else ""


def _why_unavailable(status: ChildStatus) -> str:
    match status:
        case Waiting():
            return "child_waiting"
        case Offline(error):
            return error
        case Ready():
            return "zone_has_no_key"
