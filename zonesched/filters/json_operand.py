"""The operands of a comparison in a JSON query: constants, capabilities and numbers of a host."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zonesched.model.arrays import Floats
from zonesched.model.host_row import SharedFacts
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import DISK_GB, MB_PER_GB, MEMORY_MB, VCPU


class Operand(ABC):
    """A value that may differ between hosts; None stands for a value that a host does not have."""

    @abstractmethod
    def value(self, state: HostState) -> object:
        """Return the value on one host."""

    @abstractmethod
    def column(self, hosts: HostView) -> Floats | float:
        """Return the value on each host as a number, or one number for all; NaN where it is not one."""


class OfFacts(Operand):
    """An operand that is equal on all hosts with the same facts."""

    @abstractmethod
    def of_facts(self, facts: SharedFacts) -> object:
        """Return the value on every host with these facts."""


@dataclass(frozen=True)
class Constant(OfFacts):
    """A number, text or truth value that is written in the query."""

    constant: int | float | str | bool

    def value(self, state: HostState) -> object:
        return self.constant

    def of_facts(self, facts: SharedFacts) -> object:
        return self.constant

    def column(self, hosts: HostView) -> Floats | float:
        return as_number(self.constant)


@dataclass(frozen=True)
class Capability(OfFacts):
    """A path into the capabilities that the host's agent reports."""

    keys: tuple[str, ...]

    def value(self, state: HostState) -> object:
        return self._follow(state.capabilities)

    def of_facts(self, facts: SharedFacts) -> object:
        return self._follow(facts.capabilities)

    def column(self, hosts: HostView) -> Floats | float:
        return hosts.numbers_by_shared_facts(lambda facts: as_number(self.of_facts(facts)))

    def _follow(self, capabilities: Mapping[str, Any]) -> object:
        value: object = capabilities
        for key in self.keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


@dataclass(frozen=True)
class Number(Operand):
    """One of NUMBER_COLUMNS: it changes as instances are placed on the host."""

    name: str

    def value(self, state: HostState) -> object:
        number: int = getattr(state, self.name)
        return number

    def column(self, hosts: HostView) -> Floats | float:
        return NUMBER_COLUMNS[self.name](hosts)


RESOURCE_COLUMNS: Mapping[str, Callable[[HostView], Floats]] = {
    "free_ram_mb": lambda hosts: hosts.free(MEMORY_MB),
    "total_usable_ram_mb": lambda hosts: hosts.usable(MEMORY_MB),
    "free_disk_mb": lambda hosts: hosts.free(DISK_GB) * MB_PER_GB,
    "total_usable_disk_gb": lambda hosts: hosts.usable(DISK_GB),
    "disk_mb_used": lambda hosts: hosts.used(DISK_GB) * MB_PER_GB,
    "vcpus_total": lambda hosts: hosts.usable(VCPU),
    "vcpus_used": lambda hosts: hosts.used(VCPU),
}
COUNT_COLUMNS: Mapping[str, Callable[[HostView], Floats]] = {
    "num_instances": lambda hosts: hosts.num_instances,
    "num_io_ops": lambda hosts: hosts.num_io_ops,
}
"""Counts of everybody's instances: they say nothing of what fits, and something about other callers."""

NUMBER_COLUMNS: Mapping[str, Callable[[HostView], Floats]] = {**RESOURCE_COLUMNS, **COUNT_COLUMNS}


def as_number(value: object) -> float:
    """Return a number as a float; NaN for a text, a truth value and a number beyond float64.

    >>> (as_number(2), as_number("2"), as_number(True), as_number(10**400))
    (2.0, nan, nan, nan)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def kind_of(value: object) -> str:
    """Return "truth", "number" or "text"; "" for any other value."""
    match value:
        case bool():
            return "truth"
        case int() | float():
            return "number"
        case str():
            return "text"
        case _:
            return ""
