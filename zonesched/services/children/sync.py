"""Sync of child zones: reads their changes of instances, and decides when to ask for them.

A child with unfinished instances is asked after `retry_pause` at first, and less often the longer no new
build was sent; else every `instance_sync_interval`. The rows keep the time of the last send,
so any process of the zone may have sent it. A child that has more changes is asked again at once, the others
are not; one that reports more than its placements can have gets a pause (`feed_allowance`).

Each child has a bulkhead of its own. One that hangs keeps that busy until the call times out; until then no
step asks it, and the others are asked as if it were not there.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from zonesched.conf import Conf
from zonesched.errors import ChildUnreachable
from zonesched.model.placement import InstanceChange
from zonesched.seams import Bulkhead, Done, Failed
from zonesched.services.children.changes import apply_changes, wake_for
from zonesched.services.children.feed_allowance import FeedAllowance
from zonesched.services.children.returned import ready_ids
from zonesched.services.life.given_back import GivenBackOf, Lacking, write_with_given_back
from zonesched.services.zone import Zone
from zonesched.store import children as child_rows
from zonesched.store import feed, instance_states
from zonesched.store.child_placements import count_in_child
from zonesched.store.store import Store, Transaction
from zonesched.zones.child import Changes, Ready
from zonesched.zones.client import ChildClient

log = logging.getLogger(__name__)

PAUSE_PER_AGE = 0.25
"""Pause between two polls, as a share of the time since the last send."""

LINES_AT_ONCE = 1000
"""Changes that are applied in one transaction: other writers wait for no more."""


class Sync:
    """Schedule of this process for polling the zone's children."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._lock = threading.Lock()
        self._asked_at = -math.inf
        self._asked: frozenset[str] = frozenset()
        self._reading: set[str] = set()
        self._behind: set[str] = set()
        self._allowance = FeedAllowance()

    def step(self) -> float:
        """Ask the children that are due; return the pause until the next step."""
        zone = self._zone
        ready = ready_ids(zone.children)
        # A child that has returned is asked at once: its changes may be long awaited.
        due = (ready - self._asked) | self._behind_of(ready)
        if zone.clock.monotonic() >= self._due_at():
            due, self._asked_at = ready, zone.clock.monotonic()
        self._asked = ready
        # Apart from the bulkheads of the calls themselves, which these threads wait for.
        reads = [(Bulkhead(f"{id_}-sync", 1), partial(self._read, id_)) for id_ in self._may_ask(due)]
        for outcome in zone.executor.gather(reads, zone.conf.retry_pause):
            if isinstance(outcome, Failed):
                log.error(
                    "a child's changes could not be taken and are asked for again", exc_info=outcome.error
                )
        if self._behind_of(ready):
            return 0.0
        left_s = self._due_at() - zone.clock.monotonic()
        return float(max(0.0, min(left_s, zone.conf.boot_poll_interval)))

    def _behind_of(self, ready: frozenset[str]) -> frozenset[str]:
        with self._lock:
            return ready & self._behind

    def _may_ask(self, due: frozenset[str]) -> Sequence[str]:
        """Return those of these children that have no pause and no read under way."""
        now = self._zone.clock.monotonic()
        with self._lock:
            self._allowance.keep(self._names())
            self._behind -= due
            return sorted(id_ for id_ in due - self._reading if self._allowance.may_ask(id_, now))

    def _names(self) -> Mapping[str, str]:
        return {known.child.id: known.child.name for known in self._zone.children.snapshot()}

    def _read(self, child_id: str) -> None:
        """Read a page of a child, in a thread of its own; note whether it has more."""
        with self._lock:
            if child_id in self._reading:
                return
            self._reading.add(child_id)
        try:
            asked = ask(self._zone, [child_id])
            is_paused = child_id in asked.lines and self._is_too_much(child_id, asked.lines[child_id])
        finally:
            with self._lock:
                self._reading.discard(child_id)
        if child_id in asked.behind and not is_paused:
            with self._lock:
                self._behind.add(child_id)
            # The step that began the read may be over.
            self._zone.wake.sync()

    def _is_too_much(self, child_id: str, lines: int) -> bool:
        """Count the lines of a page; return true if the child gets a pause."""
        zone = self._zone
        count = partial(_count_placements, zone.store, child_id)
        with self._lock:
            pause_s = self._allowance.spend(child_id, lines, count, zone.clock.monotonic())
        if pause_s:
            log.warning(
                "child zone %s reports more changes than its placements can have;"
                " it is not asked for changes for %d seconds",
                self._names().get(child_id, child_id),
                pause_s,
            )
        return pause_s > 0

    def _due_at(self) -> float:
        zone = self._zone
        age_s = zone.clock.now() - zone.store.read(_newest_unfinished)
        return self._asked_at + pause_s(zone.conf, age_s)


