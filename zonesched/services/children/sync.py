"""Sync of child zones: reads their changes of instances, and decides when to ask for them.

A child with unfinished instances is asked after `retry_pause` at first, and less often the longer no new
build was sent; else every `instance_sync_interval`. The rows keep the time of the last send,
so any process of the zone may have sent it. A child that has more changes is asked again at once, the others
are not; one that reports more than its placements can have gets a pause (`feed_allowance`).

Children that had no changes at the last poll are asked together, by one thread. Each other child has a thread
and a bulkhead of its own. One that hangs keeps that busy until the call times out; until then no step asks
it, and the others are asked as if it were not there.
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
from zonesched.model.work_deadline import always
from zonesched.seams import Bulkhead, Done, Failed
from zonesched.services.children.changes import apply_changes, wake_for
from zonesched.services.children.feed_allowance import FeedAllowance
from zonesched.services.children.returned import ready_ids
from zonesched.services.life.given_back import GivenBackOf, Lacking, write_with_given_back
from zonesched.services.zone import Zone
from zonesched.store import children as child_rows
from zonesched.store import feed, instance_states
from zonesched.store.child_placements import count_in_child
from zonesched.store.outages import log_failed
from zonesched.store.store import Store, Transaction
from zonesched.zones.answer_room import AnswerHand
from zonesched.zones.child import Changes, Ready
from zonesched.zones.client import ChildClient, Question
from zonesched.zones.poll_turns import share, turns_of

log = logging.getLogger(__name__)

PAUSE_PER_AGE = 0.25
"""Pause between two polls, as a share of the time since the last send."""

LINES_AT_ONCE = 1000
"""Changes that are applied in one transaction: other writers wait for no more."""


@dataclass(frozen=True)
class Page:
    """Changes of a child, and the cursor since which they were asked for."""

    asked_from: str
    changes: Changes

    @property
    def is_empty(self) -> bool:
        return not self.changes.items and self.changes.cursor == self.asked_from


class Sync:
    """Schedule of this process for polling the zone's children."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._lock = threading.Lock()
        self._asked_at = -math.inf
        self._turns = 1
        self._later: list[frozenset[str]] = []
        self._asked: frozenset[str] = frozenset()
        self._reading: set[str] = set()
        self._behind: set[str] = set()
        self._resting: set[str] = set()
        self._allowance = FeedAllowance()

    def step(self) -> float:
        """Ask the children that are due; return the pause until the next step."""
        zone = self._zone
        ready = ready_ids(zone.children)
        # A child that has returned is asked at once: its changes may be long awaited.
        due = (ready - self._asked) | self._behind_of(ready)
        round_s = self._round_s()
        due |= self._whose_turn(ready, round_s)
        self._asked = ready
        due_now = self._may_ask(due)
        pages = self._ask_resting(due_now)
        # Apart from the bulkheads of the calls themselves, which these threads wait for.
        reads = [
            (Bulkhead(f"{id_}-sync", 1), partial(self._read, id_, pages.get(id_)))
            for id_ in due_now
            if id_ not in pages or not pages[id_].is_empty
        ]
        for outcome in zone.executor.gather(reads, zone.conf.retry_pause):
            if isinstance(outcome, Failed):
                log_failed("a child's changes could not be taken and are asked for again", outcome.error)
        if self._behind_of(ready):
            return 0.0
        left_s = self._due_at(round_s) - zone.clock.monotonic()
        return float(max(0.0, min(left_s, zone.conf.boot_poll_interval)))

    def _whose_turn(self, ready: frozenset[str], round_s: float) -> frozenset[str]:
        """Return the children to ask now: in a round's first turn all that have changes, and some at rest."""
        now = self._zone.clock.monotonic()
        if now >= self._asked_at + round_s:
            with self._lock:
                resting = sorted(ready & self._resting)
            # A turn is taken by a step.
            turns = turns_of(len(resting), most=round_s / self._zone.conf.boot_poll_interval)
            self._asked_at, self._turns = now, turns
            self._later = [frozenset(share(resting, turn, turns)) for turn in range(1, turns)]
            return (ready - frozenset(resting)) | frozenset(share(resting, 0, turns))
        if self._later and now >= self._due_at(round_s):
            return ready & self._later.pop(0)
        return frozenset()

    def _due_at(self, round_s: float) -> float:
        """Return when the next turn is: they are dealt out over the round."""
        return self._asked_at + round_s * (self._turns - len(self._later)) / self._turns

    def _round_s(self) -> float:
        """Return the seconds in which each child is asked once."""
        zone = self._zone
        return pause_s(zone.conf, zone.clock.now() - zone.store.read(_newest_unfinished))

    def _behind_of(self, ready: frozenset[str]) -> frozenset[str]:
        with self._lock:
            return ready & self._behind

    def _may_ask(self, due: frozenset[str]) -> Sequence[str]:
        """Return those of these children that have no pause and no read under way."""
        now = self._zone.clock.monotonic()
        with self._lock:
            names = self._names()
            self._allowance.keep(names)
            self._resting &= names.keys()
            self._behind -= due
            return sorted(id_ for id_ in due - self._reading if self._allowance.may_ask(id_, now))

    def _names(self) -> Mapping[str, str]:
        return {known.child.id: known.child.name for known in self._zone.children.snapshot()}

    def _ask_resting(self, child_ids: Sequence[str]) -> Mapping[str, Page]:
        """Ask those of these children together that had no changes the last time; return their pages.

        A page is missing where the child has not answered soon, or with more than a short page.
        """
        zone = self._zone
        with self._lock:
            asked = [id_ for id_ in child_ids if id_ in self._resting]
        if not asked:
            return {}
        cursors = zone.store.read(child_rows.cursors)

        def question(cursor: str, client: ChildClient) -> Question[Changes]:
            return client.ask_changes(cursor)

        calls = [(id_, partial(question, cursors.get(id_, ""))) for id_ in asked]
        # It takes short answers alone, for which no room is needed: they outlast this step in their threads.
        hand = AnswerHand("", is_closed=True)
        outcomes = zone.children.exchange(calls, zone.conf.retry_pause, always, hand)
        return {
            id_: Page(cursors.get(id_, ""), outcome.value)
            for id_, outcome in zip(asked, outcomes, strict=True)
            if isinstance(outcome, Done)
        }

    def _read(self, child_id: str, page: Page | None) -> None:
        """Take a page of a child, in a thread of its own, and ask for it first where there is None.

        Note whether the child has more.
        """
        with self._lock:
            if child_id in self._reading:
                return
            self._reading.add(child_id)
        try:
            asked = ask(self._zone, [child_id]) if page is None else _take(self._zone, {child_id: page})
            is_paused = child_id in asked.lines and self._is_too_much(child_id, asked.lines[child_id])
        finally:
            with self._lock:
                self._reading.discard(child_id)
        is_behind = child_id in asked.behind and not is_paused
        with self._lock:
            self._resting.discard(child_id)
            if asked.lines.get(child_id) == 0:
                self._resting.add(child_id)
            if is_behind:
                self._behind.add(child_id)
        if is_behind:
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


