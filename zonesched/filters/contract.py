"""The contract of a host filter, which decides for each host whether the request may go there.

A filter written for OpenStack Nova is ported by changing its import: one method, `host_passes`. The
vectorised form, `passes`, answers for many hosts at once and must agree with it.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from zonesched.conf import Conf
from zonesched.errors import Unavailable
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState, HostTuple
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class FilterFailed(Unavailable):
    """A filter raised, or its answer has the wrong form: the request is refused in that filter's name."""

    code = "filter_failed"

    def __init__(self, filter_name: str) -> None:
        super().__init__(f"The host filter {filter_name} failed.")
        self.filter_name = filter_name


class BaseHostFilter:
    """A filter; settings arrive in its constructor, by `from_conf`.

    `code` is the stable reason of the hosts it removes. `run_filter_once_per_request`: what is virtually
    consumed changes no answer. `shared_facts_only`: it reads nothing but availability zone, capabilities,
    traits and aggregates, so it is asked once for all hosts that share these. `implied_by_free_slots`: a
    host with a free slot for the request always passes. A filter with one of the three is not asked again
    about a host that was picked. `RUN_ON_REBUILD`, by OpenStack Nova's name: an instance that gets another
    image stays on its host only if the filter lets it in.
    """

    code = "refused_by_filter"
    run_filter_once_per_request = False
    shared_facts_only = False
    implied_by_free_slots = False
    RUN_ON_REBUILD = False

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        """Return the filter with this zone's settings."""
        return cls()

    @property
    def name(self) -> str:
        """The name of the filter in explanations and faults."""
        return type(self).__name__

    @property
    def vectorised(self) -> bool:
        """True if the filter answers for many hosts at once; it is then asked about any host of the table."""
        return type(self).passes is not BaseHostFilter.passes

    def check(self, spec: RequestSpec) -> None:
        """Raise BadRequest, naming the field, if the request has a value that this filter cannot read."""

    def changes_with_picks(self, spec: RequestSpec) -> bool:
        """Return True if the filter is asked again about a host that an instance was placed on."""
        return not (self.run_filter_once_per_request or self.shared_facts_only or self.implied_by_free_slots)

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        """Return True if the request may go to this host."""
        raise NotImplementedError(f"{self.name} has no host_passes")

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        """Return one answer per host of the view; the default asks `host_passes` about each."""
        if self.shared_facts_only:
            return hosts.by_representative(lambda state: bool(self.host_passes(state, spec)))
        answers = (bool(self.host_passes(state, spec)) for state in hosts.states())
        return np.fromiter(answers, dtype=np.bool_, count=len(hosts))


class AbstractHostFilter:
    """A filter in the form of the original document, with a query between host list and flavor.

    `instance_type` is an object with memory_mb, vcpus, local_gb, name, flavorid and extra_specs. A host tuple
    is (host name, mapping of capabilities and of free_ram_mb, free_disk_mb, vcpus_used and the like).
    """

    code = "refused_by_filter"

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        """Return the filter with this zone's settings."""
        return cls()

    def instance_type_to_filter(self, instance_type: Any) -> Any:
        """Return the query for a flavor."""
        raise NotImplementedError(f"{type(self).__name__} has no instance_type_to_filter")

    def filter_hosts(self, host_list: list[HostTuple], query: Any) -> list[HostTuple]:
        """Return the tuples of `host_list` whose host the query admits."""
        raise NotImplementedError(f"{type(self).__name__} has no filter_hosts")
