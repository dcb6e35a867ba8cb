"""Filters that read nothing of a host but what many hosts have in common, in one form for both."""

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
    """The question of a request that asks nothing."""
    return True


class SharedFactsFilter(BaseHostFilter, ABC):
    """Makes one question of the request, and asks it once for all hosts that share their facts."""

    shared_facts_only = True

    @abstractmethod
    def question(self, spec: RequestSpec) -> Question:
        """What the request asks of a host; `any_host` if nothing. Raises BadRequest if it cannot be read."""

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
