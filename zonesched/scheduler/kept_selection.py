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

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from zonesched.filters.contract import BaseHostFilter
from zonesched.filters.registry import BUILT_IN as BUILT_IN_FILTERS
from zonesched.model.arrays import Ints
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
from zonesched.scheduler.scale import choose_scale, has_extent, to_weight
from zonesched.scheduler.score import Raw, checked_raw, raw_of_some, raw_values, scores, weigh
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
        self._raw: dict[str, Raw] = {}
        self._weighing = ScoreWeighing(())
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
            self._raw[name] = replace(raw, values=raw.values.copy(), read_of=self._hosts.read_of)
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
        if len(changed) and not (hosts.have_rows(*changed.tolist()) and self._pass(rows)):
            return None
        self._read(hosts, rows, changed)
        weighing = given or self._scale()
        is_weighed = weighing == self._weighing and wanted <= self._wanted and self._reweigh(rows, changed)
        self._mark = log.mark
        if not is_weighed:
            return self._weigh_all(hosts, weighing, wanted)
        return Weighed(hosts.pick(self._near), self._weights, weighing)

    def name_raw_values(self, hosts: HostView) -> None:
        """Put the raw values of some of the hosts into the cache of their view."""
        for name, raw in self._raw.items():
            hosts.cache[name] = raw_of_some(raw, hosts)

    def _pass(self, rows: HostView) -> bool:
        if not have_free_slots(rows, 1).all():
            return False
        return all(bool(answers_of(one, rows, rows.spec).all()) for one in self._asked_again)

    def _read(self, hosts: HostView, rows: HostView, changed: Ints) -> None:
        """Bring the raw values up to date, and put them into the views' caches."""
        for name, before in self._raw.items():
            found = Raw(before.values, before.range, hosts.read_of)
            if len(changed):
                values = weigh(name, self._weighers.named(name), rows, rows.spec)
                if (found.values[changed] != values).any():
                    found.values[changed] = values
                    found = checked_raw(name, found.values, hosts)
                rows.cache[name] = Raw(values, found.range, rows)
            self._raw[name] = hosts.cache[name] = found

    def _scale(self) -> ScoreWeighing:
        """Return the scale of the kept hosts."""
        return ScoreWeighing(
            tuple(choose_scale(name, self._weighers, raw.range) for name, raw in self._raw.items())
        )

    def _reweigh(self, rows: HostView, changed: Ints) -> bool:
        """Weigh the changed hosts; False if a host that is not among the weighed may be among the best."""
        if len(changed):
            weights = to_weight(scores(self._weighers, self._weighing, rows, rows.spec))
            at = np.searchsorted(self._near, changed)
            at[at == len(self._near)] = 0
            is_near = self._near[at] == changed
            self._weights[at[is_near]] = weights[is_near]
            if (weights[~is_near] <= self._limit).any():
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
