"""Everything a zone's configuration names: filters, weighers and cost functions, made once at start."""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.conf import Conf
from zonesched.filters.registry import HostFilters
from zonesched.scheduler.host_costs import HostCosts
from zonesched.weights.registry import HostWeighers


@dataclass(frozen=True)
class Plugins:
    """What the schedulers of one zone share."""

    filters: HostFilters
    weighers: HostWeighers
    costs: HostCosts

    @classmethod
    def from_conf(cls, conf: Conf) -> Plugins:
        """Raises ConfigError that names the option, the unknown name and the known ones."""
        return cls(HostFilters.from_conf(conf), HostWeighers.from_conf(conf), HostCosts.from_conf(conf))
