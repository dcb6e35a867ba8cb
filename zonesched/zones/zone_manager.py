"""The children of a zone: their registration, their state by polls, and calls to them.

A request goes to the children that are ready and eligible; an ineligible one counts as answered, one that is
not ready makes the answer incomplete.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from zonesched.conf import Conf
from zonesched.errors import ChildBusy, ChildUnreachable
from zonesched.model.request_spec import RequestSpec
from zonesched.model.work_deadline import always
from zonesched.scheduler.scale import Range, merge_ranges
from zonesched.seal.entry_form import MIN_BLOB_BYTES, largest_child_blob
from zonesched.seams import Clock, Done, Executor, Failed, Late
from zonesched.zones.answer_room import AnswerHand, AnswerRoom
from zonesched.zones.call import Take, takes_all
from zonesched.zones.child import Child, ChildInfo, ChildOffer, Ready
from zonesched.zones.child_holds import ChildHolds
from zonesched.zones.child_offers import ChildOffers
from zonesched.zones.client import ANSWER_BYTES, ChildClient, Question
from zonesched.zones.edge_metrics import EdgeMetrics
from zonesched.zones.eligible import EligibleChildren, eligible
from zonesched.zones.fan_out import Exchange, Job, exchange, fan_out, health_bulkhead, work_bulkhead
from zonesched.zones.info_polls import InfoPolls
from zonesched.zones.known_child import (
    KnownChild,
    PolledAt,
    PollRules,
    after_busy,
    after_offer,
    after_poll,
    unusable,
)
from zonesched.zones.transport import Transport
from zonesched.zones.trial import refusal, smallest_request

T = TypeVar("T")

GROWTH_BYTES = 512
"""Bytes by which a child's blobs may grow between two polls, in addition to doubling."""


@dataclass(frozen=True)
class Probed:
    """Result of one poll or trial: the zone's uuid, "" without a good answer.

    `error`: code for which it takes no part, "" if it does or has not answered.
    """

    zone_uuid: str = ""
    error: str = ""


class ChildRows(Protocol):
    """Store of the registered children."""

    def list_children(self) -> Sequence[Child]:
        """Return all children, in a fixed order, with their passwords in the clear."""

    def note_zones(self, zone_uuids: Mapping[str, str]) -> Collection[str]:
        """Store zone uuids by child id; return the ids of those whose zone is already another child."""


@dataclass(frozen=True)
class Settings:
    """The `rules` for polls, `answer_bytes`, the largest answer that is read, and the zone's `filters`."""

    rules: PollRules
    filters: Set[str]
    poll_timeout_s: float = 5.0
    answer_bytes: int = ANSWER_BYTES

    @classmethod
    def from_conf(cls, conf: Conf, zone_uuid: str) -> Settings:
        return cls(
            rules=PollRules(zone_uuid, conf.build_plan_blob_size, conf.zone_failures_to_offline),
            filters=frozenset(conf.enabled_filters),
            poll_timeout_s=conf.zone_poll_timeout,
            answer_bytes=conf.child_answer_bytes,
        )