def _newest_unfinished(tx: Transaction) -> float:
    """Return when a child was last sent work that it has not reported as done (epoch seconds)."""
    built = feed.newest_unfinished_in_children(tx)
    return max(built, instance_states.newest_pending_in_children(tx))


def pause_s(conf: Conf, age_s: float) -> float:
    """Return the seconds between two polls, `age_s` after the last unfinished build was sent."""
    return float(min(conf.instance_sync_interval, max(conf.retry_pause, age_s * PAUSE_PER_AGE)))


def _count_placements(store: Store, child_id: str) -> int:
    return store.read(lambda tx: count_in_child(tx, child_id))


@dataclass(frozen=True)
class Asked:
    """The number of lines in each child's page, by child id; `behind`: the children that have more."""

    lines: Mapping[str, int]
    behind: frozenset[str]


def ask_all(zone: Zone) -> Asked:
    """Ask each child once for its changes."""
    return ask(zone, ready_ids(zone.children))


def ask(zone: Zone, child_ids: Collection[str]) -> Asked:
    """Ask those of these children that are ready once for their changes."""
    known = [k.child for k in zone.children.snapshot() if isinstance(k.status, Ready)]
    known = [child for child in known if child.id in child_ids]
    cursors = zone.store.read(child_rows.cursors)
    timeout_s = zone.conf.build_timeout

    def question(child_id: str) -> Callable[[ChildClient], Changes]:
        return lambda client: client.changes(cursors.get(child_id, ""), timeout_s)

    calls = [(child.id, question(child.id)) for child in known]
    lines: dict[str, int] = {}
    behind: set[str] = set()
    with zone.children.hand("") as hand:
        outcomes = zone.children.call(calls, timeout_s, hand=hand)
        for child, outcome in zip(known, outcomes, strict=True):
            if isinstance(outcome, Done):
                lines[child.id] = len(outcome.value.items)
                if _take(zone, child.id, cursors.get(child.id, ""), outcome.value) and outcome.value.more:
                    behind.add(child.id)
                wake_for(zone.wake, outcome.value.items)
    return Asked(lines, frozenset(behind))


def _take(zone: Zone, child_id: str, asked_from: str, changes: Changes) -> bool:
    """Apply a page; return false if another process has read further meanwhile, or more is to be asked."""
    if not changes.items and changes.cursor == asked_from:
        # A child at rest costs no commit.
        return True
    last = max(0, len(changes.items) - 1) // LINES_AT_ONCE
    for number in range(last + 1):
        items = changes.items[number * LINES_AT_ONCE : (number + 1) * LINES_AT_ONCE]
        cursor = changes.cursor if number == last else asked_from
        try:
            is_applied = write_with_given_back(
                zone.store,
                partial(_apply, zone, child_id, asked_from, items, cursor),
                lambda uuid: zone.child_client(child_id).request_of(uuid, zone.conf.build_timeout),
            )
        except ChildUnreachable as error:
            log.warning("child zone %s does not say what its instances have: %s", child_id, error.code)
            return False
        if not is_applied:
            return False
    return True


def _apply(
    zone: Zone,
    child_id: str,
    asked_from: str,
    items: Sequence[InstanceChange],
    cursor: str,
    tx: Transaction,
    given_back: GivenBackOf,
) -> bool | Lacking:
    """Apply changes and move the cursor, unless another process has read further meanwhile."""
    if not child_rows.is_at(tx, child_id, asked_from):
        return False
    if (unasked := apply_changes(zone, child_id, items, tx, given_back)) is not None:
        return unasked
    child_rows.set_cursor(tx, child_id, cursor)
    return True
