"""Which children a request goes to: decided by what each said of itself, pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from zonesched.errors import ChildBusy
from zonesched.model.request_spec import RequestSpec
from zonesched.model.work_deadline import OutOfTime
from zonesched.zones.child import Child, ChildInfo, ChildStatus, Offline, Ready, Waiting
from zonesched.zones.known_child import KnownChild


@dataclass(frozen=True)
class EligibleChildren:
    """Whom a request goes to; who is known not to fit and needs no asking; who cannot be asked.

    `codes`: why the latter two are not asked, by id of the child.
    """

    to_ask: tuple[Child, ...]
    not_fitting: tuple[Child, ...]
    silent: tuple[Child, ...]
    codes: Mapping[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Tell whether no offers are missing if all of `to_ask` answer."""
        return not self.silent

    def only(self, child_id: str, code: str) -> EligibleChildren:
        """The same with this child alone; all others are not fitting, for this code."""
        groups = (self.to_ask, self.not_fitting, self.silent)
        others = tuple(child for group in groups for child in group if child.id != child_id)
        ask, misfit, silent = (tuple(child for child in g if child.id == child_id) for g in groups)
        codes = {**self.codes, **{child.id: code for child in others}}
        return EligibleChildren(ask, (*misfit, *others), silent, codes)

    def out_of_time(self) -> EligibleChildren:
        """The same without asking anybody: the request has no time left."""
        codes = {**self.codes, **{child.id: OutOfTime.code for child in self.to_ask}}
        return EligibleChildren((), self.not_fitting, (*self.silent, *self.to_ask), codes)


def askable(children: Iterable[KnownChild], spec: RequestSpec, now: float) -> EligibleChildren:
    """Each child in one of the three groups; `now` in monotonic seconds.

    One that has no key to seal with has no offers to make; one that is busy makes none before its time.
    """
    to_ask: list[Child] = []
    not_fitting: list[Child] = []
    silent: list[Child] = []
    codes: dict[str, str] = {}
    for known in children:
        child_id = known.child.id
        match known.status:
            case Ready(info) if misfit := misfit_of(info, spec):
                not_fitting.append(known.child)
                codes[child_id] = misfit
            case Ready() if known.busy_until > now:
                silent.append(known.child)
                codes[child_id] = ChildBusy.code
            case Ready(info) if info.can_seal:
                to_ask.append(known.child)
            case status:
                silent.append(known.child)
                codes[child_id] = _why_silent(status)
    return EligibleChildren(tuple(to_ask), tuple(not_fitting), tuple(silent), codes)


def misfit_of(info: ChildInfo, spec: RequestSpec) -> str:
    """Why no host there could hold an instance if all were free, as a code; "" where one might.

    Judged by what is fixed only, as far as the child's word goes: one that lacks word from below may hold
    more than it says.
    """
    if info.uuid in spec.path:
        return "zone_passed_before"
    if not info.complete:
        return ""
    traits = spec.traits
    if spec.availability_zone and spec.availability_zone not in info.availability_zones:
        return "wrong_availability_zone"
    if any(value not in info.zone_capabilities.get(key, ()) for key, value in spec.zone_capabilities.items()):
        return "zone_capability"
    if not traits.required <= info.traits or not all(group & info.traits for group in traits.any_of):
        return "traits_not_met"
    too_small = any(
        name not in info.capacities or amount > info.capacities[name].high
        for name, amount in spec.resources.items()
    )
    return "not_enough_resources" if too_small else ""


def _why_silent(status: ChildStatus) -> str:
    match status:
        case Waiting():
            return "child_waiting"
        case Offline(error):
            return error
        case Ready():
            return "zone_has_no_key"
