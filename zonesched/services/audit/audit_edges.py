"""The audit of the edges to the child zones: instances built there, by the rows of both sides.

A change that a child reports at the next sync is not known here yet, and is no inconsistency. So the child is
asked for such changes first and, for those made during the comparison, last.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from zonesched.conf import Conf
from zonesched.errors import ChildUnreachable
from zonesched.model.inconsistency import Inconsistency, OfChild
from zonesched.model.placement import LIVING_STATUSES, WANTED, InstanceChange
from zonesched.model.work_deadline import WorkDeadline, always
from zonesched.seams import Clock
from zonesched.services.audit.audit import GRACE_S
from zonesched.services.audit.edge_comparison import EdgeComparison, Unlike
from zonesched.services.zone import Zone
from zonesched.store import children as child_rows
from zonesched.store import placements
from zonesched.store.child_placements import count_in_child, living_in_child
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.store import Transaction
from zonesched.zones.client import ChildClient

MAX_UNKNOWN = 100_000
"""Lines that a child may report beside two for each placement there."""

MAX_FOUND = 20_000
MIN_FOUND = 100
"""Inconsistencies that are kept, of all children together; and of one, however many there are."""

MIN_LIMIT_S = 60.0
PLACEMENTS_PER_S = 1000

CUT = "too_many_inconsistencies"


def time_limit_s(placements: int) -> float:
    """Return the time limit in seconds of an audit of so many placements in child zones."""
    return MIN_LIMIT_S + placements / PLACEMENTS_PER_S


def across_edges(
    zone: Zone, budget_s: float = math.inf, is_wanted: Callable[[], bool] = always
) -> list[Inconsistency]:
    """Find inconsistencies between this zone and its children; a child without an answer is one itself.

    No child is asked after `budget_s` seconds. Raises CallerGone once `is_wanted` is false.
    """
    return [found.inconsistency for found in compare(zone, budget_s, is_wanted)]


def across_edge(zone: Zone, child_id: str, is_wanted: Callable[[], bool] = always) -> list[Inconsistency]:
    """Variant of `across_edges` for one child."""
    if zone.restored.is_under_way:
        return []
    deadline = WorkDeadline.after(zone.clock.monotonic, math.inf, is_wanted)
    found = _compare_with(zone, child_id, deadline, MAX_FOUND)
    deadline.check_wanted()
    return sorted((unlike.inconsistency for unlike in found), key=lambda one: one.order)


def compare(zone: Zone, budget_s: float = math.inf, is_wanted: Callable[[], bool] = always) -> list[Unlike]:
    """Variant of `across_edges` with the states of both sides.

    Each child has an equal share of the time; what it does not need is for those after it.
    """
    if zone.restored.is_under_way:
        # Its rows are old: the recovery compares them.
        return []
    deadline = WorkDeadline.after(zone.clock.monotonic, budget_s, is_wanted)
    found: list[Unlike] = []
    children = zone.store.read(child_rows.read_all)
    limit = max(MIN_FOUND, MAX_FOUND // max(1, len(children)))
    for number, child in enumerate(children):
        deadline.check_wanted()
        share = WorkDeadline.after(
            zone.clock.monotonic, deadline.left_s / (len(children) - number), is_wanted
        )
        found += _compare_with(zone, child.id, share, limit)
    deadline.check_wanted()
    return sorted(found, key=lambda unlike: unlike.inconsistency.order)


def with_other_places(zone: Zone, compared: Sequence[Unlike]) -> list[Unlike]:
    """Ask the children that should have an instance which is unknown here in the child that has it."""
    unknown = (u.inconsistency for u in compared if u.inconsistency.kind == "child_has_unknown_instance")
    uuids = sorted({found.parents_id for found in unknown})
    by_child: defaultdict[str, list[Placement]] = defaultdict(list)
    for place in zone.store.read(lambda tx: placements.read_by_uuid(tx, uuids)):
        if place.state in WANTED and isinstance(place.where, AskedChild):
            by_child[place.where.child_id].append(place)
    confirmed: defaultdict[str, set[int]] = defaultdict(set)
    for child_id, places in by_child.items():
        # A child that does not answer once is not asked for the rest.
        with suppress(ChildUnreachable):
            client = zone.child_client(child_id)
            for place in places:
                there = client.show_server(place.uuid, zone.conf.build_timeout)
                if there and there.attempt == place.number and there.status in LIVING_STATUSES:
                    confirmed[place.uuid].add(place.number)
    return [replace(u, confirmed=frozenset(confirmed[u.inconsistency.parents_id])) for u in compared]


def _compare_with(zone: Zone, child_id: str, deadline: WorkDeadline, limit: int) -> list[Unlike]:
    def own_rows(tx: Transaction) -> tuple[dict[str, int], int, str]:
        cursor = child_rows.cursors(tx).get(child_id, "")
        return living_in_child(tx, child_id), count_in_child(tx, child_id), cursor

    living, count, cursor = zone.store.read(own_rows)
    ends_at = min(deadline.at, zone.clock.monotonic() + time_limit_s(count))
    comparison = EdgeComparison(zone.store, child_id, living, _overdue_before(zone.clock, zone.conf), limit)
    try:
        client = zone.child_client(child_id).within(ends_at, deadline.is_wanted)
        feed = _Feed(client, zone.conf.build_timeout, 2 * count + MAX_UNKNOWN)
        for page in feed.pages(cursor):
            comparison.leave_out(page)
        last = feed.cursor
        for page in feed.pages(""):
            comparison.compare(page)
        for page in feed.pages(last):
            comparison.leave_out(page)
    except ChildUnreachable as error:
        return [_not_compared(child_id, error.code)]
    found = comparison.result()
    return [*found, _not_compared(child_id, CUT)] if comparison.is_cut else found


def _not_compared(child_id: str, detail: str) -> Unlike:
    return Unlike(Inconsistency("child_not_compared", OfChild(child_id), detail), None, None)


def _overdue_before(clock: Clock, conf: Conf) -> float:
    return float(clock.now() - 2 * conf.hold - conf.hold_margin - GRACE_S)


class _Feed:
    """A child's feed, of which at most `max_lines` are read; `cursor` is the one of the last page."""

    def __init__(self, client: ChildClient, timeout_s: float, max_lines: int) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._left = max_lines
        self.cursor = ""

    def pages(self, cursor: str) -> Iterator[Sequence[InstanceChange]]:
        """Read the changes since a cursor. Raises ChildUnreachable, also where there are too many."""
        while True:
            page = self._client.changes(cursor, self._timeout_s)
            self.cursor = cursor = page.cursor
            yield page.items
            if not page.more:
                return
            self._left -= len(page.items)
            if self._left < 0:
                raise ChildUnreachable(
                    "The child zone reports changes without end.", code="child_invalid_answer"
                )
