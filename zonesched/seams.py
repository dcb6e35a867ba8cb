"""Seams that block or vary, injected everywhere: the clock, and the executor of threads and pauses.

The other two seams are the transport between zones (`zonesched.zones.transport`) and the store session
(`zonesched.store.store`). Nothing else in the package sleeps, starts a thread, reads the time or draws a
random number, so that a simulator can replace all four.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from zonesched import turns

T = TypeVar("T")
_Waiting = tuple["turns.Turn | None", Future[Any], Callable[[], Any]]
log = logging.getLogger(__name__)


class Clock(Protocol):
    """Time, randomness and ids."""

    def now(self) -> float:
        """UTC epoch seconds; may jump."""

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean anything."""

    def random_bytes(self, count: int) -> bytes:
        """Unpredictable bytes, fit for salts and secrets."""

    def new_uuid(self) -> str:
        """A new UUID in its canonical text form."""

    def new_uuids(self, count: int) -> tuple[str, ...]:
        """So many new UUIDs, as `new_uuid` makes them."""


@dataclass(frozen=True)
class Done(Generic[T]):
    """A call that ended in time."""

    value: T


@dataclass(frozen=True)
class Failed:
    """A call that raised in time."""

    error: Exception


@dataclass(frozen=True)
class Late:
    """A call that had not ended when the wait was over; its result will be dropped."""


class Loop(Protocol):
    """A piece of background work that repeats."""

    def wake(self) -> bool:
        """Start the next step at once; return whether that ends a pause, and so nobody did before."""


class Bulkhead(NamedTuple):
    """A named pool of at most `threads` threads, which the calls of one kind share."""

    name: str
    threads: int


