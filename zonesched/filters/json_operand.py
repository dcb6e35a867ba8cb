"""What stands on either side of a comparison of a JSON query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from zonesched.model.arrays import Bools, Floats
from zonesched.model.host_row import SharedFacts
from zonesched.model.host_state import MB_PER_GB, HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import DISK_GB, MEMORY_MB, VCPU

Compare = Callable[[Any, Any], Any]


class Operand(ABC):
    """A value that may differ from host to host; None stands for one that a host does not have."""

    @abstractmethod
    def value(self, state: HostState) -> object:
        """On one host."""

    def compared(self, compare: Compare, other: Operand, state: HostState) -> bool:
        """Whether the comparison with `other` holds on one host."""
        return comparison_holds(compare, self.value(state), other.value(state))

    def compared_all(self, compare: Compare, other: Operand, hosts: HostView) -> Bools:
        """Whether the comparison with `other` holds, for each host."""
        match self, other:
            case ((Constant() | Capability()), (Constant() | Capability())):
                return hosts.by_shared_facts(
                    lambda facts: comparison_holds(compare, self.shared(facts), other.shared(facts))
                )
            case ((Constant() | Number()), (Constant() | Number())):
                return _compare_numbers(compare, self, other, hosts)
            case _:
                answers = (self.compared(compare, other, state) for state in hosts.states())
                return np.fromiter(answers, dtype=np.bool_, count=len(hosts))

    def shared(self, facts: SharedFacts) -> object:
        """Its value on every host with these facts, if they decide it."""
        raise TypeError(f"{self} differs between hosts of equal facts")


@dataclass(frozen=True)
class Constant(Operand):
    """A number, text or truth that stands in the query."""

    constant: int | float | str | bool

    def value(self, state: HostState) -> object:
        return self.constant

    def shared(self, facts: SharedFacts) -> object:
        return self.constant


@dataclass(frozen=True)
class Capability(Operand):
    """A path into what the host's agent reports of its capabilities."""

    keys: tuple[str, ...]

    def value(self, state: HostState) -> object:
        return self._follow(state.capabilities)

    def shared(self, facts: SharedFacts) -> object:
        return self._follow(facts.capabilities)

    def _follow(self, capabilities: Mapping[str, Any]) -> object:
        value: object = capabilities
        for key in self.keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


@dataclass(frozen=True)
class Number(Operand):
    """One of RESOURCE_NUMBERS."""

    name: str

    def value(self, state: HostState) -> object:
        number: int = getattr(state, self.name)
        return number

    def column(self, hosts: HostView) -> Floats:
        return NUMBER_COLUMNS[self.name](hosts)


NUMBER_COLUMNS: Mapping[str, Callable[[HostView], Floats]] = {
    "free_ram_mb": lambda hosts: hosts.free(MEMORY_MB),
    "total_usable_ram_mb": lambda hosts: hosts.usable(MEMORY_MB),
    "free_disk_mb": lambda hosts: hosts.free(DISK_GB) * MB_PER_GB,
    "total_usable_disk_gb": lambda hosts: hosts.usable(DISK_GB),
    "disk_mb_used": lambda hosts: hosts.used(DISK_GB) * MB_PER_GB,
    "vcpus_total": lambda hosts: hosts.usable(VCPU),
    "vcpus_used": lambda hosts: hosts.used(VCPU),
    "num_instances": lambda hosts: hosts.num_instances,
    "num_io_ops": lambda hosts: hosts.num_io_ops,
}


def comparison_holds(compare: Compare, left: object, right: object) -> bool:
    """Whether it holds of two values; never of values of different kinds."""
    kind = _kind(left)
    if kind == "" or kind != _kind(right):
        return False
    return bool(compare(left, right))


def _kind(value: object) -> str:
    match value:
        case bool():
            return "truth"
        case int() | float():
            return "number"
        case str():
            return "text"
        case _:
            return ""


def _compare_numbers(
    compare: Compare, left: Constant | Number, right: Constant | Number, hosts: HostView
) -> Bools:
    for side in (left, right):
        if isinstance(side, Constant) and _kind(side.constant) != "number":
            return np.zeros(len(hosts), dtype=np.bool_)
    sides = [side.constant if isinstance(side, Constant) else side.column(hosts) for side in (left, right)]
    result: Bools = compare(*sides)
    return result
