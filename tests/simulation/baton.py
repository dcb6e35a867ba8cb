"""Many tasks in one thread: one of them holds the baton, and passes it on where it pauses or waits.

Tasks are greenlets. A pause ends at a moment of simulated time, and whoever's moment is next runs next: which
one that is follows from the pauses alone, so that equal pauses give equal runs. Nothing sleeps.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent, greenlet


class ProcessDied(BaseException):
    """The process of this task is gone; nothing of it may catch this."""


class Process:
    """Tasks that live and die together. While `frozen_until` is ahead none of them runs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.frozen_until = 0.0
        self.tasks: dict[Task, None] = {}


class Task:
    """One flow of a process; `turn` counts its pauses, what ended an earlier one ends no later one."""

    def __init__(self, baton: Baton, process: Process, name: str, fn: Callable[[], None]) -> None:
        self.process = process
        self.name = name
        self.turn = 0
        self.is_parked = False
        self.was_woken = False
        self._fn = fn
        self.flow = greenlet(self._run, parent=baton.hub)

    def _run(self) -> None:
        try:
            if not self.process.is_dead:
                self._fn()
        except ProcessDied:
            pass
        finally:
            self.process.tasks.pop(self, None)


class Baton:
    """Simulated time in seconds, and what is to happen when."""

    def __init__(self) -> None:
        self.now = 0.0
        self.hub = getcurrent()
        self.current: Task | None = None
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._processes: dict[Process, None] = {}
        self._count = 0
        self._until = 0.0
        self._is_over: Callable[[], bool] = lambda: False

    def at(self, moment: float, action: Callable[..., None], *args: Any) -> None:
        """Do this then, outside of all tasks; of one moment's actions the first asked for is first."""
        self._count += 1
        heapq.heappush(self._events, (max(moment, self.now), self._count, action, args))

    def spawn(self, process: Process, name: str, fn: Callable[[], None]) -> Task:
        """A new task of a process, which starts now."""
        task = Task(self, process, name, fn)
        process.tasks[task] = None
        self._processes[process] = None
        self._resume_at(self.now, task)
        return task

    def pause(self, seconds: float) -> None:
        """Let others go on; back after so long. Raises ProcessDied."""
        task = self._me()
        moment = self.now + seconds
        if self._is_next(task, moment):
            self.now = moment
            return
        self._resume_at(moment, task)
        self._let_go(task)

    def park(self, seconds: float) -> bool:
        """Wait to be woken, at most so long; whether it was. Raises ProcessDied."""
        task = self._me()
        moment = self.now + seconds
        if self._is_next(task, moment):
            self.now = moment
            return False
        task.was_woken = False
        task.is_parked = True
        if seconds != float("inf"):
            self._resume_at(moment, task)
        try:
            self._let_go(task)
        finally:
            task.is_parked = False
        return task.was_woken

    def wake(self, task: Task) -> None:
        """End a task's wait now."""
        if task.is_parked and not task.was_woken:
            task.was_woken = True
            self._resume_at(self.now, task)

    def kill(self, process: Process) -> None:
        """No task of the process does anything more. Whoever calls from within it raises ProcessDied."""
        process.is_dead = True
        self.at(self.now, self._end_tasks, process)

    def close(self) -> None:
        """End all tasks: a flow that is never ended keeps all that it has, which no collector finds."""
        for process in self._processes:
            process.is_dead = True
            self._end_tasks(process)

    def run(self, until: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Let everything happen that is due up to a moment, or until it is over."""
        self._until, self._is_over = until, is_over
        while self._events and self._events[0][0] <= until and not is_over():
            self.now, _, action, args = heapq.heappop(self._events)
            action(*args)
        if not is_over():
            self.now = max(self.now, until)

    def _is_next(self, task: Task, moment: float) -> bool:
        """Tell whether nothing happens before a task that waits until then: it may go on without a switch."""
        return (
            moment <= self._until
            and (not self._events or self._events[0][0] > moment)
            and task.process.frozen_until <= moment
            and not self._is_over()
        )

    def _me(self) -> Task:
        task = self.current
        assert task is not None, "only a task can wait"
        if task.process.is_dead:
            raise ProcessDied
        return task

    def _resume_at(self, moment: float, task: Task) -> None:
        self.at(moment, self._resume, task, task.turn)

    def _resume(self, task: Task, turn: int) -> None:
        if task.turn != turn or task.flow.dead:
            return
        if task.process.frozen_until > self.now and not task.process.is_dead:
            self.at(task.process.frozen_until, self._resume, task, turn)
            return
        task.turn += 1
        self._switch(task, task.flow.switch)

    def _let_go(self, task: Task) -> None:
        self.hub.switch()
        if task.process.is_dead:
            raise ProcessDied

    def _end_tasks(self, process: Process) -> None:
        for task in list(process.tasks):
            task.turn += 1
            if task.flow:
                self._switch(task, lambda flow=task.flow: flow.throw(ProcessDied()))
        process.tasks.clear()

    def _switch(self, task: Task, go: Callable[[], object]) -> None:
        self.current = task
        try:
            go()
        finally:
            self.current = None
