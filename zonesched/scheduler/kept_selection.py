"""A selection that is kept for later requests with the same demands, and brought up to date for each.

Between two requests for one flavor few hosts change: those that the first one takes. So the hosts that passed
the filters, the weighers' raw values and the weights stay with the table, and only changed hosts are asked
about again.

    first request    all hosts -> funnel -> raw values -> scale -> shortlist -> weights
    later request    changed hosts -> filters -> raw values -> scale -> as before? -> weights

The result equals that of a selection from all hosts, to the bit. Where that is not certain, the selection
starts anew: if a changed host passes the filters that did not before, or no longer does; if facts of hosts
have changed; if a filter or a weigher is not built in, and might read anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from zonesched.filters.contract import BaseHostFilter
from zonesched.filters.registry import BUILT_IN as BUILT_IN_FILTERS
from zonesched.model.arrays import Bools, Floats, Ints
from zonesched.model.build_plan import FunnelStep
from zonesched.model.host_table import HostTable
from zonesched.model.host_view import HostView
from zonesched.model.request_context import NO_MOVE, RequestContext
from zonesched.model.request_spec import NoGroup, Policy, RequestSpec, ScoreWeighing, Unweighed
from zonesched.model.work_deadline import NO_DEADLINE
from zonesched.scheduler.best import smallest
from zonesched.scheduler.free_slots import have_free_slots
from zonesched.scheduler.funnel import Survivors, answers_of
from zonesched.scheduler.offer import OfferRequest
from zonesched.scheduler.scale import Range, choose_scale, has_extent, to_weight
from zonesched.scheduler.score import Raw, range_and_ends, raw_values, scores, scores_of_raw, weigh
from zonesched.scheduler.selection import asked_again
from zonesched.scheduler.shortlist import shortlist
from zonesched.weights.contract import BaseHostWeigher
from zonesched.weights.registry import BUILT_IN as BUILT_IN_WEIGHERS
from zonesched.weights.registry import HostWeighers

MAX_KEPT = 2
"""Selections that a table keeps: each has a number per host and weigher."""

_NO_LIMIT = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Weighed:
    """Hosts that include the best ones for a request, with their weights, and the request's weighing."""

    hosts: HostView
    weights: Ints
    weighing: ScoreWeighing


class _RawValues:
    """Raw values of a weigher, one per row, and their range over some hosts.

    While the hosts that have the ends of the range keep their values, other hosts cannot narrow it.
    """

    __slots__ = ("_ends", "_name", "range", "values")

    def __init__(self, name: str, values: Floats, hosts: HostView) -> None:
        """`values`: one per host of `hosts.read_of`, which this keeps. Raise WeigherFailed."""
        self._name = name
        self.values = values
        self.range: Range
        self._ends: tuple[int, int]
        self._look_through(hosts)

    def update(self, rows: Sequence[int], changed: Ints, values: Floats, hosts: HostView) -> bool:
        """Write new values of the changed rows, which are hosts; tell whether the range is another one now.

        `rows` is `changed` as a list. Raise WeigherFailed.
        """
        now = values.tolist()
        if now == self.values[changed].tolist():
            return False
        self.values[changed] = values
        before = self.range
        low, high = before.low, before.high
        lowest, highest = self._ends
        # A NaN is not within the range either.
        if lowest in rows or highest in rows or not all(low <= value <= high for value in now):
            self._look_through(hosts)
        return self.range != before

    def of(self, hosts: HostView) -> Raw:
        """Return the raw values of all hosts of a request."""
        return Raw(self.values, self.range, hosts.read_of)

    def of_some(self, hosts: HostView) -> Raw:
        """Return the raw values of some of the hosts."""
        return Raw(self.values[hosts.rows], self.range, hosts)

    def _look_through(self, hosts: HostView) -> None:
        self.range, self._ends = range_and_ends(self._name, self.values, hosts, hosts.read_of)


def may_be_kept(request: OfferRequest) -> bool:
    """Tell whether the result depends on nothing but the hosts and on demands that other requests share."""
    spec, context = request.spec, request.context
    is_plain = spec.policy is Policy.EACH and isinstance(spec.group, NoGroup) and not spec.hints
    is_new = not (context.tried_hosts or context.group) and context.moves == NO_MOVE
    return is_plain and is_new and isinstance(spec.weighing, Unweighed | ScoreWeighing)