class Executor(Protocol):
    """Threads and pauses."""

    def gather(
        self,
        calls: Iterable[tuple[Bulkhead, Callable[[], T]]],
        timeout_s: float,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> list[Done[T] | Failed | Late]:
        """Run the calls concurrently, each in its bulkhead; return one outcome each, in order.

        Each begins when `calls` yields it: what `calls` does by itself goes on beside those before.
        Return after at most `timeout_s` seconds, or soon after `is_wanted` has become false. All callers
        share the threads of a bulkhead in turn, so slow calls delay nothing outside their own, and many calls
        of one caller delay another's by one call. A call that could not start in time is Late and never
        starts.
        """

    def keep_bulkheads(self, bulkheads: Collection[Bulkhead]) -> None:
        """Release the threads of all other bulkheads, each once its calls have ended."""

    def pause(self, seconds: float) -> None:
        """Let the calling thread rest; others may use its processor meanwhile."""

    def start_loop(self, name: str, step: Callable[[], float]) -> Loop:
        """Repeat `step` in the background; it returns the pause in seconds until the next step."""

    def stop(self) -> None:
        """Let each loop finish its current step, as far as time allows, and start no other."""


_RANDOM_DIGITS = 20
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


class SystemClock:
    """The machine's own time and randomness."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def new_uuid(self) -> str:
        """Return a UUID that begins with milliseconds, as version 7 does, and is named version 4.

        Rows written together are neighbours in every index of such ids, so few pages change. gophercloud, and
        with it Terraform's provider, takes only the versions 1 to 5 as ids of groups and servers in hints.
        """
        return self.new_uuids(1)[0]

    def new_uuids(self, count: int) -> tuple[str, ...]:
        milliseconds = f"{time.time_ns() // 1_000_000:012x}"
        began = f"{milliseconds[:8]}-{milliseconds[8:]}-4"
        digits = os.urandom(count * _RANDOM_DIGITS // 2).hex()
        return tuple(
            [
                f"{began}{digits[at : at + 3]}-{_VARIANT[digits[at + 3]]}{digits[at + 4 : at + 7]}"
                f"-{digits[at + 7 : at + 19]}"
                for at in range(0, len(digits), _RANDOM_DIGITS)
            ]
        )


class SuspendAwareClock(SystemClock):
    """The same, with monotonic seconds that all its processes share and that go on while it is suspended."""

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)


class ThreadLoop:
    """One background thread that repeats a step; a step that raises is logged and tried again."""

    retry_pause_s = 1.0

    def __init__(self, name: str, step: Callable[[], float]) -> None:
        self._step = step
        self._name = name
        self._wake = threading.Event()
        self._pauses = False
        self._stopped = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def wake(self) -> bool:
        # Two that wake it at the same moment may both hear that they have: it steps until nothing is left.
        ends_pause = self._pauses and not self._wake.is_set()
        self._wake.set()
        return ends_pause

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()

    def _run(self) -> None:
        while True:
            # The event is cleared before the step, so a wake during the step starts another one. `_stopped`
            # is read after the clear, which also clears the event of a stop that came just before.
            self._wake.clear()
            if self._stopped:
                return
            try:
                pause_s = self._step()
            except BaseException:
                # Also a SystemExit, which would end this thread without a word.
                log.exception("background step %s failed", self._name)
                pause_s = self.retry_pause_s
            if pause_s > 0.0:
                self._pauses = True
                self._wake.wait(pause_s)
                self._pauses = False


class _Pool:
    """The threads of a bulkhead, and the calls that wait for one.

    Callers take turns. One of several threads is never used by a caller that has all others, so a caller with
    many slow calls does not hold up the next one; only the zone's own work may use all.
    """

    def __init__(self, bulkhead: Bulkhead) -> None:
        self._threads = ThreadPoolExecutor(bulkhead.threads, thread_name_prefix=f"bulkhead-{bulkhead.name}")
        self._max_running = max(1, bulkhead.threads - 1)
        self._lock = threading.Lock()
        self._running: Counter[Hashable] = Counter()
        # In turn: the next caller comes first.
        self._waiting: OrderedDict[Hashable, deque[_Waiting]] = OrderedDict()

    def submit(self, turn: turns.Turn | None, call: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        caller = turn and turn.caller
        with self._lock:
            self._waiting.setdefault(caller, deque()).append((turn, future, call))
        self._threads.submit(self._run)
        return future

    def shutdown(self, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            with self._lock:
                self._waiting.clear()
        self._threads.shutdown(wait=False, cancel_futures=cancel_futures)

    def _run(self) -> None:
        # A call that its caller's others leave no thread for is begun by the first of them that ends.
        while taken := self._take():
            caller, (turn, future, call) = taken
            if future.set_running_or_notify_cancel():
                try:
                    with turns.within(turn):
                        result = call()
                    future.set_result(result)
                except BaseException as error:
                    future.set_exception(error)
            with self._lock:
                self._running -= Counter({caller: 1})

    def _take(self) -> tuple[Hashable, _Waiting] | None:
        with self._lock:
            may_run = [c for c in self._waiting if c is None or self._running[c] < self._max_running]
            if not may_run:
                return None
            caller = may_run[0]
            calls = self._waiting.pop(caller)
            self._running[caller] += 1
            found = calls.popleft()
            if calls:
                self._waiting[caller] = calls
            return caller, found


class ThreadExecutor:
    """Runs real threads: a small pool per bulkhead, one thread per loop."""

    stop_within_s = 10.0
    look_s = 0.25
    """Pause between two looks whether the outcomes of a gather are still wanted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bulkheads: dict[Bulkhead, _Pool] = {}
        self._loops: list[ThreadLoop] = []

    def gather(
        self,
        calls: Iterable[tuple[Bulkhead, Callable[[], T]]],
        timeout_s: float,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> list[Done[T] | Failed | Late]:
        ends_at = time.monotonic() + timeout_s
        futures = [self._submit(bulkhead, call) for bulkhead, call in calls]
        pending = set(futures)
        with turns.waiting():
            while pending and (left_s := ends_at - time.monotonic()) > 0 and is_wanted():
                pending = wait(pending, timeout=min(left_s, self.look_s)).not_done
        return [self._outcome(future) for future in futures]

    def _submit(self, bulkhead: Bulkhead, call: Callable[[], T]) -> Future[T]:
        with self._lock:
            if bulkhead not in self._bulkheads:
                self._bulkheads[bulkhead] = _Pool(bulkhead)
            return self._bulkheads[bulkhead].submit(turns.current(), call)

    def keep_bulkheads(self, bulkheads: Collection[Bulkhead]) -> None:
        with self._lock:
            ended = [self._bulkheads.pop(bulkhead) for bulkhead in self._bulkheads.keys() - set(bulkheads)]
        for pool in ended:
            pool.shutdown()

    @staticmethod
    def _outcome(future: Future[T]) -> Done[T] | Failed | Late:
        if not future.done():
            future.cancel()
            return Late()
        error = future.exception()
        if error is None:
            return Done(future.result())
        if isinstance(error, Exception):
            return Failed(error)
        raise error

    def pause(self, seconds: float) -> None:
        with turns.waiting():
            time.sleep(seconds)

    def start_loop(self, name: str, step: Callable[[], float]) -> Loop:
        loop = ThreadLoop(name, step)
        self._loops.append(loop)
        return loop

    def stop(self) -> None:
        for loop in self._loops:
            loop.stop()
        ends_at = time.monotonic() + self.stop_within_s
        for loop in self._loops:
            loop.thread.join(timeout=max(0.0, ends_at - time.monotonic()))
        for pool in self._bulkheads.values():
            pool.shutdown(cancel_futures=True)
