"""Several children are asked side by side, and a bad one costs nothing but its own offers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.builders.clock import FakeClock
from tests.builders.inline_executor import InlineExecutor
from zonesched.errors import ChildUnreachable
from zonesched.seams import Done, Failed, Late, SystemClock, ThreadExecutor
from zonesched.zones.fan_out import (
    HEALTH_THREADS,
    WORK_THREADS,
    Job,
    exchange,
    fan_out,
    health_bulkhead,
    work_bulkhead,
)

SHORT_S = 0.3
LATE_S = 6.0


@pytest.fixture
def threads() -> Iterator[ThreadExecutor]:
    executor = ThreadExecutor()
    yield executor
    executor.stop()


def ask(
    executor: ThreadExecutor, *calls: tuple[str, Callable[[float], str]], timeout_s: float = 5.0
) -> Sequence[object]:
    return fan_out(
        executor, SystemClock(), [Job(work_bulkhead(child), call) for child, call in calls], timeout_s
    )


class Patient(InlineExecutor):
    """An executor that notes how long its callers would wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_s: list[float] = []

    def gather(self, calls: Any, timeout_s: float, is_wanted: Callable[[], bool] = lambda: True) -> Any:
        self.waits_s.append(timeout_s)
        return super().gather(calls, timeout_s, is_wanted)


class Silent:
    """A transport over which no child answers at once."""

    def send_together(self, bounds: object, timeout_s: float, is_wanted: object) -> Iterator[Any]:
        return iter(())


def test_nobody_waits_longer_than_the_time() -> None:
    executor = Patient()
    ask(executor, ("child", says("1")), timeout_s=7.0)  # type: ignore[arg-type]
    exchange(executor, SystemClock(), Silent(), (), 9.0)  # type: ignore[arg-type]
    assert executor.waits_s == [7.0, 9.0]


def says(text: str) -> Callable[[float], str]:
    return lambda ends_at: text


def test_outcomes_are_in_the_order_of_the_questions(threads: ThreadExecutor) -> None:
    assert ask(threads, ("b", says("1")), ("a", says("2")), ("b", says("3"))) == [
        Done("1"),
        Done("2"),
        Done("3"),
    ]


def test_nobody_to_ask_takes_no_time(threads: ThreadExecutor) -> None:
    assert ask(threads) == []


def test_children_are_asked_at_the_same_time(threads: ThreadExecutor) -> None:
    all_there = threading.Barrier(6, timeout=30)

    def meet(ends_at: float) -> str:
        all_there.wait()
        return "met"

    assert ask(threads, *((f"child-{n}", meet) for n in range(6))) == [Done("met")] * 6


def test_a_caller_that_hangs_up_ends_the_wait_and_what_has_not_started(threads: ThreadExecutor) -> None:
    over, started = threading.Event(), threading.Event()
    runs: list[float] = []

    def hang(ends_at: float) -> str:
        runs.append(ends_at)
        started.set()
        return str(over.wait(10))

    questions = [Job(work_bulkhead("slow"), hang) for _ in range(WORK_THREADS + 1)]
    outcomes = fan_out(threads, SystemClock(), questions, 10.0, lambda: not started.is_set())
    over.set()

    assert outcomes == [Late()] * (WORK_THREADS + 1)
    assert len(runs) <= WORK_THREADS


def test_a_late_child_costs_only_its_own_offer_and_no_more_than_the_time(threads: ThreadExecutor) -> None:
    over = threading.Event()
    started = time.monotonic()

    outcomes = ask(
        threads,
        ("healthy", says("1")),
        ("late", lambda ends_at: str(over.wait(10))),
        ("other", says("2")),
        timeout_s=SHORT_S,
    )
    over.set()

    assert outcomes == [Done("1"), Late(), Done("2")]
    assert SHORT_S <= time.monotonic() - started < LATE_S


def test_a_failure_is_handed_back_with_its_code(threads: ThreadExecutor) -> None:
    def fail(ends_at: float) -> str:
        raise ChildUnreachable("The child zone refused the call.", code="child_refused")

    (outcome,) = ask(threads, ("dead", fail))

    assert isinstance(outcome, Failed) and outcome.error.code == "child_refused"  # type: ignore[attr-defined]


