"""Bound the bytes of all answers of child zones in hand together, shared fairly by child and by caller.

Each answer is bounded by its question, but many children and many selects at once add up. Half of the bytes
is divided equally between the children, so that none can take another one's part. The other half is for
those that need more: a child, and a caller, gets some of it only while it holds no more than is then free.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from zonesched.errors import ChildUnreachable

TOTAL_BYTES = 96 * 2**20

SMALL_BYTES = 64 * 1024
"""An answer up to this size is not counted: no more of them are in hand than there are calls."""

WAIT_S = 1.0
"""Time limit in seconds of the wait for answers of others to be used up."""

NO_ROOM = "child_answer_no_room"
"""Code of a call whose answer was not read."""


@dataclass
class AnswerHand:
    """Answers that one piece of work for a caller has in hand; `parts`: bytes of a child, own and common."""

    caller_id: str
    parts: list[tuple[str, int, int]] = field(default_factory=list)
    is_closed: bool = False


class AnswerRoom:
    """The bytes for the answers of all children of a zone; thread-safe."""

    def __init__(self, count_children: Callable[[], int], total_bytes: int = TOTAL_BYTES) -> None:
        self._count_children = count_children
        self._half = total_bytes // 2
        self._own: Counter[str] = Counter()
        self._common_of_child: Counter[str] = Counter()
        self._common_of_caller: Counter[str] = Counter()
        self._changed = threading.Condition()

    @contextmanager
    def hand(self, caller_id: str) -> Iterator[AnswerHand]:
        """Hold the answers that are taken in this block for a caller until it ends."""
        hand = AnswerHand(caller_id)
        try:
            yield hand
        finally:
            self.release(hand)

    def take(self, hand: AnswerHand, child_id: str, size: int, timeout_s: float) -> None:
        """Hold the bytes of an answer; wait for them up to `timeout_s` and WAIT_S.

        Raises ChildUnreachable child_answer_no_room, at once if nobody waits for the answer any more.
        """
        if size <= SMALL_BYTES:
            return
        # The largest answer fits while no other one takes more than its own part.
        size = min(size, self._half)
        with self._changed:
            self._changed.wait_for(
                lambda: hand.is_closed or self._fits(hand, child_id, size), min(timeout_s, WAIT_S)
            )
            if hand.is_closed or not self._fits(hand, child_id, size):
                message = "The answers of child zones in hand leave no room for the one of this child zone."
                raise ChildUnreachable(message, code=NO_ROOM)
            own = self._own_part(child_id, size)
            hand.parts.append((child_id, own, size - own))
            self._count(hand, child_id, own, size - own)

    def _fits(self, hand: AnswerHand, child_id: str, size: int) -> bool:
        common = size - self._own_part(child_id, size)
        free = self._half - self._common_of_child.total()
        most = max(self._common_of_child[child_id], self._common_of_caller[hand.caller_id])
        return not common or common + most <= free

    def _own_part(self, child_id: str, size: int) -> int:
        part = self._half // max(1, self._count_children())
        return max(0, min(size, part - self._own[child_id]))

    def _count(self, hand: AnswerHand, child_id: str, own: int, common: int) -> None:
        self._own[child_id] += own
        self._common_of_child[child_id] += common
        self._common_of_caller[hand.caller_id] += common

    def release(self, hand: AnswerHand) -> None:
        """Free what a hand holds; it takes nothing more."""
        with self._changed:
            hand.is_closed = True
            for child_id, own, common in hand.parts:
                self._count(hand, child_id, -own, -common)
            if hand.parts:
                # Forget children and callers without answers in hand.
                for held in (self._own, self._common_of_child, self._common_of_caller):
                    held += Counter()
            self._changed.notify_all()
