"""One process of a zone: the real zone and app, on seams under the baton, where it may die at each touch.

A touch is what each seam call does before and after: a process may be killed there, a worker paused, and
others go on. In a transaction nothing else happens: with one writer at a time, commits are points.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar, cast

from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError

from tests.simulation.baton import Process, ProcessDied
from tests.simulation.clock import MachineClock
from tests.simulation.databases import Database
from tests.simulation.executor import BatonExecutor
from tests.simulation.leases import Writer
from tests.simulation.network import Wire
from tests.simulation.stage import Stage
from zonesched.api.app import create_app
from zonesched.conf import Conf
from zonesched.services import background
from zonesched.services.state.host_cache import HostCache
from zonesched.services.zone import Zone
from zonesched.store.store import Store
from zonesched.zones.transport import HttpTransport

T = TypeVar("T")

STEP_S = (0.0001, 0.004)
PAUSES_S = (0.5, 3.0, 10.0, 10.0, 20.0)
"""Pauses of a worker: shorter and longer than a lease and a hold."""

TROUBLE_S = 25.0
"""Longest time that a fault may keep a process from its work: no pause is longer."""

IDLE = ("children", "reaper", "pruning", "sync", "calls", "heartbeats", "own-service")
"""Tasks that touch a seam again and again while there is nothing to do: there a fault is less likely."""

WORKERS = "boot-"
"""Tasks that work under a lease begin so."""


class DatabaseAway(Exception):
    """Exception of the database driver in the simulation when a commit fails, or its answer is lost."""


class DiskFull(sqlite3.OperationalError):
    """Exception of the database driver where a disk has no room for what a transaction writes."""

    sqlite_errorcode = sqlite3.SQLITE_FULL


class SeamStore(Store):
    """A zone's rows, as one of its processes reaches them."""

    def __init__(self, database: Database, process: ZoneProcess) -> None:
        super().__init__(database.engine)
        self._idle = database.idle
        self._process = process

    def read(self, fn: Callable[[Connection], T]) -> T:
        self._process.touch_unlocked("read")
        return super().read(fn)

    def look_up(self, fn: Callable[[Connection], T]) -> T:
        self._process.touch_unlocked("read")
        return super().look_up(fn)

    def write(self, fn: Callable[[Connection], T]) -> T:
        process = self._process
        process.touch("write")
        process.writes()
        if process.has_full_disk():
            fn = _on_full_disk(fn)
        if process.strikes("commit_failed"):
            raise _away()
        try:
            value = super().write(fn)
        except Exception as error:
            process.reach.raised(error)
            raise
        writer = process.committed()
        if process.strikes("commit_unknown"):
            raise _away()
        process.touch("written")
        process.reach.returned(writer)
        return value


def _on_full_disk(fn: Callable[[Connection], T]) -> Callable[[Connection], T]:
    """Let the disk be full once a transaction has done its work: what it did aside is done."""

    def write(tx: Connection) -> T:
        fn(tx)
        raise OperationalError("INSERT", {}, DatabaseAway("the disk is full")) from DiskFull()

    return write


def _away() -> OperationalError:
    return OperationalError("COMMIT", {}, DatabaseAway("the connection to the database broke"))


class ZoneProcess(Process):
    """Opens its zone, serves and works until it dies; `on_commit` and `on_death` are told."""

    def __init__(
        self,
        name: str,
        *,
        stage: Stage,
        site: str,
        clock: MachineClock,
        on_commit: Callable[[Writer], None],
        on_death: Callable[[ZoneProcess], None],
    ) -> None:
        super().__init__(name)
        self.process: Process = self
        self.clock = clock
        self.zone: Zone | None = None
        self.app: Any = None
        self.reach = stage.reach
        self._site = site
        self._stage = stage
        self._on_commit = on_commit
        self._on_death = on_death

    def open(self, conf: Conf, database: Database) -> Zone:
        """Open the zone, in the present task; `serve` lets it work."""
        executor = BatonExecutor(self._stage.baton, self)
        transport = HttpTransport.from_conf(
            conf, self.clock, adapter=Wire(self._stage.network, self._site, self.touch)
        )
        self.zone = Zone.open(
            conf,
            clock=self.clock,
            executor=executor,
            transport=transport,
            store=SeamStore(database, self),
        )
        self.app = create_app(self.zone)
        return self.zone

    def serve(self) -> None:
        """Start the background work and take calls."""
        assert self.zone is not None
        background.start(self.zone)
        self._stage.network.servers[self._site].append(self)

    def die(self) -> None:
        """From within or without: nothing of this process goes on."""
        if not self.is_dead:
            self._stage.baton.kill(self)
            self._stage.network.end(self)
            servers = self._stage.network.servers[self._site]
            if self in servers:
                servers.remove(self)
            self._on_death(self)

    # -- touches -------------------------------------------------------------------------------------------

    def touch(self, what: str) -> None:
        """Before or after a seam call. Raises ProcessDied."""
        if self.is_dead:
            raise ProcessDied
        if self.strikes("process_killed"):
            self.note(f"killed at {what}")
            self.die()
            raise ProcessDied
        if self.strikes("worker_paused"):
            pause_s = self._stage.storm.random.choice(PAUSES_S)
            self.note(f"paused at {what} for {pause_s:g} s")
        else:
            pause_s = self._stage.storm.random.uniform(*STEP_S)
        self._stage.baton.pause(pause_s)

    def touch_unlocked(self, what: str) -> None:
        """The same, unless the hosts' lock is held: whoever waited for it would stop the one thread."""
        if self.zone is None or not cast(HostCache, self.zone.hosts)._lock.locked():
            self.touch(what)
        elif self.is_dead:
            raise ProcessDied

    def strikes(self, kind: str) -> bool:
        """Draw whether this fault happens now."""
        if not self._stage.storm.is_raging:
            return False
        task = self._stage.baton.current
        assert task is not None
        writer = self._writer()
        is_struck = self._stage.storm.strikes(
            kind, self._weight(task.name), works=self.reach.just_done(writer)
        )
        if is_struck:
            self.reach.struck(kind, writer)
            self._stage.trouble(self._site, self._stage.baton.now + TROUBLE_S)
        return is_struck

    def _weight(self, task: str) -> float:
        """Probability of a fault here: more where a boot is under way, less elsewhere."""
        if task.startswith(WORKERS):
            return 4.0 if self.zone is not None and self.zone.boots.unended() else 0.1
        return 0.1 if task in IDLE else 1.0

    def has_full_disk(self) -> bool:
        """Tell whether the disk of the zone's database has no room now."""
        return self._stage.baton.now < self._stage.full_until.get(self._site, 0.0)

    def writes(self) -> None:
        """A transaction begins."""
        self._stage.writes[self.name] += 1
        self.note("writes")

    def committed(self) -> Writer:
        """A transaction of this process is durable."""
        writer = self._writer()
        self._on_commit(writer)
        return writer

    def _writer(self) -> Writer:
        task = self._stage.baton.current
        return Writer(self.name, task.name if task is not None else "")

    def note(self, what: str) -> None:
        task = self._stage.baton.current
        self._stage.note(f"{self.name}/{task.name}" if task is not None else self.name, what)