def test_an_unforeseen_error_is_an_unusable_answer_and_goes_to_the_log(
    threads: ThreadExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble(ends_at: float) -> str:
        raise KeyError("SECRET")

    with caplog.at_level(logging.ERROR):
        outcome, other = ask(threads, ("odd", stumble), ("healthy", says("1")))

    assert isinstance(outcome, Failed) and isinstance(outcome.error, ChildUnreachable)
    assert (outcome.error.code, "SECRET" in outcome.error.message) == ("child_invalid_answer", False)
    assert other == Done("1")
    assert "could not be handled" in caplog.text


def test_every_question_knows_when_it_has_to_end() -> None:
    clock = FakeClock()
    told: list[Any] = []

    fan_out(
        InlineExecutor(),
        clock,
        [Job(work_bulkhead(child), told.append) for child in "ab"],
        timeout_s=7.0,
    )

    assert told == [clock.monotonic() + 7.0] * 2


def test_a_child_that_hangs_ties_up_few_threads_and_holds_up_nobody_else(threads: ThreadExecutor) -> None:
    over, entered = threading.Event(), []

    def hang(ends_at: float) -> str:
        entered.append(threading.get_ident())
        over.wait(10)
        return "late"

    callers = [
        threading.Thread(
            target=ask, args=(threads, ("stuck", hang), ("healthy", says("1"))), kwargs={"timeout_s": SHORT_S}
        )
        for _ in range(3 * WORK_THREADS)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    outcomes = ask(threads, ("healthy", says("1")), ("stuck", hang), timeout_s=SHORT_S)
    tied_up = len(set(entered))
    over.set()

    assert tied_up == WORK_THREADS
    assert outcomes == [Done("1"), Late()]


def test_a_question_that_could_not_start_in_time_is_never_asked(threads: ThreadExecutor) -> None:
    over, asked = threading.Event(), []
    busy = [("child", lambda ends_at: str(over.wait(10)))] * WORK_THREADS

    def late(ends_at: float) -> str:
        asked.append("late")
        return ""

    outcomes = ask(threads, *busy, ("child", late), timeout_s=SHORT_S)
    over.set()
    ask(threads, *(("child", says("1")) for _ in range(20)))

    assert outcomes[-1] == Late()
    assert asked == []


def bulkheads_of(child: str) -> list[str]:
    """The living threads of a child's bulkheads."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(f"bulkhead-{child}-")]


def test_a_child_whose_work_hangs_is_asked_how_it_is_by_a_thread_kept_for_that(
    threads: ThreadExecutor,
) -> None:
    over, all_taken = threading.Event(), threading.Barrier(WORK_THREADS + 1, timeout=30)

    def hang(ends_at: float) -> None:
        all_taken.wait()
        over.wait(10)

    hanging = [Job(work_bulkhead("busy"), hang)] * WORK_THREADS
    caller = threading.Thread(target=fan_out, args=(threads, SystemClock(), hanging, 30.0))
    caller.start()
    all_taken.wait()

    outcomes = fan_out(threads, SystemClock(), [Job(health_bulkhead("busy"), says("well"))], timeout_s=9.0)
    tied_up = len(bulkheads_of("busy"))
    over.set()
    caller.join()

    assert outcomes == [Done("well")]
    assert tied_up <= WORK_THREADS + HEALTH_THREADS == 4


def test_threads_of_bulkheads_that_are_not_kept_end_with_their_calls(threads: ThreadExecutor) -> None:
    over = threading.Event()
    ask(threads, ("kept", says("1")), ("gone", lambda ends_at: str(over.wait(10))), timeout_s=SHORT_S)

    threads.keep_bulkheads([work_bulkhead("kept")])
    still = len(bulkheads_of("gone"))
    leaving = [thread for thread in threading.enumerate() if thread.name.startswith("bulkhead-gone-")]
    over.set()
    for thread in leaving:
        thread.join(timeout=30)

    assert (still, len(bulkheads_of("gone")), len(bulkheads_of("kept"))) == (1, 0, 1)
    assert ask(threads, ("gone", says("again"))) == [Done("again")]
