"""Asking several children side by side, under one deadline.

A child ties up a limited number of threads, however slow it is and however many callers there are: who comes
above that is refused at once, as by a child that is down. The questions of one caller to one child share what
threads it gets and wait for each other.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from zonesched.errors import ChildUnreachable
from zonesched.seams import Clock, Done, Executor, Failed, Late

MAX_CALLS_PER_CHILD = 4

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Question(Generic[T]):
    """One call to one child; `ask` gets the moment, in monotonic seconds, by which it has to end."""

    child_id: str
    ask: Callable[[float], T]


class FanOut:
    """Calls to children, side by side; used by all threads of a zone."""

    def __init__(
        self, executor: Executor, clock: Clock, *, max_calls_per_child: int = MAX_CALLS_PER_CHILD
    ) -> None:
        self._executor = executor
        self._clock = clock
        self._max_calls = max_calls_per_child
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    def ask(self, questions: Sequence[Question[T]], timeout_s: float) -> list[Done[T] | Failed | Late]:
        """One outcome for each question, in their order, after at most `timeout_s`.

        A failure is a ChildUnreachable, also where an unforeseen error met a child's answer.
        """
        ends_at = self._clock.monotonic() + timeout_s
        queues: dict[str, _Queue[T]] = {}
        for number, question in enumerate(questions):
            queues.setdefault(question.child_id, _Queue()).waiting.append((number, question))
        lanes = [
            partial(self._run_lane, child_id, queue, ends_at)
            for child_id, queue in queues.items()
            for _ in range(min(len(queue.waiting), self._max_calls))
        ]
        self._executor.gather(lanes, timeout_s)
        return [queues[question.child_id].outcome(number) for number, question in enumerate(questions)]

    def _run_lane(self, child_id: str, queue: _Queue[T], ends_at: float) -> None:
        """Ask one child what waits in a queue, one after the other, until it is empty or time is over."""
        with self._place(child_id) as free:
            if not free:
                return
            queue.entered = True
            while self._clock.monotonic() < ends_at:
                try:
                    number, question = queue.waiting.popleft()
                except IndexError:
                    return
                queue.outcomes[number] = _outcome(question, ends_at)

    @contextmanager
    def _place(self, child_id: str) -> Iterator[bool]:
        """Take one of the child's threads if one is free, and give it back."""
        with self._lock:
            free = self._running[child_id] < self._max_calls
            self._running[child_id] += free
        try:
            yield free
        finally:
            with self._lock:
                self._running[child_id] -= free


class _Queue(Generic[T]):
    """One caller's questions to one child, shared by the lanes that ask them.

    A lane that is late goes on after its caller has left; nobody reads what it adds.
    """

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, Question[T]]] = deque()
        self.outcomes: dict[int, Done[T] | Failed] = {}
        self.entered = False

    def outcome(self, number: int) -> Done[T] | Failed | Late:
        if number in self.outcomes:
            return self.outcomes[number]
        return Late() if self.entered else Failed(_busy())


def _outcome(question: Question[T], ends_at: float) -> Done[T] | Failed:
    try:
        return Done(question.ask(ends_at))
    except ChildUnreachable as error:
        return Failed(error)
    except Exception:
        log.exception("a child's answer could not be taken")
        return Failed(
            ChildUnreachable("The answer of the child zone cannot be used.", code="child_invalid_answer")
        )


def _busy() -> ChildUnreachable:
    return ChildUnreachable("The child zone keeps all calls waiting that it may.", code="child_unreachable")
