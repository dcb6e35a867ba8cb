"""The funnel from all hosts of a zone to the hosts of a request: one step per reason, with host counts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import numpy as np

from zonesched.errors import ZoneschedError
from zonesched.filters.contract import BaseHostFilter, FilterFailed
from zonesched.filters.retry_filter import RetryFilter
from zonesched.model.arrays import Bools
from zonesched.model.build_plan import FunnelStep
from zonesched.model.decision_trace import HostAnswer
from zonesched.model.host_state import HostState
from zonesched.model.host_table import HostTable
from zonesched.model.host_view import DENSE, HostView
from zonesched.model.own_zone import FORCE_HINTS, IGNORE_HINT, REQUESTED_HINT, named_hosts
from zonesched.model.place import ChildPlace, LocalPlace
from zonesched.model.request_spec import Policy, RequestSpec
from zonesched.model.work_deadline import OutOfTime
from zonesched.plugin import ANY_ERROR
from zonesched.scheduler.aggregate_limits import NO_LIMITS, AggregateLimits
from zonesched.scheduler.free_slots import have_free_slots
from zonesched.scheduler.offer import OfferRequest

log = logging.getLogger(__name__)

TIME_BUDGET = "time_budget"
"""Name of the step that left out all hosts because the deadline passed before the first filter."""

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Survivors:
    """The hosts that a request may go to, and the funnel's steps; no hosts if the deadline passed first."""

    hosts: HostView
    steps: tuple[FunnelStep, ...]
    complete: bool = True


def run_funnel(
    request: OfferRequest, filters: Sequence[BaseHostFilter], limits: AggregateLimits = NO_LIMITS
) -> Survivors:
    """Reduce the hosts by zone capabilities, aggregate limits, hints, `filters` in order, and free slots.

    Hosts that refused the request before are left out even if RetryFilter is not enabled. For an affinity
    request a host needs free slots for all its instances. Raise FilterFailed.
    """
    funnel = _Funnel(HostView.whole(request.table, request.spec, request.context, request.deadline))
    try:
        _ask_all(funnel, request, filters, limits)
    except OutOfTime:
        funnel.give_up()
        return Survivors(funnel.whole.survivors(funnel.remaining), tuple(funnel.steps), complete=False)
    return Survivors(funnel.whole.survivors(funnel.remaining), tuple(funnel.steps))


def answers_for(
    request: OfferRequest, filters: Sequence[BaseHostFilter], limits: AggregateLimits, row: int
) -> tuple[HostAnswer, ...]:
    """Judge one host by every step of the funnel, independently of the other steps. Raise FilterFailed."""
    one = _OneHost(HostView.whole(request.table, request.spec, request.context), row)
    _ask_all(one, request, filters, limits)
    return tuple(one.given)


def _ask_all(
    funnel: _Funnel, request: OfferRequest, filters: Sequence[BaseHostFilter], limits: AggregateLimits
) -> None:
    spec, table = request.spec, request.table
    if spec.zone_capabilities:
        offered = request.zone_capabilities
        met = all(value in offered.get(key, ()) for key, value in spec.zone_capabilities.items())
        funnel.narrow("zone_capabilities", "zone_capability", np.full(table.size, met))
    for limit in limits.for_request(table, spec):
        funnel.narrow(limit.name, limit.code, funnel.whole.by_shared_facts(limit.lets_in))
    if IGNORE_HINT in spec.hints:
        funnel.narrow(IGNORE_HINT, "host_ignored", ~_named(table, spec, IGNORE_HINT))
    for hint in FORCE_HINTS:
        if hint in spec.hints:
            funnel.narrow(hint, "host_not_forced", _named(table, spec, hint))
    if REQUESTED_HINT in spec.hints:
        requested = funnel.whole.named(named_hosts(spec.hints, REQUESTED_HINT))
        funnel.narrow(REQUESTED_HINT, "host_not_requested", requested)
    moves = request.context.moves
    if moves.host_id:
        funnel.narrow("move", "present_host", ~funnel.whole.among(frozenset({moves.host_id})))
    if moves.asked_host:
        funnel.narrow("move", "host_not_asked", funnel.whole.named(frozenset({moves.asked_host})))
    match request.context.group_place:
        case LocalPlace(host_id):
            funnel.narrow("server_group", "group_elsewhere", funnel.whole.among(frozenset({host_id})))
        case ChildPlace():
            funnel.narrow("server_group", "group_elsewhere", np.zeros(table.size, dtype=np.bool_))
    for host_filter in _in_order(request, filters):
        funnel.narrow(host_filter.name, host_filter.code, funnel.answers(host_filter, spec))
    needed = spec.num_instances if spec.policy is Policy.AFFINITY else 1
    funnel.narrow("free_slots", "no_free_slots", have_free_slots(funnel.whole, needed))


