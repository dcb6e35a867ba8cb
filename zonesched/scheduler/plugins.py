"""Plugins and settings of a zone's schedulers, made once at start from its configuration."""

from __future__ import annotations

from dataclasses import dataclass, replace

from zonesched.conf import Conf
from zonesched.filters.registry import HostFilters
from zonesched.scheduler.aggregate_limits import NO_LIMITS, AggregateLimits
from zonesched.scheduler.choice import Choice
from zonesched.scheduler.host_costs import HostCosts
from zonesched.weights.registry import HostWeighers


@dataclass(frozen=True)
class Plugins:
    """Shared plugins and settings of the schedulers of one zone."""

    filters: HostFilters
    weighers: HostWeighers
    costs: HostCosts
    choice: Choice
    host_refresh_interval_s: float
    limits: AggregateLimits = NO_LIMITS

    @classmethod
    def from_conf(cls, conf: Conf) -> Plugins:
        """Raise ConfigError, which names the option, the unknown name and the known ones."""
        return cls(
            filters=HostFilters.from_conf(conf),
            weighers=HostWeighers.from_conf(conf),
            costs=HostCosts.from_conf(conf),
            choice=Choice(conf.host_subset_size, conf.shuffle_best_same_weighed_hosts),
            host_refresh_interval_s=conf.host_refresh_interval,
            limits=AggregateLimits.from_conf(conf),
        )

    @classmethod
    def of_all_hosts(cls, conf: Conf) -> Plugins:
        """Variant of `from_conf` for schedulers that get every host, also those no database would find."""
        plugins = cls.from_conf(conf)
        if conf.host_source != "sql":
            return plugins
        return replace(plugins, filters=plugins.filters.with_those_of_database(conf))
