"""Filters that read only facts that many hosts share; one question answers for one host and for many."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.host_row import SharedFacts
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec

Question = Callable[[SharedFacts], bool]


def any_host(facts: SharedFacts) -> bool:
    """Answer True for every host: the question of a request without demands."""
    return True


class SharedFactsFilter(BaseHostFilter, ABC):
    """A filter that makes one question of the request, and asks it once per distinct facts."""

    shared_facts_only = True

    @abstractmethod
    def question(self, spec: RequestSpec) -> Question:
        """Return the question to ask of each host, or `any_host`. Raise BadRequest for a wrong request."""

    def check(self, spec: RequestSpec) -> None:
        self._asked(spec)

    def host_passes(self, host_state: HostState, spec: RequestSpec) -> bool:
        return self._asked(spec)(host_state.shared_facts)

    def passes(self, hosts: HostView, spec: RequestSpec) -> Bools:
        question = self._asked(spec)
        if question is any_host:
            return hosts.everyone
        return hosts.by_shared_facts(question)

    def _asked(self, spec: RequestSpec) -> Question:
        if self not in spec.readings:
            spec.readings[self] = self.question(spec)
        question: Question = spec.readings[self]
        return question
