"""Hosts without a table in memory: each request reads the hosts that the database finds for it.

It chooses the same hosts as HostCache while the filters with the same demands are enabled.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from zonesched.errors import NotReady
from zonesched.filters.availability_zone_filter import AvailabilityZoneFilter
from zonesched.filters.core_filter import CoreFilter
from zonesched.filters.disk_filter import DiskFilter
from zonesched.filters.ram_filter import RamFilter
from zonesched.filters.registry import HostFilters
from zonesched.filters.resource_class_filter import ResourceClassFilter
from zonesched.filters.traits_filter import TraitsFilter
from zonesched.model.aggregate import Aggregate
from zonesched.model.build_plan import FunnelStep
from zonesched.model.host_row import HostFacts, HostRow, SharedFacts
from zonesched.model.host_table import HostTable
from zonesched.model.local_hosts import FoundHosts
from zonesched.model.new_instances import OwnClaims
from zonesched.model.own_zone import AsConfigured, is_forced
from zonesched.model.request_spec import RequestSpec, TraitQuery
from zonesched.scheduler.aggregate_limits import Limit
from zonesched.scheduler.plugins import Plugins
from zonesched.scheduler.replay import table_of
from zonesched.services.state.listening import Listening
from zonesched.store import host_search, hosts, services
from zonesched.store.host_search import Among, Demands
from zonesched.store.store import Store, Transaction

log = logging.getLogger(__name__)

REPEATING = (AvailabilityZoneFilter, CoreFilter, DiskFilter, RamFilter, ResourceClassFilter, TraitsFilter)
"""Filters whose demands the database query already enforces."""

RETRY_AFTER_S = 10


class SqlHosts:
    """Source of hosts like HostCache, without rows in memory between requests."""

    def __init__(self, store: Store, listening: Listening, plugins: Plugins) -> None:
        self._store = store
        self._listening = listening
        self._plugins = plugins
        if repeated := repeated_by(plugins.filters):
            log.warning(
                "host_source is sql: the database applies %s itself; remove them from enabled_filters",
                ", ".join(repeated),
            )

    def expire(self) -> None:
        """Do nothing: there are no rows in memory to expire."""

    def note_claims(self, claims: OwnClaims) -> None:
        """Do nothing: each request reads the hosts anew."""

    def read_again(self) -> None:
        """Do nothing: there are no rows in memory to refresh."""

    def check_ready(self) -> None:
        """Check that any agent has reported a host's inventory. Raises NotReady."""
        if not self._store.read(host_search.any_reported):
            raise NotReady("No agent of this zone has reported its hosts yet.", RETRY_AFTER_S)

    @contextmanager
    def current(self) -> Iterator[HostTable]:
        """Lend all hosts, read for this block; meant for rare calls."""
        rows, up = self.snapshot()
        yield table_of(rows, up)

    @contextmanager
    def for_request(self, spec: RequestSpec) -> Iterator[FoundHosts]:
        """Read the hosts that meet the request's demands, and count the others."""
        yield self._store.read(lambda tx: self._find(tx, spec))

    def snapshot(self) -> tuple[tuple[HostRow, ...], Mapping[str, bool]]:
        """Read every host from the store, and the services that are up, by id."""
        return self._store.read(lambda tx: (tuple(hosts.every(tx)), self._services_up(tx)))

    def _find(self, tx: Transaction, spec: RequestSpec) -> FoundHosts:
        demands = self._demands(tx, spec)
        rows = host_search.find(tx, demands)
        if rows:
            step = FunnelStep("host_source", "not_found_by_database", hosts.count(tx), len(rows))
            return FoundHosts(table_of(rows, self._services_up(tx)), (step,))
        refused = host_search.why(tx, demands)
        steps = tuple(FunnelStep(one.name, one.code, one.before, one.after) for one in refused)
        return FoundHosts(HostTable(), steps)

    def _demands(self, tx: Transaction, spec: RequestSpec) -> Demands:
        enabled = {host_filter.name for host_filter in self._plugins.filters.for_request(spec)}
        # An operator leaves repeating filters out on purpose; an admin's choice of filters is meant exactly.
        always = isinstance(spec.enabled, AsConfigured) and not is_forced(spec.hints)
        by_traits = always or TraitsFilter.__name__ in enabled
        by_zone = always or AvailabilityZoneFilter.__name__ in enabled
        return Demands(
            resources=spec.resources,
            traits=spec.traits if by_traits else TraitQuery(),
            availability_zone=spec.availability_zone if by_zone else "",
            among=self._among(tx, spec),
        )

    def _among(self, tx: Transaction, spec: RequestSpec) -> tuple[Among, ...]:
        """Make the demands that follow from the limits of the zone's aggregates."""
        known = host_search.populated_aggregates(tx)
        facts = [HostRow(HostFacts(a.id, a.name, aggregates=(a,)), {}) for a in known]
        return tuple(
            _rule(limit, known) for limit in self._plugins.limits.for_request(table_of(facts, {}), spec)
        )

    def _services_up(self, tx: Transaction) -> Mapping[str, bool]:
        return {id: self._listening.hears(one) for id, one in services.read_all(tx).items()}


def repeated_by(filters: HostFilters) -> Sequence[str]:
    """List the enabled filters whose demands the database query enforces."""
    return [host_filter.name for host_filter in filters.default if isinstance(host_filter, REPEATING)]


def _rule(limit: Limit, known: Sequence[Aggregate]) -> Among:
    let_in = frozenset(a.id for a in known if limit.lets_in(SharedFacts(aggregates=(a,))))
    if limit.lets_in(SharedFacts()):
        return Among(limit.name, limit.code, none_of=frozenset(a.id for a in known) - let_in)
    return Among(limit.name, limit.code, any_of=let_in)
