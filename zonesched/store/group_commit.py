"""Group commit: one transaction for all writers of a process that wait at the same time.

A commit waits for the disk, and a database with one writer at a time makes all others wait for it too. So
writers that arrive during a commit are queued; the first of them then runs the functions of all, in order and
each within a savepoint, and commits once. No writer returns before that commit.

    writer 1   |-- writes --|- commit -|
    writer 2     (waits)               |-- writes 2, 3, 4 --|- commit -|
    writer 3         (waits)           ...............................answered
    writer 4             (waits)       ...............................answered
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from sqlalchemy.engine import Connection

from zonesched.store import outcomes
from zonesched.store.prepared import run_text

T = TypeVar("T")

MAX_IN_ONE = 64
"""Limit of writers in one transaction: another process that wants to write waits for all of them."""


class _Job:
    """The function of one writer, and its result once `ended` is set."""

    def __init__(self, fn: Callable[[Connection], Any]) -> None:
        self.fn = fn
        self.ended = False
        self.value: Any = None
        self.error: Exception | None = None
        # Only who waits has one: it takes a quarter of the time that an empty write on SQLite takes.
        self.turn: threading.Event | None = None

    def let_go(self) -> None:
        """End the wait of its writer, if it waits."""
        if self.turn is not None:
            self.turn.set()


class GroupCommit:
    """Runs functions of many threads in few transactions; `begin` opens one for a `with` block."""

    def __init__(self, begin: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._begin = begin
        self._lock = threading.Lock()
        self._waiting: deque[_Job] = deque()
        self._somebody_writes = False

    def run(self, fn: Callable[[Connection], T]) -> T:
        """Return the result of `fn` once committed; an exception of `fn` rolls back its own writes alone.

        An error of the commit is raised to every writer of the group.
        """
        job = _Job(fn)
        with self._lock:
            turn = job.turn = threading.Event() if self._somebody_writes else None
            self._waiting.append(job)
            self._somebody_writes = True
        if turn is not None:
            turn.wait()
        if not job.ended:
            self._write_for_all()
        if job.error is not None:
            raise job.error
        value: T = job.value
        return value

    def _write_for_all(self) -> None:
        with self._lock:
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_IN_ONE))]
        try:
            self._commit(group)
        except Exception as error:
            for job in group:
                job.error = job.error or error
        except BaseException:
            # This thread ends (KeyboardInterrupt, SystemExit) without writing; another writer takes over.
            self._hand_over(group[1:])
            raise
        for job in group:
            job.ended = True
        self._hand_over([])
        for job in group:
            job.let_go()

    def _commit(self, group: Sequence[_Job]) -> None:
        for job in group:
            # One that is written again may have failed before.
            job.error = None
        with self._begin() as tx:
            if len(group) == 1:
                # No savepoint: an exception rolls back the transaction, which has no other writer.
                group[0].value = group[0].fn(tx)
                return
            for job in group:
                done = len(outcomes.noted(tx))
                run_text(tx, "SAVEPOINT one_writer")
                try:
                    job.value = job.fn(tx)
                except Exception as error:
                    job.error = error
                    del outcomes.noted(tx)[done:]
                    # Fails if a full disk has rolled back the transaction: then all writers fail.
                    run_text(tx, "ROLLBACK TO one_writer")
                run_text(tx, "RELEASE one_writer")

    def _hand_over(self, unwritten: Sequence[_Job]) -> None:
        """Wake the writer that has waited longest."""
        with self._lock:
            self._waiting.extendleft(reversed(unwritten))
            self._somebody_writes = bool(self._waiting)
            if self._waiting:
                self._waiting[0].let_go()
