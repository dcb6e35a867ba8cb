"""Only hosts that a request's own query admits."""

from __future__ import annotations

import numpy as np

from zonesched.filters.contract import BaseHostFilter
from zonesched.filters.json_query import Query, parse_query
from zonesched.model.arrays import Bools
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class JSONFilter(BaseHostFilter):
    """Passes hosts that the request's `filter_query` holds for; all, if there is none."""

    code = "query_not_met"

    def check(self, spec: RequestSpec) -> None:
        self._query(spec)

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        query = self._query(spec)
        return query is None or query.holds(host_state)

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        query = self._query(spec)
        if query is None:
            return np.ones(len(hosts), dtype=np.bool_)
        return query.hold(hosts)

    @staticmethod
    def _query(spec: RequestSpec) -> Query | None:
        return parse_query(spec.filter_query) if spec.filter_query else None