def _named(table: HostTable, spec: RequestSpec, hint: str) -> Bools:
    """Tell for each row whether the hint names its host, in any case, as in OpenStack Nova."""
    names = {name.lower() for name in named_hosts(spec.hints, hint)}
    rows = [row for row in np.flatnonzero(table.alive).tolist() if table.name(row).lower() in names]
    named = np.zeros(table.size, dtype=np.bool_)
    named[rows] = True
    return named


def _in_order(request: OfferRequest, filters: Sequence[BaseHostFilter]) -> Sequence[BaseHostFilter]:
    if not request.context.tried_hosts:
        return filters
    # A subclass may refuse more hosts.
    return [RetryFilter(), *(f for f in filters if type(f) is not RetryFilter)]


def _asked(host_filter: BaseHostFilter, question: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
    try:
        return question(*given, **named)
    except ZoneschedError:
        raise
    except ANY_ERROR as error:
        log.exception("host filter %s failed", host_filter.name)
        raise FilterFailed(host_filter.name) from error


def check_filter(host_filter: BaseHostFilter, spec: RequestSpec) -> None:
    """Let a filter check the request: raise BadRequest for values that the filter cannot read.

    Raise FilterFailed, and log the traceback, if the filter fails.
    """
    _asked(host_filter, host_filter.check, spec)


def changes_of(host_filter: BaseHostFilter, spec: RequestSpec) -> bool:
    """Tell whether the filter is applied again to picked hosts. Raise FilterFailed as `answers_of` does."""
    return _asked(host_filter, lambda: bool(host_filter.changes_with_picks(spec)))


def passes_of(host_filter: BaseHostFilter, state: HostState, spec: RequestSpec) -> bool:
    """Variant of `answers_of` for one host."""
    return _asked(host_filter, lambda: bool(host_filter.host_passes(state, spec)))


def answers_of(host_filter: BaseHostFilter, hosts: HostView, spec: RequestSpec) -> Bools:
    """Apply a filter to each host. Raise FilterFailed, and log the traceback, if the filter fails.

    Raise OutOfTime if the deadline passes before or during the filter.
    """
    hosts.deadline.check()
    answers = _asked(host_filter, lambda: np.asarray(host_filter.passes(hosts, spec)))
    if answers.shape != (len(hosts),) or answers.dtype != np.bool_:
        log.error("host filter %s gave no truth value per host", host_filter.name)
        raise FilterFailed(host_filter.name)
    return answers


class _Funnel:
    def __init__(self, whole: HostView) -> None:
        self.whole = whole
        self.remaining: Bools = whole.alive.copy()
        self.steps: list[FunnelStep] = []
        self._count = int(np.count_nonzero(self.remaining))
        self._asking = TIME_BUDGET

    def answers(self, host_filter: BaseHostFilter, spec: RequestSpec) -> Bools:
        """Return an answer per row of the table; only the answers for remaining hosts are valid."""
        if self._count == 0:
            return self.remaining
        self._asking = host_filter.name
        if host_filter.vectorised and self._count >= DENSE * len(self.whole):
            return answers_of(host_filter, self.whole, spec)
        answers = np.zeros(len(self.whole), dtype=np.bool_)
        rows = np.flatnonzero(self.remaining)
        answers[rows] = answers_of(host_filter, self.whole.pick(rows), spec)
        return answers

    def narrow(self, name: str, code: str, allowed: Bools) -> None:
        before = self._count
        if allowed is not self.whole.everyone:
            self.remaining &= allowed
            self._count = int(np.count_nonzero(self.remaining))
        self.steps.append(FunnelStep(name, code, before, self._count))

    def give_up(self) -> None:
        """Leave out all hosts in a step named after the filter that the deadline interrupted."""
        self.narrow(self._asking, OutOfTime.code, np.zeros(len(self.whole), dtype=np.bool_))


class _OneHost(_Funnel):
    """A funnel of one host that records the answer of every step and never drops the host."""

    def __init__(self, whole: HostView, row: int) -> None:
        super().__init__(whole)
        self.remaining[:] = False
        self.remaining[row] = True
        self._count = 1
        self._row = row
        self.given: list[HostAnswer] = []

    def narrow(self, name: str, code: str, allowed: Bools) -> None:
        self.given.append(HostAnswer(name, code, bool(allowed[self._row])))