def ask(zone: Zone, child_ids: Collection[str]) -> Asked:
    """Ask those of these children that are ready once for their changes."""
    known = [k.child for k in zone.children.snapshot() if isinstance(k.status, Ready)]
    known = [child for child in known if child.id in child_ids]
    cursors = zone.store.read(child_rows.cursors)
    timeout_s = zone.conf.build_timeout

    def question(child_id: str) -> Callable[[ChildClient], Changes]:
        return lambda client: client.changes(cursors.get(child_id, ""), timeout_s)

    calls = [(child.id, question(child.id)) for child in known]
    with zone.children.hand("") as hand:
        outcomes = zone.children.call(calls, timeout_s, hand=hand)
        answered = zip(known, outcomes, strict=True)
        pages = {
            child.id: Page(cursors.get(child.id, ""), outcome.value)
            for child, outcome in answered
            if isinstance(outcome, Done)
        }
        return _take(zone, pages)


def _take(zone: Zone, pages: Mapping[str, Page]) -> Asked:
    """Apply a page of each of these children, in their order."""
    behind: set[str] = set()
    for child_id, page in pages.items():
        if _take_page(zone, child_id, page) and page.changes.more:
            behind.add(child_id)
        wake_for(zone.wake, page.changes.items)
    return Asked({id_: len(page.changes.items) for id_, page in pages.items()}, frozenset(behind))


def _take_page(zone: Zone, child_id: str, page: Page) -> bool:
    """Apply a page; return false if another process has read further meanwhile, or more is to be asked."""
    asked_from, changes = page.asked_from, page.changes
    if page.is_empty:
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
            log.warning(
                "child zone %s does not answer for the requests of its instances: %s", child_id, error.code
            )
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
