"""Threads of one process, each a task under the baton: bulkheads, late fan-outs, loops that are woken."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from tests.simulation.baton import Baton, Process, Task
from zonesched.seams import Bulkhead, Done, Failed, Late, ThreadLoop

T = TypeVar("T")
log = logging.getLogger("zonesched.simulation")


class BatonLoop:
    """Variant of `zonesched.seams.ThreadLoop` on a task."""

    def __init__(self, baton: Baton, process: Process, name: str, step: Callable[[], float]) -> None:
        self._baton = baton
        self._name = name
        self._step = step
        self._is_woken = False
        self._is_pausing = False
        self.is_stopped = False
        self.task = baton.spawn(process, name, self._run)

    def wake(self) -> bool:
        ends_pause = self._is_pausing and not self._is_woken
        self._is_woken = True
        if self._is_pausing:
            self._baton.wake(self.task)
        return ends_pause

    def stop(self) -> None:
        self.is_stopped = True
        self.wake()

    def _run(self) -> None:
        while True:
            self._is_woken = False
            if self.is_stopped:
                return
            try:
                pause_s = self._step()
            except Exception:
                log.exception("background step %s failed", self._name)
                pause_s = ThreadLoop.retry_pause_s
            if not self._is_woken:
                self._is_pausing = True
                self._baton.park(pause_s)
                self._is_pausing = False


class _Job:
    """One call of a fan-out."""

    def __init__(self, bulkhead: Bulkhead, call: Callable[[], object], waiter: Task) -> None:
        self.bulkhead = bulkhead
        self.call = call
        self.waiter = waiter
        self.outcome: object = None
        self.is_cancelled = False


class BatonExecutor:
    """`zonesched.seams.Executor` of one process."""

    def __init__(self, baton: Baton, process: Process) -> None:
        self._baton = baton
        self._process = process
        self._busy: dict[Bulkhead, int] = {}
        self._queues: dict[Bulkhead, deque[_Job]] = {}
        self._loops: list[BatonLoop] = []

    def gather(
        self,
        calls: Iterable[tuple[Bulkhead, Callable[[], T]]],
        timeout_s: float,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> list[Done[T] | Failed | Late]:
        waiter = self._baton.current
        assert waiter is not None
        jobs = [_Job(bulkhead, call, waiter) for bulkhead, call in calls]
        for job in jobs:
            self._queues.setdefault(job.bulkhead, deque()).append(job)
            self._start_next(job.bulkhead)
        ends_at = self._baton.now + max(0.0, timeout_s)
        while any(job.outcome is None for job in jobs) and self._baton.now < ends_at:
            self._baton.park(ends_at - self._baton.now)
        for job in jobs:
            job.is_cancelled = job.outcome is None
        return [job.outcome or Late() for job in jobs]

    def keep_bulkheads(self, bulkheads: Collection[Bulkhead]) -> None:
        """A bulkhead here is nothing but a count of what runs in it."""

    def pause(self, seconds: float) -> None:
        self._baton.park(seconds)

    def start_loop(self, name: str, step: Callable[[], float]) -> BatonLoop:
        loop = BatonLoop(self._baton, self._process, name, step)
        self._loops.append(loop)
        return loop

    def stop(self) -> None:
        for loop in self._loops:
            loop.stop()

    def _start_next(self, bulkhead: Bulkhead) -> None:
        queue = self._queues[bulkhead]
        while queue and self._busy.get(bulkhead, 0) < bulkhead.threads:
            job = queue.popleft()
            if not job.is_cancelled:
                self._busy[bulkhead] = self._busy.get(bulkhead, 0) + 1
                self._baton.spawn(
                    self._process, f"bulkhead-{bulkhead.name[:8]}", lambda job=job: self._work(job)
                )

    def _work(self, job: _Job) -> None:
        try:
            job.outcome = Done(job.call())
        except Exception as error:
            job.outcome = Failed(error)
        self._busy[job.bulkhead] -= 1
        self._start_next(job.bulkhead)
        self._baton.wake(job.waiter)