class ZoneManager:
    """The children of one zone; used by all its threads."""

    def __init__(
        self, rows: ChildRows, clock: Clock, executor: Executor, transport: Transport, settings: Settings
    ) -> None:
        self._rows = rows
        self._clock = clock
        self._transport = transport
        self._settings = settings
        self._executor = executor
        self._lock = threading.Lock()
        self._known: Mapping[str, KnownChild] = {}
        self._ranges: tuple[Mapping[str, KnownChild], Mapping[str, Range]] = self._known, {}
        self._has_polled = False
        self._rereads = 0
        self._newest_reread = 0
        self._room = AnswerRoom(lambda: len(self._known))
        self.edges = EdgeMetrics(self._ages_s)
        self.offers = ChildOffers(clock)
        self.holds = ChildHolds(clock)
        self._polls = InfoPolls(
            executor,
            clock,
            transport,
            self._room,
            self.edges,
            lambda child, take: self._client(child, take=take),
        )

    @classmethod
    def from_conf(
        cls,
        conf: Conf,
        rows: ChildRows,
        zone_uuid: str,
        clock: Clock,
        executor: Executor,
        transport: Transport,
    ) -> ZoneManager:
        """Make the manager of the zone with this configuration and uuid."""
        return cls(rows, clock, executor, transport, Settings.from_conf(conf, zone_uuid))

    def refresh(self) -> None:
        """Take over added, changed and removed children now; new ones wait for their first poll."""
        self._reread()

    def poll(self) -> int:
        """Poll the children whose turn it is, concurrently; return the number of turns until all were polled.

        The first turn rereads the rows, and has all children that are not ready.
        """
        if self._polls.begins_round:
            self._reread()
        polled = self._polls.next_turn(self.snapshot())
        outcomes = self._polls.ask([known.child for known in polled], self._settings.poll_timeout_s)
        twice = self._note_zones([known.child for known in polled], outcomes)
        at = PolledAt(self._clock.now(), self._clock.monotonic())
        with self._lock:
            known_now = dict(self._known)
            for asked, outcome in zip(polled, outcomes, strict=True):
                self.edges.ended(asked.child.name, "poll", outcome)
            for asked, outcome in zip(polled, outcomes, strict=True):
                now = known_now.get(asked.child.id)
                # An earlier answer of a child that was removed or moved meanwhile does not count.
                if now is not None and now.child.same_endpoint(asked.child):
                    is_another = asked.child.id in twice
                    known_now[now.child.id] = after_poll(
                        now, outcome, at, self._settings.rules, is_another=is_another
                    )
            self._known = known_now
            self._has_polled = True
        return self._polls.turns

    def probe(self, child: Child) -> Probed:
        """Try a child that is about to be added or changed; it may not have been started yet."""
        (outcome,) = self._polls.ask([child], self._settings.poll_timeout_s)
        self._free_bulkheads()
        if not isinstance(outcome, Done):
            return Probed(error=refusal(outcome))
        info = outcome.value
        return Probed(info.uuid, unusable(info, self._settings.rules) or self._try_select(child))

    def _try_select(self, child: Child) -> str:
        """Try a smallest select; return the code for which the child refuses it to its parent's user."""
        timeout_s = self._settings.poll_timeout_s
        spec = smallest_request(child.id, self._settings.rules.zone_uuid, timeout_s)

        def ask(ends_at: float) -> ChildOffer:
            return self._client(child).within(ends_at).select(spec, timeout_s)

        (outcome,) = fan_out(self._executor, self._clock, [Job(health_bulkhead(child.id), ask)], timeout_s)
        self._free_bulkheads()
        return refusal(outcome)

    def offered(self, child_id: str, blob_size: int) -> None:
        """Record that a child has offered blobs of this size."""
        with self._lock:
            known = self._known.get(child_id)
            if known is not None and known.blob_size < blob_size:
                self._known = {**self._known, child_id: after_offer(known, blob_size)}

    def is_busy(self, child_id: str, retry_after_s: float) -> None:
        """Record that a child wants no selects for so many seconds."""
        with self._lock:
            known = self._known.get(child_id)
            if known is not None:
                until = self._clock.monotonic() + retry_after_s
                self._known = {**self._known, child_id: after_busy(known, ChildBusy.code, until)}

    def forget(self, child_ids: Collection[str]) -> None:
        """Stop calling these children: another process has removed them."""
        with self._lock:
            if not self._known.keys().isdisjoint(child_ids):
                self._known = {id_: known for id_, known in self._known.items() if id_ not in child_ids}

    def snapshot(self) -> tuple[KnownChild, ...]:
        """All registered children, in the order of their rows."""
        return tuple(self._known.values())

    @property
    def awaits_first_poll(self) -> bool:
        """Tell whether there are children and none was polled since this manager was made."""
        return bool(self._known) and not self._has_polled

    def eligible(self, spec: RequestSpec) -> EligibleChildren:
        """Sort the children by their eligibility for this request."""
        return eligible(self.snapshot(), spec, self._clock.monotonic(), self._settings.filters)

    def ask(
        self,
        children: Sequence[Child],
        question: Callable[[ChildClient], T],
        timeout_s: float,
        is_wanted: Callable[[], bool] = always,
        hand: AnswerHand | None = None,
    ) -> list[Done[T] | Failed | Late]:
        """Ask all of them the same, concurrently; one outcome each, in order, after at most `timeout_s`.

        Once `is_wanted` is false the calls end, and what has no outcome is Late. The answers count as in hand
        until `hand` is closed; without one until each is parsed.
        """
        return self.call([(child.id, question) for child in children], timeout_s, is_wanted, hand)

    def hand(self, caller_id: str) -> AbstractContextManager[AnswerHand]:
        """Hold answers for a caller, "" for the zone itself, until the block ends."""
        return self._room.hand(caller_id)

    def call(
        self,
        calls: Sequence[tuple[str, Callable[[ChildClient], T]]],
        timeout_s: float,
        is_wanted: Callable[[], bool] = always,
        hand: AnswerHand | None = None,
    ) -> list[Done[T] | Failed | Late]:
        """Call children by their ids, concurrently, as `ask` does; several calls may go to one child.

        A client ends its calls when the time is over, whatever their own time-outs.
        """

        def asked_by(child_id: str, call: Callable[[ChildClient], T], ends_at: float) -> T:
            known = self._known.get(child_id)
            started_at = self._clock.monotonic()
            try:
                with nullcontext(hand) if hand else self.hand("") as in_hand:
                    take = partial(self._room.take, in_hand, child_id)
                    return call(self.client(child_id).within(ends_at, is_wanted, take))
            finally:
                if known is not None:
                    self.edges.took(known.child.name, "work", self._clock.monotonic() - started_at)

        jobs = [Job(work_bulkhead(child_id), partial(asked_by, child_id, call)) for child_id, call in calls]
        outcomes = fan_out(self._executor, self._clock, jobs, timeout_s, is_wanted)
        for (child_id, _), outcome in zip(calls, outcomes, strict=True):
            known = self._known.get(child_id)
            if known is not None:
                self.edges.ended(known.child.name, "work", outcome)
        return outcomes

    def exchange(
        self,
        asked: Sequence[tuple[str, Callable[[ChildClient], Question[T]]]],
        timeout_s: float,
        is_wanted: Callable[[], bool],
        hand: AnswerHand,
    ) -> list[Done[T] | Failed | Late]:
        """Variant of `call` for single questions; only a thread that holds no lock may call it."""

        def asking(known: KnownChild, ask: Callable[[ChildClient], Question[T]]) -> Exchange[T]:
            child = known.child
            take = partial(self._room.take, hand, child.id)
            question = ask(self._client(child, take, blob_size=known.blob_size, is_wanted=is_wanted))
            ended = partial(self.edges.took, child.name, "work")
            return Exchange(work_bulkhead(child.id), question.bound, question.read, ended)

        known_now = self._known
        there = [(known_now[child_id], ask) for child_id, ask in asked if child_id in known_now]
        exchanges = [asking(known, ask) for known, ask in there]
        ended = exchange(self._executor, self._clock, self._transport, exchanges, timeout_s, is_wanted)
        for (known, _), outcome in zip(there, ended, strict=True):
            self.edges.ended(known.child.name, "work", outcome)
        in_turn = iter(ended)
        return [next(in_turn) if child_id in known_now else Failed(_unknown()) for child_id, _ in asked]

    def client(self, child_id: str) -> ChildClient:
        """Return the client of one child. Raises ChildUnreachable for one that is not registered."""
        known = self._known.get(child_id)
        if known is None:
            raise _unknown()
        return self._client(known.child, blob_size=known.blob_size)

    def with_pages(self) -> frozenset[str]:
        """Return the ids of the ready children that may be asked for a page of their offers."""
        return frozenset(known.child.id for known, info in _ready(self.snapshot()) if info.has_pages)

    def active(self) -> list[Child]:
        """Return the children that are ready."""
        return [known.child for known, _ in _ready(self.snapshot())]

    def ranges(self) -> Mapping[str, Range]:
        """Return the lowest and highest raw value by weigher in the subtrees of ready children."""
        # Each select asks for them, and they change with the children's states alone.
        known, ranges = self._ranges
        if known is not self._known:
            known = self._known
            ranges = merge_ranges(*(info.ranges for _, info in _ready(known.values())))
            self._ranges = known, ranges
        return ranges

    def blob_sizes(self) -> list[int]:
        """Return the bytes of a blob of each child, available or not."""
        return [known.blob_size for known in self.snapshot()]

    def _client(
        self,
        child: Child,
        take: Take = takes_all,
        *,
        blob_size: int = MIN_BLOB_BYTES,
        is_wanted: Callable[[], bool] = always,
    ) -> ChildClient:
        # Blobs may have grown since the last poll: each zone adds some to those of its children.
        blob_bytes = min(2 * blob_size + GROWTH_BYTES, largest_child_blob(self._settings.rules.blob_size))
        return ChildClient(
            child,
            self._transport,
            self._clock,
            answer_bytes=self._settings.answer_bytes,
            blob_bytes=blob_bytes,
            is_wanted=is_wanted,
            take=take,
        )

    def _reread(self) -> list[KnownChild]:
        with self._lock:
            self._rereads += 1
            number = self._rereads
        children = self._rows.list_children()
        with self._lock:
            # Rows that were read before a change must not replace those that were read after it.
            if number > self._newest_reread:
                self._newest_reread = number
                self._known = {c.id: _carried_over(self._known.get(c.id), c) for c in children}
            known_now = list(self._known.values())
        self._free_bulkheads()
        self.edges.forget(known.child.name for known in known_now)
        for by_id in (self.offers, self.holds, self._polls):
            by_id.forget(known.child.id for known in known_now)
        return known_now

    def _ages_s(self) -> list[tuple[str, float]]:
        now = self._clock.now()
        seen = [(known.child.name, known.seen_at) for known in self.snapshot()]
        return [(name, max(0.0, now - seen_at)) for name, seen_at in seen if seen_at is not None]

    def _free_bulkheads(self) -> None:
        """Release the threads of children that are no longer registered, once their calls have ended."""
        ids = list(self._known)
        self._executor.keep_bulkheads(
            [bulkhead(child_id) for child_id in ids for bulkhead in (work_bulkhead, health_bulkhead)]
        )

    def _note_zones(
        self, asked: Sequence[Child], outcomes: Sequence[Done[ChildInfo] | Failed | Late]
    ) -> Collection[str]:
        """Return the ids of children whose zone is another child."""
        found = {
            child.id: outcome.value.uuid
            for child, outcome in zip(asked, outcomes, strict=True)
            if isinstance(outcome, Done) and outcome.value.uuid != child.zone_uuid
        }
        return self._rows.note_zones(found) if found else ()


def _ready(children: Iterable[KnownChild]) -> list[tuple[KnownChild, ChildInfo]]:
    return [(known, known.status.info) for known in children if isinstance(known.status, Ready)]


def _unknown() -> ChildUnreachable:
    return ChildUnreachable("There is no such child zone.", code="child_unreachable")


def _carried_over(known: KnownChild | None, child: Child) -> KnownChild:
    """Update a child's state after its row was read; with another endpoint it begins anew."""
    if known is None or not known.child.same_endpoint(child):
        return KnownChild(child)
    return replace(known, child=child)
