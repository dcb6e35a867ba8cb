"""One side of a schedule: a thread that runs a service of the zone, and stops before each statement."""

from __future__ import annotations

import enum
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


class Standing(enum.Enum):
    """READY: before a statement, until it has the turn. RUNNING: it has it, or waits for a lock."""

    READY = "ready"
    RUNNING = "running"
    ENDED = "ended"


class Blow(enum.Enum):
    """DIES: the process ends before a statement. UNHEARD: a commit is done, and its answer is lost."""

    DIES = "dies"
    UNHEARD = "unheard"


@dataclass(frozen=True)
class Strike:
    """Blow to a player at the step of this number, from 1. `end` ends the connection of a pid."""

    at: int
    blow: Blow
    end: Callable[[int], object] = field(repr=False)


class Killed(BaseException):
    """The process is gone; nothing of it may catch this."""


@dataclass(eq=False)
class Player:
    """One caller of a service, in a thread of its own.

    `letter`: its name in orders. `conflicts`: SQLSTATEs of the transactions that were rolled back. `steps`:
    the statements that it has begun. `ends`: how many it had begun at the end of each transaction that was
    not run again. `strike`: what happens to its process. `goes_on`: whether the next turn is its own as well,
    which saves two switches of threads. `changed` guards all of it.
    """

    letter: str
    act: Callable[[], object]
    changed: threading.Condition
    goes_on: Callable[[Player], bool] = lambda player: False
    standing: Standing = Standing.RUNNING
    pid: int = 0
    is_inside: bool = False
    is_waiting: bool = False
    has_freed: bool = False
    result: object = None
    error: BaseException | None = None
    conflicts: Counter[str] = field(default_factory=Counter)
    steps: list[str] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    strike: Strike | None = None
    _has_turn: bool = False
    _is_writing: bool = False

    def start(self) -> threading.Thread:
        """Begin; the thread stops before the first statement."""
        thread = threading.Thread(target=self._run, name=f"player-{self.letter}", daemon=True)
        thread.start()
        return thread

    def give_turn(self) -> None:
        """Let it go on until the next statement; the caller holds `changed`."""
        self._has_turn, self.standing, self.has_freed = True, Standing.RUNNING, False
        self.changed.notify_all()

    def pause(self, pid: int, statement: str) -> None:
        """Stop before a statement of the connection `pid` until it is this player's turn."""
        with self.changed:
            self.standing, self.pid, self.is_waiting = Standing.READY, pid, False
            if self.goes_on(self):
                self.standing = Standing.RUNNING
            else:
                self.changed.notify_all()
                self.changed.wait_for(lambda: self._has_turn)
                self._has_turn = False
            self.is_inside = self._is_writing
            # A rollback to a savepoint frees locks in the middle of a transaction.
            self.has_freed = statement.startswith("ROLLBACK")
            self.steps.append(statement)
        if self.strike is not None and self.strike.blow is Blow.DIES and len(self.steps) >= self.strike.at:
            # What it has begun the server rolls back.
            self.strike.end(pid)
            raise Killed

    def hears(self, pid: int) -> bool:
        """Tell whether the answer to a statement arrives; else the server has ended the connection."""
        strike = self.strike
        if strike is None or strike.blow is not Blow.UNHEARD or len(self.steps) != strike.at:
            return True
        strike.end(pid)
        return False

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Surround one transaction that writes, commit included."""
        self._is_writing, before = True, self.conflicts.total()
        try:
            yield
        finally:
            self._is_writing = self.is_inside = False
            if self.conflicts.total() == before:
                self.ends.append(len(self.steps))

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Surround statements that are no steps: a snapshot is read as a whole, at its first one."""
        _here.player = None
        try:
            yield
        finally:
            _here.player = self
            self.ends.append(len(self.steps))

    def _run(self) -> None:
        _here.player = self
        try:
            self.result = self.act()
        except Exception as error:
            self.error = error
        except Killed:
            pass
        finally:
            with self.changed:
                self.standing, self.is_waiting = Standing.ENDED, False
                self.changed.notify_all()


class _Here(threading.local):
    player: Player | None = None


_here = _Here()


def present() -> Player | None:
    """The player of this thread, None in a thread that plays none."""
    return _here.player
