"""Cost functions of LeastCostScheduler: their base class, the built-in and the configured ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from zonesched.conf import Conf
from zonesched.errors import ConfigError, WeighingUnknown
from zonesched.model.arrays import Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import MEMORY_MB, CostFunction, RequestSpec
from zonesched.plugin import check_answers, created, load_dotted
from zonesched.ratios import read_ratios

OPTION = "least_cost_functions"


class BaseHostCost:
    """Cost of placing a request on a host: 0 or more, lower is better."""

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        """Return the cost function with this zone's settings."""
        return cls()

    def host_cost(self, host_state: HostState, spec: RequestSpec) -> float:
        """Return the cost of one host; it must be finite."""
        raise NotImplementedError(f"{type(self).__name__} has no host_cost")

    def costs(self, hosts: HostView, spec: RequestSpec) -> Floats:
        """Return the cost of each host of the view; by default, call `host_cost` for each."""
        values = (float(self.host_cost(state, spec)) for state in hosts.states())
        return np.fromiter(values, dtype=np.float64, count=len(hosts))


class NoopCost(BaseHostCost):
    """Cost 1 for every host."""

    def host_cost(self, host_state: HostState, spec: RequestSpec) -> float:
        return 1.0

    def costs(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return np.ones(len(hosts))


class FillFirstCost(BaseHostCost):
    """Free RAM in MB: the fullest host first."""

    def host_cost(self, host_state: HostState, spec: RequestSpec) -> float:
        return float(max(0, host_state.free_ram_mb))

    def costs(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return np.maximum(0.0, hosts.free(MEMORY_MB))


class SpreadFirstCost(BaseHostCost):
    """Claimed RAM in MB: the emptiest host first."""

    def host_cost(self, host_state: HostState, spec: RequestSpec) -> float:
        return float(host_state.used(MEMORY_MB))

    def costs(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return hosts.used(MEMORY_MB)


class OwnerOnHostCost(BaseHostCost):
    """Number of the owner's instances on the host: limits the loss when one machine fails."""

    def host_cost(self, host_state: HostState, spec: RequestSpec) -> float:
        return float(host_state.owner_instances)

    def costs(self, hosts: HostView, spec: RequestSpec) -> Floats:
        return hosts.owner_instances


class PlainOnSpecialCost(BaseHostCost):
    """Cost 10**9 for a plain instance on a special host, else 0.

    A host is special if the capability named by `special_host_capability` is set on it; an instance is plain
    unless its flavor has an extra spec of that name, with or without `capabilities:` before it.
    """

    cost = 1e9

    def __init__(self, capability: str = "special") -> None:
        self._capability = capability

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        return cls(conf.special_host_capability)

    def host_cost(self, host_state: HostState, spec: RequestSpec) -> float:
        return self.cost if self._is_plain(spec) and self._is_special(host_state.capabilities) else 0.0

    def costs(self, hosts: HostView, spec: RequestSpec) -> Floats:
        if not self._is_plain(spec):
            return np.zeros(len(hosts))
        special = hosts.by_shared_facts(lambda facts: self._is_special(facts.capabilities))
        return np.where(special, self.cost, 0.0)

    def _is_plain(self, spec: RequestSpec) -> bool:
        names = (self._capability, f"capabilities:{self._capability}")
        return not any(name in spec.flavor.extra_specs for name in names)

    def _is_special(self, capabilities: Mapping[str, object]) -> bool:
        value = capabilities.get(self._capability)
        return value.lower() not in ("", "0", "false", "no") if isinstance(value, str) else bool(value)


class FunctionCost(BaseHostCost):
    """Cost computed by a plain function of (host_state, spec)."""

    def __init__(self, function: Callable[[HostState, RequestSpec], float]) -> None:
        self._function = function

    def host_cost(self, host_state: HostState, spec: RequestSpec) -> float:
        return self._function(host_state, spec)


BUILT_IN: Mapping[str, type[BaseHostCost]] = {
    "noop_cost": NoopCost,
    "fill_first_cost": FillFirstCost,
    "spread_first_cost": SpreadFirstCost,
    "owner_on_host_cost": OwnerOnHostCost,
    "plain_on_special_cost": PlainOnSpecialCost,
}


@dataclass(frozen=True)
class HostCosts:
    """The cost functions of this zone's own requests, and all cost functions that a parent may name."""

    configured: tuple[CostFunction, ...]
    known: Mapping[str, BaseHostCost]

    @classmethod
    def from_conf(cls, conf: Conf) -> HostCosts:
        """Raise ConfigError, which names the unknown cost function and the known ones."""
        configured = tuple(CostFunction(*pair) for pair in read_ratios(conf[OPTION]).items())
        own = {f.name: _load(f.name, conf) for f in configured if f.name not in BUILT_IN}
        built_in = {name: cost.from_conf(conf) for name, cost in BUILT_IN.items()}
        return cls(configured, built_in | own)

    def named(self, name: str) -> BaseHostCost:
        """Return the cost function of that name. Raise WeighingUnknown if there is none."""
        if name not in self.known:
            raise WeighingUnknown(f"There is no cost function {name!r} here.")
        return self.known[name]


def _load(path: str, conf: Conf) -> BaseHostCost:
    loaded = load_dotted(OPTION, path, BUILT_IN)
    if isinstance(loaded, type) and issubclass(loaded, BaseHostCost):
        return created(OPTION, path, lambda: loaded.from_conf(conf))
    if callable(loaded) and not isinstance(loaded, type):
        check_answers(OPTION, path, loaded)
        return FunctionCost(loaded)
    raise ConfigError(f"Option {OPTION}: {path} is neither a BaseHostCost nor a function.", field=OPTION)
