"""View of some hosts of a table for one request, in columns, for vectorised filters and weighers.

A view can have hosts on which instances of the request are already virtually placed; it may then have the
same host several times, with different numbers of instances. A view never writes to the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from zonesched.model.addresses import Network
from zonesched.model.aggregate import Aggregate
from zonesched.model.arrays import Bools, Floats, Hashes, Ints, RowSelection
from zonesched.model.dictionary_encoded import EncodedColumn
from zonesched.model.host_row import SharedFacts, flavor_key
from zonesched.model.host_state import HostState
from zonesched.model.host_table import HostTable
from zonesched.model.request_context import NOTHING_KNOWN, RequestContext
from zonesched.model.request_spec import RequestSpec
from zonesched.model.work_deadline import NO_DEADLINE, WorkDeadline

V = TypeVar("V")
C = TypeVar("C", Bools, Floats, Hashes)

DENSE = 0.25
"""Share of hosts from which reading all rows is faster than gathering some."""


@dataclass(frozen=True)
class _MostRows:
    """Remaining rows of a view of all rows; their numbers are computed only when needed."""

    whole: HostView
    remaining: Bools
    count: int


class HostView:
    """One element per host in each column. Columns are read-only, since they may be views of the table."""

    def __init__(
        self,
        table: HostTable,
        rows: RowSelection | _MostRows,
        spec: RequestSpec,
        context: RequestContext = NOTHING_KNOWN,
        copies: Ints | None = None,
        deadline: WorkDeadline = NO_DEADLINE,
    ) -> None:
        """`context`: the zone's facts about the request.

        `copies`: instances of `spec` that are virtually on each host; None means none on any host.

        `deadline`: time at which a loop over the hosts of this view ends with OutOfTime.
        """
        self.table = table
        self._which = rows
        self.spec = spec
        self.context = context
        self.copies = copies
        self.deadline = deadline
        self._cached: dict[tuple[str, str], Any] = {}
        # Values that readers of this view cache, by name.
        self.cache: dict[str, object] = {}

    @classmethod
    def whole(
        cls,
        table: HostTable,
        spec: RequestSpec,
        context: RequestContext = NOTHING_KNOWN,
        deadline: WorkDeadline = NO_DEADLINE,
    ) -> HostView:
        """Return a view of every row of the table, including free rows."""
        return cls(table, slice(0, table.size), spec, context, deadline=deadline)

    def of_request(self, spec: RequestSpec, context: RequestContext, deadline: WorkDeadline) -> HostView:
        """Return a view of the same hosts, without virtually placed instances, for another request."""
        rows = self._which
        if isinstance(rows, _MostRows):
            rows = replace(rows, whole=HostView.whole(self.table, spec, context, deadline))
        return HostView(self.table, rows, spec, context, deadline=deadline)

    def pick(self, rows: RowSelection, copies: Ints | None = None) -> HostView:
        """Return a view of other rows of the same table for the same request."""
        return HostView(self.table, rows, self.spec, self.context, copies, self.deadline)

    def survivors(self, remaining: Bools) -> HostView:
        """Select the hosts that `remaining` names from a view of all rows."""
        count = int(np.count_nonzero(remaining))
        if count == len(self):
            return self
        if count < DENSE * len(self):
            return self.pick(np.flatnonzero(remaining))
        rows = _MostRows(self, remaining, count)
        return HostView(self.table, rows, self.spec, self.context, deadline=self.deadline)

    @property
    def read_of(self) -> HostView:
        """View that columns are best read from: all rows, of which `rows` are then selected, or this one."""
        return self._which.whole if isinstance(self._which, _MostRows) else self

    @property
    def is_whole(self) -> bool:
        """Tell whether the view covers every row, unused ones included."""
        return isinstance(self._which, slice)

    def have_rows(self, *rows: np.intp | int) -> bool:
        """Tell whether all of these rows of `read_of` are hosts of this view."""
        if not isinstance(self._which, _MostRows):
            return True
        return all(self._which.remaining[row] for row in rows)

    def leave_out(self, column: Floats, value: float) -> None:
        """Set a column of `read_of` to `value` in the rows that are not hosts of this view."""
        if isinstance(self._which, _MostRows):
            column[np.flatnonzero(~self._which.remaining)] = value

    def __len__(self) -> int:
        match self._which:
            case slice(stop=stop):
                return int(stop)
            case _MostRows(count=count):
                return count
            case rows:
                return len(rows)

    @cached_property
    def rows(self) -> RowSelection:
        match self._which:
            case _MostRows(remaining=remaining):
                return np.flatnonzero(remaining)
            case rows:
                return rows

    @cached_property
    def row_numbers(self) -> Ints:
        if isinstance(self.rows, slice):
            return np.arange(self.rows.stop, dtype=np.int64)
        return self.rows

    def total(self, resource_class: str) -> Floats:
        return self._column(resource_class, "total")

    def reserved(self, resource_class: str) -> Floats:
        return self._column(resource_class, "reserved")

    def capacity(self, resource_class: str) -> Floats:
        return self._column(resource_class, "capacity")

    def min_unit(self, resource_class: str) -> Floats:
        return self._column(resource_class, "min_unit")

    def max_unit(self, resource_class: str) -> Floats:
        return self._column(resource_class, "max_unit")

    def step_size(self, resource_class: str) -> Floats:
        return self._column(resource_class, "step_size")

    def used(self, resource_class: str) -> Floats:
        """Units that claims and virtually placed instances take."""
        amount = self.spec.resources.get(resource_class, 0)
        columns = self.table.columns(resource_class)
        return self._keep("used", resource_class, lambda: self._add_copies(columns.used[self.rows], amount))

    def usable(self, resource_class: str) -> Floats:
        """total - reserved."""
        return self._keep(
            "usable", resource_class, lambda: self.total(resource_class) - self.reserved(resource_class)
        )

    def free(self, resource_class: str) -> Floats:
        """usable - used: without any allocation ratio; below 0 on an over-committed host."""
        return self._less_copies(resource_class, "free")

    def left(self, resource_class: str) -> Floats:
        """capacity - used: units that claims may still take; below 0 on a host that shrank."""
        return self._less_copies(resource_class, "left")

    def have_left(self, resource_class: str, amount: int) -> Bools:
        """Tell for each host whether `amount` of a class is free."""
        return self._keep(f"have {amount} left", resource_class, lambda: self.left(resource_class) >= amount)

    def admits(self, resource_class: str) -> Bools:
        """Tell for each host whether one instance may take the requested amount of a class, by its units."""
        amount = self.spec.resources.get(resource_class, 0)
        return self._keep("admits", resource_class, lambda: self._admits(resource_class, amount))

    @cached_property
    def everyone(self) -> Bools:
        """True for each host; a filter that returns this array itself costs no further work."""
        everyone = np.ones(len(self), dtype=np.bool_)
        everyone.flags.writeable = False
        return everyone

    def all_of(self, answers: Iterable[Bools]) -> Bools:
        """Tell for each host whether all of the answers are true."""
        found = self.everyone
        for answer in answers:
            if found is self.everyone:
                found = answer
            elif answer is not self.everyone:
                found = found & answer
        return found

    def _admits(self, resource_class: str, amount: int) -> Bools:
        columns = self.table.columns(resource_class)
        if columns.any_amount and columns.least_max_unit >= amount:
            return self.everyone
        admitted: Bools = self.max_unit(resource_class) >= amount
        if columns.any_amount:
            return admitted
        admitted &= self.min_unit(resource_class) <= amount
        steps = self.step_size(resource_class)
        stepped = np.flatnonzero(steps != 1.0)
        if len(stepped):
            admitted[stepped] &= np.mod(float(amount), steps[stepped]) == 0.0
        return admitted

    @property
    def alive(self) -> Bools:
        return self._of_rows(self.table.alive)

    @property
    def enabled(self) -> Bools:
        return self._of_rows(self.table.enabled)

    @property
    def up(self) -> Bools:
        return self._of_rows(self.table.up)

    @property
    def num_instances(self) -> Floats:
        return self._add_copies(self._of_rows(self.table.num_instances), 1)

    @property
    def owner_instances(self) -> Floats:
        """Living instances of the request's owner."""
        return self._add_copies(
            self._of_rows(self.table.owners.column(self.context.owner, self.table.size)), 1
        )

    @property
    def group_instances(self) -> Floats:
        """Living instances of the request's server group; 0 for a request without one."""
        if not self.context.group:
            return np.zeros(len(self))
        members, own = self.group_members, self.context.moves.group_member_on
        if own:
            members = members - self.among(frozenset({own}))
        return self._add_copies(members, 1)

    @property
    def group_members(self) -> Floats:
        """Variant of `group_instances` without virtually placed instances."""
        if not self.context.group:
            return np.zeros(len(self))
        return self._of_rows(self.table.groups.column(self.context.group, self.table.size))

    @property
    def group_is_here(self) -> bool:
        """Tell whether any host of this zone has a living instance of the request's server group."""
        return self.table.groups.has(self.context.group)

    @property
    def flavor_instances(self) -> Floats:
        """Living instances of the request's flavor that the request's caller has placed."""
        key = flavor_key(self.context.caller, self.spec.flavor.id)
        return self._add_copies(self._of_rows(self.table.flavors.column(key, self.table.size)), 1)

    @property
    def num_io_ops(self) -> Floats:
        """Instances that are being built."""
        return self._add_copies(self._of_rows(self.table.num_building), 1)

    @property
    def failed_builds(self) -> Floats:
        return self._of_rows(self.table.failed_builds)

    @property
    def hypervisor_versions(self) -> Floats:
        """Hypervisor version of each host as a number; 0 if its agent reports none."""
        return self._of_rows(self.table.hypervisor_versions)

    def image_score(self, scores: Mapping[str, float]) -> Floats:
        """Return for each host the sum of its living instances' scores; `scores` is by image key."""
        counted = self.table.images.weighed(scores, self.table.size)[self.rows]
        return self._add_copies(counted, scores.get(self.spec.image_key, 0.0))

    def metric(self, name: str) -> Floats:
        """Return the values of one metric; NaN if a host does not report it."""
        return self._of_rows(self.table.metric(name))

    def among(self, host_ids: frozenset[str]) -> Bools:
        """Tell for each host whether its id is among `host_ids`."""
        named = np.zeros(self.table.size, dtype=np.bool_)
        named[self.table.rows_of(host_ids)] = True
        return named[self.rows]

    def named(self, names: Iterable[str]) -> Bools:
        """Tell for each host whether it has one of these names."""
        named = np.zeros(self.table.size, dtype=np.bool_)
        named[self.table.rows_named(names)] = True
        return named[self.rows]

    def inside(self, network: Network) -> Bools:
        """Tell for each host whether its address is in this network."""
        return self.table.addresses.inside(self.rows, network)

    def by_availability_zone(self, question: Callable[[str], bool]) -> Bools:
        return self._asked(self.table.availability_zones, question)

    def by_traits(self, question: Callable[[frozenset[str]], bool]) -> Bools:
        return self._asked(self.table.trait_sets, question)

    def by_shared_facts(self, question: Callable[[SharedFacts], bool]) -> Bools:
        """Answer a question once per distinct (availability zone, capabilities, traits, aggregates)."""
        return self._asked(self.table.shared_facts, question)

    def numbers_by_shared_facts(self, question: Callable[[SharedFacts], float]) -> Floats:
        """Variant of `by_shared_facts` for a question whose answer is a number."""
        return self.table.shared_facts.numbers(self.rows, question, self.deadline)

    def numbers_by_aggregates(self, question: Callable[[tuple[Aggregate, ...]], float]) -> Floats:
        """Answer a numeric question once per distinct set of aggregates."""
        return self.table.aggregate_sets.numbers(self.rows, question, self.deadline)

    def by_representative(self, question: Callable[[HostState], bool]) -> Bools:
        """Variant of `by_shared_facts` that asks about one host of each group with equal facts."""
        positions, group = self.table.shared_facts.groups(self.rows)
        answers = np.zeros(len(positions), dtype=np.bool_)
        for number, position in enumerate(self.deadline.watch(positions.tolist())):
            answers[number] = question(self.state(position))
        return answers[group]

    @property
    def host_hashes(self) -> Hashes:
        """The hash that represents each host, the same in every process."""
        return self._of_rows(self.table.host_hash)

    @property
    def placed(self) -> Ints:
        """Instances of the request that are virtually on each host."""
        return np.zeros(len(self), dtype=np.int64) if self.copies is None else self.copies

    def state(self, index: int) -> HostState:
        """Return the state of the `index`-th host of the view."""
        state = HostState(self.table, int(self.row_numbers[index]), self.context)
        if self.copies is not None and self.copies[index]:
            state.consume(self.spec, int(self.copies[index]))
        return state

    def states(self) -> Iterator[HostState]:
        """Yield the state of each host. Raise OutOfTime between two chunks of hosts."""
        pairs = zip(self.row_numbers.tolist(), self.placed.tolist(), strict=True)
        for row, placed in self.deadline.watch(pairs):
            state = HostState(self.table, row, self.context)
            if placed:
                state.consume(self.spec, placed)
            yield state

    def _of_rows(self, column: C) -> C:
        """Return this view's rows of a column of the table. A plugin that writes to them must fail."""
        rows: C = column[self.rows]
        rows.flags.writeable = False
        return rows

    def _asked(self, column: EncodedColumn[V], question: Callable[[V], bool]) -> Bools:
        return column.flags(self.rows, question, self.everyone, self.deadline)

    def _column(self, resource_class: str, name: str) -> Floats:
        columns = self.table.columns(resource_class)
        return self._keep(name, resource_class, lambda: getattr(columns, name)[self.rows])

    def _less_copies(self, resource_class: str, name: str) -> Floats:
        amount = self.spec.resources.get(resource_class, 0)
        if self.copies is None or amount == 0:
            return self._column(resource_class, name)
        return self._keep(
            f"less {name}",
            resource_class,
            lambda: self._add_copies(self._column(resource_class, name), -amount),
        )

    def _add_copies(self, column: Floats, amount: float) -> Floats:
        return column if self.copies is None or amount == 0 else column + self.copies * float(amount)

    def _keep(self, name: str, resource_class: str, make: Callable[[], C]) -> C:
        cached: C | None = self._cached.get((name, resource_class))
        if cached is None:
            cached = self._cached[name, resource_class] = make()
            cached.flags.writeable = False
        return cached
