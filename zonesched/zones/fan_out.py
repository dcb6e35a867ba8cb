"""Concurrent calls to several children, under one deadline.

Each child has two bulkheads of the executor, four threads together. A slow child never uses more threads,
however many callers wait for it, and never delays calls to other children. One of the four threads is for
health polls, so that a load of boots never makes a healthy child look late.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from zonesched import tracing
from zonesched.errors import ChildUnreachable
from zonesched.model.work_deadline import always
from zonesched.seams import Bulkhead, Clock, Done, Executor, Failed, Late

WORK_THREADS = 3
HEALTH_THREADS = 1

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Question(Generic[T]):
    """One call to one child; `ask` gets its deadline in monotonic seconds."""

    bulkhead: Bulkhead
    ask: Callable[[float], T]


def work_bulkhead(child_id: str) -> Bulkhead:
    """Bulkhead of a child's boots, deletes and sync."""
    return Bulkhead(f"{child_id}-work", WORK_THREADS)


def health_bulkhead(child_id: str) -> Bulkhead:
    """Bulkhead of a child's polls."""
    return Bulkhead(f"{child_id}-health", HEALTH_THREADS)


def fan_out(
    executor: Executor,
    clock: Clock,
    questions: Sequence[Question[T]],
    timeout_s: float,
    is_wanted: Callable[[], bool] = always,
) -> list[Done[T] | Failed | Late]:
    """Return one outcome for each question, in their order, after at most `timeout_s`.

    Return earlier once `is_wanted` is false.

    A failure is a ChildUnreachable, also where an unforeseen error met a child's answer.
    """
    ends_at = clock.monotonic() + timeout_s
    trace = tracing.current()
    calls = [(question.bulkhead, partial(_ask, question, ends_at, trace)) for question in questions]
    return [_foreseen(outcome) for outcome in executor.gather(calls, timeout_s, is_wanted)]


def _ask(question: Question[T], ends_at: float, trace: tracing.Trace) -> T:
    # A thread of a bulkhead runs in the trace of the call that it serves.
    with tracing.within(trace):
        return question.ask(ends_at)


def _foreseen(outcome: Done[T] | Failed | Late) -> Done[T] | Failed | Late:
    if isinstance(outcome, Failed) and not isinstance(outcome.error, ChildUnreachable):
        log.error("a child's answer could not be handled", exc_info=outcome.error)
        return Failed(
            ChildUnreachable("The answer of the child zone cannot be used.", code="child_invalid_answer")
        )
    return outcome
