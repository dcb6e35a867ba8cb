"""Which children a request goes to: decided by what each said of itself, pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zonesched.model.request_spec import RequestSpec
from zonesched.zones.child import Child, ChildInfo, Ready
from zonesched.zones.known_child import KnownChild


@dataclass(frozen=True)
class Askable:
    """Whom a request goes to; who is known not to fit and needs no asking; who cannot be asked."""

    to_ask: tuple[Child, ...]
    not_fitting: tuple[Child, ...]
    silent: tuple[Child, ...]

    @property
    def complete(self) -> bool:
        """Whether nobody's offers are missing, should all of `to_ask` answer."""
        return not self.silent


def askable(children: Iterable[KnownChild], spec: RequestSpec) -> Askable:
    """Each child in one of the three groups. One that has no key to seal with has no offers to make."""
    to_ask: list[Child] = []
    not_fitting: list[Child] = []
    silent: list[Child] = []
    for known in children:
        match known.status:
            case Ready(info) if not can_fit(info, spec):
                not_fitting.append(known.child)
            case Ready(info) if info.can_seal:
                to_ask.append(known.child)
            case _:
                silent.append(known.child)
    return Askable(tuple(to_ask), tuple(not_fitting), tuple(silent))


def can_fit(info: ChildInfo, spec: RequestSpec) -> bool:
    """Whether one host there could hold one instance if all were free, as far as the child's word goes.

    Judged by what is fixed only. A child that lacks word from below may hold more than it says.
    """
    if info.uuid in spec.path:
        return False
    if not info.complete:
        return True
    return _has_kind(info, spec) and all(
        name in info.capacities and amount <= info.capacities[name].high
        for name, amount in spec.resources.items()
    )


def _has_kind(info: ChildInfo, spec: RequestSpec) -> bool:
    wanted = spec.traits
    return (
        (not spec.availability_zone or spec.availability_zone in info.availability_zones)
        and all(value in info.zone_capabilities.get(key, ()) for key, value in spec.zone_capabilities.items())
        and wanted.required <= info.traits
        and all(group & info.traits for group in wanted.any_of)
    )