def are_built_in(filters: Sequence[BaseHostFilter], weighers: Iterable[BaseHostWeigher]) -> bool:
    """Tell whether these filters and weighers read nothing but a host and the demands."""
    return have_built_in(filters) and all(type(one) in _WEIGHERS and one.vectorised for one in weighers)


def have_built_in(filters: Sequence[BaseHostFilter]) -> bool:
    """Tell whether all of these filters are built in."""
    return all(type(one) in _FILTERS for one in filters)


_FILTERS = frozenset(BUILT_IN_FILTERS.values())
_WEIGHERS = frozenset(BUILT_IN_WEIGHERS.values())


class KeptSelection:
    """Survivors of a request's funnel, their raw values, and the weights of those that may be the best.

    The scale is the one over these hosts, or the one that each request brings along.
    `steps`: of the funnel, which every changed host has passed before and after. `again`: the filters that
    are applied again to picked hosts.
    """

    def __init__(
        self,
        request: OfferRequest,
        survivors: Survivors,
        filters: Sequence[BaseHostFilter],
        weighers: HostWeighers,
    ) -> None:
        self.again = asked_again(filters, request.spec)
        self.steps: tuple[FunnelStep, ...] = survivors.steps
        self._asked_again = tuple(f for f in filters if not (f.shared_facts_only or f.implied_by_free_slots))
        self._weighers = weighers
        self._of = (request.spec, request.context)
        # Without what the first request's view has cached.
        self._hosts = survivors.hosts.of_request(request.spec, request.context, NO_DEADLINE)
        self._raw: dict[str, _RawValues] = {}
        self._weighing = ScoreWeighing(())
        # The scale of the kept hosts; None if a range has changed since.
        self._own: ScoreWeighing | None = None
        # Rows of the weighed hosts, in order; every other host weighs more than `_limit`.
        self._near: Ints = np.zeros(0, dtype=np.int64)
        self._weights: Ints = np.zeros(0, dtype=np.int64)
        self._wanted = 0
        self._limit = 0
        self._mark = request.table.changes.mark

    def is_for(self, request: OfferRequest, weighers: HostWeighers) -> bool:
        """Tell whether a request that may be kept has the demands of this selection.

        `weighers`: those of the scheduler that is asked; one with other options may share the table.
        """
        spec, context = self._of
        return self._weighers is weighers and _demands(spec, context) == _demands(
            request.spec, request.context
        )

    def weigh_anew(self, hosts: HostView, weighing: ScoreWeighing, wanted: int) -> Weighed:
        """Weigh the survivors of the first request, whose raw values `hosts` has in its cache."""
        for name in _weighers_of(weighing, is_given=_given(hosts.spec) is not None):
            raw = raw_values(name, self._weighers.named(name), hosts, hosts.spec)
            # A copy: most are columns of the table, of which the next request has to see the changes.
            self._raw[name] = _RawValues(name, raw.values.copy(), hosts)
        return self._weigh_all(hosts, weighing, wanted)

    def weigh_again(self, request: OfferRequest, wanted: int) -> Weighed | None:
        """Weigh the hosts for a later request; None if that needs more than is kept."""
        log = request.table.changes
        changed = log.rows_since(self._mark)
        given = _given(request.spec)
        has_raw = given is None or self._raw.keys() >= _weighers_of(given, is_given=True)
        if changed is None or not has_raw:
            return None
        hosts = self._hosts.of_request(request.spec, request.context, request.deadline)
        rows = hosts.pick(changed)
        raw: Mapping[str, Floats] = {}
        if len(changed):
            if not (hosts.have_rows(*changed.tolist()) and self._pass(rows)):
                return None
            raw = self._read(hosts, rows, changed)
        weighing = given or self._scale()
        is_weighed = (
            weighing == self._weighing and wanted <= self._wanted and self._reweigh(rows, changed, raw)
        )
        self._mark = log.mark
        if not is_weighed:
            hosts.cache.update({name: of_all.of(hosts) for name, of_all in self._raw.items()})
            return self._weigh_all(hosts, weighing, wanted)
        return Weighed(hosts.pick(self._near), self._weights, weighing)

    def name_raw_values(self, hosts: HostView) -> None:
        """Put the raw values of some of the hosts into the cache of their view."""
        for name, raw in self._raw.items():
            hosts.cache[name] = raw.of_some(hosts)

    def _pass(self, rows: HostView) -> bool:
        return _are_all(have_free_slots(rows, 1)) and all(
            _are_all(answers_of(one, rows, rows.spec)) for one in self._asked_again
        )

    def _read(self, hosts: HostView, rows: HostView, changed: Ints) -> Mapping[str, Floats]:
        """Bring the raw values up to date; return those of the changed hosts by weigher."""
        numbers = changed.tolist()
        found = {}
        for name, raw in self._raw.items():
            values = found[name] = weigh(name, self._weighers.named(name), rows, rows.spec)
            if raw.update(numbers, changed, values, hosts):
                self._own = None
        return found

    def _scale(self) -> ScoreWeighing:
        """Return the scale of the kept hosts."""
        if self._own is None:
            self._own = ScoreWeighing(
                tuple(choose_scale(name, self._weighers, raw.range) for name, raw in self._raw.items())
            )
        return self._own

    def _reweigh(self, rows: HostView, changed: Ints, raw: Mapping[str, Floats]) -> bool:
        """Weigh the changed hosts; False if a host that is not among the weighed may be among the best."""
        if len(changed):
            weights = to_weight(scores_of_raw(self._weighers, self._weighing, rows, raw))
            at = self._near.searchsorted(changed)
            at[at == len(self._near)] = 0
            is_near = self._near[at] == changed
            self._weights[at[is_near]] = weights[is_near]
            if np.count_nonzero(weights[~is_near] <= self._limit):
                return False
        return bool(np.count_nonzero(self._weights <= self._limit) >= self._wanted)

    def _weigh_all(self, hosts: HostView, weighing: ScoreWeighing, wanted: int) -> Weighed:
        listed = shortlist(self._weighers, weighing, hosts, hosts.spec, wanted)
        self._weights = to_weight(scores(self._weighers, weighing, listed, hosts.spec))
        self._near, self._weighing, self._wanted = listed.row_numbers, weighing, wanted
        # A shortlist has the `wanted` best, and all that weigh as much as the last of these.
        self._limit = _NO_LIMIT if listed is hosts else int(smallest(self._weights, wanted))
        return Weighed(listed, self._weights, weighing)


