"""Concurrent calls to several children, under one deadline.

Each child has two bulkheads of the executor, four threads together. A slow child never uses more threads,
however many callers wait for it, and never delays calls to other children. One of the four threads is for
health polls, so that a load of boots never makes a healthy child look late.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from zonesched import tracing
from zonesched.errors import ChildUnreachable
from zonesched.model.work_deadline import always
from zonesched.seams import Bulkhead, Clock, Done, Executor, Failed, Late
from zonesched.zones.call import BoundCall, Reply, Rest, late
from zonesched.zones.transport import Transport

WORK_THREADS = 3
HEALTH_THREADS = 1

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job(Generic[T]):
    """One call to one child; `ask` gets its deadline in monotonic seconds."""

    bulkhead: Bulkhead
    ask: Callable[[float], T]


@dataclass(frozen=True)
class Exchange(Generic[T]):
    """One request to one child, and the reader of its answer.

    `ended` gets its seconds when it has ended, also when nobody waits for it any more.
    """

    bulkhead: Bulkhead
    bound: BoundCall
    read: Callable[[Reply], T]
    ended: Callable[[float], None]


def work_bulkhead(child_id: str) -> Bulkhead:
    """Bulkhead of a child's boots, deletes and sync."""
    return Bulkhead(f"{child_id}-work", WORK_THREADS)


def health_bulkhead(child_id: str) -> Bulkhead:
    """Bulkhead of a child's polls."""
    return Bulkhead(f"{child_id}-health", HEALTH_THREADS)


def fan_out(
    executor: Executor,
    clock: Clock,
    jobs: Sequence[Job[T]],
    timeout_s: float,
    is_wanted: Callable[[], bool] = always,
) -> list[Done[T] | Failed | Late]:
    """Return one outcome for each job, in their order, after at most `timeout_s`.

    Return earlier once `is_wanted` is false.

    A failure is a ChildUnreachable, also where an unforeseen error met a child's answer.
    """
    ends_at = clock.monotonic() + timeout_s
    trace = tracing.current()
    calls = [(job.bulkhead, partial(_ask, job, ends_at, trace)) for job in jobs]
    return [_foreseen(outcome) for outcome in executor.gather(calls, timeout_s, is_wanted)]


def exchange(
    executor: Executor,
    clock: Clock,
    transport: Transport,
    exchanges: Sequence[Exchange[T]],
    timeout_s: float,
    is_wanted: Callable[[], bool] = always,
) -> list[Done[T] | Failed | Late]:
    """Variant of `fan_out` for single requests: this thread carries all that need no thread of their child.

    May wait for a turn, so only a thread that holds no lock may call it.
    """
    started_at = clock.monotonic()
    ends_at = started_at + timeout_s
    trace = tracing.current()
    ended: dict[int, Done[T] | Failed | Late] = {}
    rests: dict[int, Rest] = {}

    def finish(number: int, rest: Rest) -> T:
        began_at = clock.monotonic()
        try:
            if began_at >= ends_at:
                raise late()
            with tracing.within(trace):
                return exchanges[number].read(rest.finish(ends_at - began_at))
        finally:
            exchanges[number].ended(clock.monotonic() - began_at)

    def calls() -> Iterator[tuple[Bulkhead, Callable[[], T]]]:
        bounds = [one.bound for one in exchanges]
        for number, answer in transport.send_together(bounds, timeout_s, is_wanted):
            one = exchanges[number]
            if isinstance(answer, Reply | ChildUnreachable):
                ended[number] = _read(one, answer)
                one.ended(clock.monotonic() - started_at)
            else:
                rests[number] = answer
                yield one.bulkhead, partial(finish, number, answer)

    outcomes = executor.gather(calls(), timeout_s, is_wanted)
    ended.update(zip(rests, outcomes, strict=True))
    for rest in rests.values():
        rest.drop()
    return [_foreseen(ended[number]) for number in range(len(exchanges))]


def _read(exchange: Exchange[T], answer: Reply | ChildUnreachable) -> Done[T] | Failed:
    try:
        if isinstance(answer, ChildUnreachable):
            return Failed(answer)
        return Done(exchange.read(answer))
    except Exception as error:
        return Failed(error)


def _ask(job: Job[T], ends_at: float, trace: tracing.Trace) -> T:
    # A thread of a bulkhead runs in the trace of the call that it serves.
    with tracing.within(trace):
        return job.ask(ends_at)


def _foreseen(outcome: Done[T] | Failed | Late) -> Done[T] | Failed | Late:
    if isinstance(outcome, Failed) and not isinstance(outcome.error, ChildUnreachable):
        log.error("a child's answer could not be handled", exc_info=outcome.error)
        return Failed(
            ChildUnreachable("The answer of the child zone cannot be used.", code="child_invalid_answer")
        )
    return outcome
