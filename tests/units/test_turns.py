"""Turns of a caller's requests, and of callers at a child's bulkhead."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.builders.migrated import a_database
from tests.builders.real_processes import eventually
from tests.builders.stores import open_store
from zonesched.seams import Bulkhead, Done, ThreadExecutor
from zonesched.store.store import Transaction
from zonesched.turns import Turn, Turns, become_large, current, give_way, waiting

pytestmark = pytest.mark.once

ENDS_WITHIN_S = 10.0


class Request:
    """A request in a thread of its own: it computes until it is told to go on."""

    def __init__(self, all_turns: Turns, caller: str, *, waits: bool = False) -> None:
        self.computes = threading.Event()
        self.waits = threading.Event()
        self.computes_again = threading.Event()
        self.end_of_wait = threading.Event()
        self.end = threading.Event()
        self._turns, self._caller, self._has_wait = all_turns, caller, waits
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with self._turns.of(self._caller):
            self.computes.set()
            if self._has_wait:
                with waiting():
                    self.waits.set()
                    self.end_of_wait.wait(ENDS_WITHIN_S)
                self.computes_again.set()
            self.end.wait(ENDS_WITHIN_S)

    def over(self) -> None:
        self.end.set()
        self.thread.join(ENDS_WITHIN_S)


@contextmanager
def ended(*requests: Request) -> Iterator[None]:
    yield
    for request in requests:
        request.end_of_wait.set()
        request.over()


def asleep(all_turns: Turns, caller: str) -> int:
    return len(all_turns._asleep.get(caller, ()))


def test_only_so_many_requests_of_a_caller_compute_and_the_next_follows_in_order() -> None:
    all_turns = Turns(2)
    first, second = Request(all_turns, "a"), Request(all_turns, "a")
    assert first.computes.wait(ENDS_WITHIN_S) and second.computes.wait(ENDS_WITHIN_S)
    third = Request(all_turns, "a")
    eventually("the third sleeps", lambda: asleep(all_turns, "a") == 1)
    fourth = Request(all_turns, "a")
    eventually("the fourth sleeps", lambda: asleep(all_turns, "a") == 2)
    with ended(second, third, fourth):
        assert not third.computes.is_set()
        first.over()
        assert third.computes.wait(ENDS_WITHIN_S)
        assert not fourth.computes.is_set()


def test_another_caller_computes_at_once() -> None:
    all_turns = Turns(1)
    first = Request(all_turns, "a")
    assert first.computes.wait(ENDS_WITHIN_S)
    second, other = Request(all_turns, "a"), Request(all_turns, "b")
    with ended(first, second, other):
        assert other.computes.wait(ENDS_WITHIN_S)
        assert not second.computes.is_set()


def test_a_request_that_waits_lets_the_next_one_compute_and_goes_on_before_new_ones() -> None:
    all_turns = Turns(1)
    waits = Request(all_turns, "a", waits=True)
    assert waits.waits.wait(ENDS_WITHIN_S)
    second = Request(all_turns, "a")
    with ended(waits, second):
        assert second.computes.wait(ENDS_WITHIN_S)
        third = Request(all_turns, "a")
        with ended(third):
            eventually("the third sleeps", lambda: asleep(all_turns, "a") == 1)
            waits.end_of_wait.set()
            assert waits.computes_again.wait(ENDS_WITHIN_S)
            second.over()
            assert not third.computes.is_set()
            waits.over()
            assert third.computes.wait(ENDS_WITHIN_S)


def test_a_request_that_waits_within_a_lock_does_not_block_those_that_need_the_lock() -> None:
    all_turns, lock = Turns(1), threading.Lock()
    waits, goes_on = threading.Event(), threading.Event()

    def first() -> None:
        with all_turns.of("a"), lock, waiting():
            waits.set()
            goes_on.wait(ENDS_WITHIN_S)

    def second() -> None:
        with all_turns.of("a"), lock:
            pass

    threads = [threading.Thread(target=work, daemon=True) for work in (first, second)]
    threads[0].start()
    assert waits.wait(ENDS_WITHIN_S)
    threads[1].start()
    eventually("the second computes", lambda: all_turns._computing == {"a": 1})
    goes_on.set()
    for thread in threads:
        thread.join(ENDS_WITHIN_S)
    assert not any(thread.is_alive() for thread in threads)


def test_nothing_is_kept_of_callers_without_requests_also_after_a_failure() -> None:
    all_turns = Turns(1)
    for _ in range(3):
        with pytest.raises(LookupError), all_turns.of("a"), waiting():
            raise LookupError
    assert not all_turns._computing and not all_turns._asleep
    assert current() is None


def test_work_of_the_zone_itself_takes_no_turns() -> None:
    with waiting():
        assert current() is None


def test_a_wait_within_a_wait_gives_back_one_turn() -> None:
    all_turns = Turns(1)
    with all_turns.of("a"):
        assert current() == Turn(all_turns, "a")
        with waiting(), waiting():
            assert not all_turns._computing
        assert all_turns._computing == {"a": 1}


class Going:
    """A request in a thread of its own that waits, then gives way."""

    def __init__(self, all_turns: Turns, name: str, order: list[str], *, is_large: bool = False) -> None:
        self.waits, self.end_of_wait, self.end = (threading.Event() for _ in range(3))
        self.goes_on = threading.Event()
        self._turns, self._name, self._order, self._is_large = all_turns, name, order, is_large
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with self._turns.of("a"):
            if self._is_large:
                become_large()
            with waiting():
                self.waits.set()
                self.end_of_wait.wait(ENDS_WITHIN_S)
            give_way()
            self._order.append(self._name)
            self.goes_on.set()
            self.end.wait(ENDS_WITHIN_S)


def test_requests_that_waited_together_go_on_one_after_the_other_and_before_new_ones() -> None:
    all_turns, order = Turns(1), list[str]()
    first, second, third = (Going(all_turns, name, order) for name in ("1", "2", "3"))
    for request in (first, second, third):
        assert request.waits.wait(ENDS_WITHIN_S)

    first.end_of_wait.set()
    assert first.goes_on.wait(ENDS_WITHIN_S)
    new = Request(all_turns, "a")
    eventually("the new one sleeps", lambda: asleep(all_turns, "a") == 1)
    for number, request in enumerate((second, third), start=1):
        request.end_of_wait.set()
        eventually("it sleeps", lambda n=number: len(all_turns._begun.get("a", ())) == n)
    assert order == ["1"]
    for request in (first, second):
        request.end.set()
    assert third.goes_on.wait(ENDS_WITHIN_S)

    assert order == ["1", "2", "3"]
    assert not new.computes.is_set()
    with ended(new):
        third.end.set()
        assert new.computes.wait(ENDS_WITHIN_S)
    assert not all_turns._begun and not all_turns._asleep and not all_turns._computing


def test_a_request_below_the_limit_does_not_give_way() -> None:
    all_turns = Turns(2)
    other = Request(all_turns, "a")
    assert other.computes.wait(ENDS_WITHIN_S)
    with ended(other), all_turns.of("a"):
        give_way()
        assert all_turns._computing == {"a": 2}


def test_one_large_request_computes_beside_smaller_ones_of_its_caller() -> None:
    large = Turns(1)
    all_turns, order = Turns(1, large=large), list[str]()
    first = Going(all_turns, "1", order, is_large=True)
    assert first.waits.wait(ENDS_WITHIN_S)
    second = Going(all_turns, "2", order, is_large=True)
    assert second.waits.wait(ENDS_WITHIN_S)

    first.end_of_wait.set()
    assert first.goes_on.wait(ENDS_WITHIN_S)
    second.end_of_wait.set()
    eventually("the second sleeps", lambda: len(large._begun.get("a", ())) == 1)
    small = Request(all_turns, "a")

    with ended(small):
        assert small.computes.wait(ENDS_WITHIN_S)
        assert order == ["1"]
        first.end.set()
        assert second.goes_on.wait(ENDS_WITHIN_S)
        second.end.set()
        second.thread.join(ENDS_WITHIN_S)
    assert not large._computing and not all_turns._computing


class TestBulkhead:
    """Callers take turns at the threads of a bulkhead."""

    def test_a_call_does_not_wait_for_all_calls_of_another_caller(self) -> None:
        executor, order = ThreadExecutor(), list[str]()
        bulkhead = Bulkhead("child", 1)
        goes_on = threading.Event()
        all_turns = Turns(10)

        def gather(caller: str, *calls: str) -> threading.Thread:
            def run() -> None:
                with all_turns.of(caller):
                    executor.gather(
                        [(bulkhead, lambda name=name: order.append(name)) for name in calls], 10.0
                    )

            thread = threading.Thread(target=run)
            thread.start()
            return thread

        began = threading.Event()

        def hold() -> None:
            began.set()
            goes_on.wait(ENDS_WITHIN_S)

        holder = threading.Thread(target=lambda: executor.gather([(bulkhead, hold)], 10.0))
        holder.start()
        assert began.wait(ENDS_WITHIN_S)
        many = gather("greedy", *[f"greedy-{number}" for number in range(5)])
        eventually("they wait", lambda: len(executor._bulkheads[bulkhead]._waiting.get("greedy", ())) == 5)
        one = gather("other", "other")
        eventually("both wait", lambda: len(executor._bulkheads[bulkhead]._waiting) == 2)
        goes_on.set()
        for thread in (holder, many, one):
            thread.join(ENDS_WITHIN_S)
        executor.stop()
        assert order[:3] == ["greedy-0", "other", "greedy-1"]
        assert len(order) == 6

    def test_slow_calls_of_one_caller_leave_a_thread_for_another(self) -> None:
        executor, all_turns = ThreadExecutor(), Turns(10)
        bulkhead = Bulkhead("child", 3)
        goes_on, began = threading.Event(), threading.Semaphore(0)

        def slow() -> None:
            began.release()
            goes_on.wait(ENDS_WITHIN_S)

        def storm() -> None:
            with all_turns.of("greedy"):
                executor.gather([(bulkhead, slow)] * 6, ENDS_WITHIN_S)

        greedy = threading.Thread(target=storm)
        greedy.start()
        assert began.acquire(timeout=ENDS_WITHIN_S) and began.acquire(timeout=ENDS_WITHIN_S)
        with all_turns.of("other"):
            assert executor.gather([(bulkhead, lambda: 1)] * 3, ENDS_WITHIN_S) == [Done(1)] * 3
        assert not began.acquire(blocking=False), "a third slow call has begun"
        goes_on.set()
        greedy.join(ENDS_WITHIN_S)
        for _ in range(4):
            assert began.acquire(timeout=ENDS_WITHIN_S)
        executor.stop()

    def test_a_call_computes_in_a_turn_of_its_caller_and_waits_outside_it(self) -> None:
        executor, all_turns, seen = ThreadExecutor(), Turns(1), list[object]()

        def call() -> None:
            seen.append(dict(all_turns._computing))
            with waiting():
                seen.append(dict(all_turns._computing))

        with all_turns.of("a"):
            executor.gather([(Bulkhead("child", 1), call)], ENDS_WITHIN_S)
        executor.stop()
        assert seen == [{"a": 1}, {}]

    def test_work_of_the_zone_itself_uses_all_threads(self) -> None:
        executor, together = ThreadExecutor(), threading.Barrier(3)
        outcomes = executor.gather([(Bulkhead("child", 3), lambda: together.wait(ENDS_WITHIN_S))] * 3, 20.0)
        executor.stop()
        assert all(isinstance(outcome, Done) for outcome in outcomes)


def test_a_read_keeps_the_turn_and_a_write_gives_it_to_the_next_request(tmp_path: Path) -> None:
    store, all_turns = open_store(a_database(tmp_path / "zone.sqlite")), Turns(1)
    with all_turns.of("a"):
        assert store.read(lambda tx: dict(all_turns._computing)) == {"a": 1}
        assert store.write(lambda tx: dict(all_turns._computing)) == {}
        assert all_turns._computing == {"a": 1}
    store.close()


def test_no_more_requests_of_a_caller_read_rows_than_may_compute(tmp_path: Path) -> None:
    store, all_turns = open_store(a_database(tmp_path / "zone.sqlite")), Turns(2)
    lock, all_asleep = threading.Lock(), threading.Event()
    reading = most = 0

    def in_transaction(tx: Transaction) -> None:
        nonlocal reading, most
        with lock:
            reading += 1
            most = max(most, reading)
        all_asleep.wait(ENDS_WITHIN_S)
        with lock:
            reading -= 1

    def run() -> None:
        with all_turns.of("a"):
            store.read(in_transaction)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    eventually("each request reads or sleeps", lambda: reading + asleep(all_turns, "a") == 8, ENDS_WITHIN_S)
    all_asleep.set()
    for thread in threads:
        thread.join(ENDS_WITHIN_S)
    store.close()
    assert most == 2