class Shelf:
    """The kept selections of a table, the one used last first."""

    def __init__(self) -> None:
        self._kept: list[KeptSelection] = []

    def take(self, request: OfferRequest, weighers: HostWeighers) -> KeptSelection | None:
        """Take the selection for such a request off the shelf, if there is one."""
        for number, kept in enumerate(self._kept):
            if kept.is_for(request, weighers):
                return self._kept.pop(number)
        return None

    def put(self, kept: KeptSelection) -> None:
        """Keep a selection; the one that was not used for longest makes room."""
        self._kept = [kept, *self._kept[: MAX_KEPT - 1]]


def kept_in(table: HostTable) -> Shelf:
    """Return the selections that are kept with a table."""
    shelf = table.kept.setdefault(__name__, Shelf())
    assert isinstance(shelf, Shelf)
    return shelf


def is_reusable(survivors: Survivors) -> bool:
    """Tell whether there are survivors, and so many of all hosts that columns are read as a whole."""
    return survivors.complete and len(survivors.hosts) > 0 and survivors.hosts.read_of.is_whole


def _are_all(answers: Bools) -> bool:
    """Tell whether all are true; `all` of NumPy takes several times longer for a few."""
    return bool(np.count_nonzero(answers) == len(answers))


def _given(spec: RequestSpec) -> ScoreWeighing | None:
    """Return the scale that a request brings along; None for the scale of the hosts that pass its filters."""
    return spec.weighing if isinstance(spec.weighing, ScoreWeighing) else None


def _weighers_of(weighing: ScoreWeighing, *, is_given: bool) -> Set[str]:
    """Return the names of the weighers whose raw values are read, in the order of the scale."""
    return dict.fromkeys(
        scale.weigher for scale in weighing.scales if not is_given or has_extent(scale)
    ).keys()


def _demands(spec: RequestSpec, context: RequestContext) -> tuple[object, ...]:
    """Return what a request that may be kept asks of a host; ties between hosts are another matter."""
    return (
        _given(spec) is None,
        spec.project_id,
        spec.flavor,
        spec.image,
        spec.availability_zone,
        spec.filters,
        spec.filter_query,
        spec.enabled,
        spec.path,
        context.owner,
        context.caller,
        context.same_hosts,
        context.different_hosts,
        context.group_place,
    )
