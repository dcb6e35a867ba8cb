"""gunicorn's first process, with this program's meaning of two signals.

On SIGHUP a new worker starts beside the one that serves, which is asked to end once the new one serves. So
callers do not wait for the start, and a configuration that no worker can start with changes nothing.
"""

from __future__ import annotations

import logging
import mmap
import signal
from typing import Any

from gunicorn.arbiter import Arbiter
from gunicorn.errors import HaltServer

from zonesched.conf import Conf

log = logging.getLogger(__name__)

FORK = (signal.SIGHUP, signal.SIGUSR2, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
"""Signals that a new worker would take for its parent's, until it has handlers of its own."""


GRACEFUL_S = 30
"""Seconds in which a worker ends, or is killed."""

CONNECTIONS_S = 15
"""Seconds of these for its connections.

The others are for the zone, which gives back the leases of its boots: `Zone.stop` may take ten.
"""


def release_signals() -> None:
    """Take the signals again that were held over a fork, first those that came meanwhile."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORK)


class Progress:
    """The options that a worker starts with, and how far it is, for the process that forks it."""

    def __init__(self, conf: Conf) -> None:
        self.conf = conf
        self.is_ending = False
        """Whether it was asked to end."""
        # One byte that both processes see.
        self._serves = mmap.mmap(-1, 1)

    @property
    def serves(self) -> bool:
        """Whether the worker takes requests."""
        return self._serves[0] == 1

    @serves.setter
    def serves(self, serves: bool) -> None:
        self._serves[0] = int(serves)


class Master(Arbiter):  # type: ignore[misc]
    """Keeps one worker that serves, and while another configuration is tried a second one."""

    def init_signals(self) -> None:
        """Set up the handlers; signals that came during the start are handled next."""
        super().init_signals()
        for number in self.app.early_signals.numbers:
            self.signal(number, None)

    def handle_hup(self) -> None:
        """Start a new worker, if the configuration can be used."""
        if self.app.read_again():
            self.setup(self.app)
            self.spawn_worker()

    def handle_usr2(self) -> None:
        """Let the worker report; gunicorn would start a second master."""
        self.kill_workers(signal.SIGUSR2)

    def spawn_worker(self) -> Any:
        """Fork a worker; it gets no signal before it can handle it."""
        signal.pthread_sigmask(signal.SIG_BLOCK, FORK)
        try:
            return super().spawn_worker()
        finally:
            release_signals()

    def manage_workers(self) -> None:
        """Ask workers to end once a newer one serves; go back to their configuration if none is left."""
        if not self.WORKERS:
            self.spawn_worker()
            return
        newest = max(self.WORKERS.values(), key=_age)
        if newest.progress.conf is not self.app.conf:
            log.error("the new worker could not start: the old one goes on, with its configuration")
            self.app.use(newest.progress.conf)
            self.setup(self.app)
        serving = max((worker.age for worker in self.WORKERS.values() if worker.progress.serves), default=0)
        for pid, worker in list(self.WORKERS.items()):
            if worker.age < serving and not worker.progress.is_ending:
                worker.progress.is_ending = True
                self.kill_worker(pid, signal.SIGTERM)

    def reap_workers(self) -> None:
        """Forget workers that have ended. Raises HaltServer if one could not start and none serves."""
        try:
            super().reap_workers()
        except HaltServer:
            known = [worker.progress for worker in self.WORKERS.values()]
            if not any(progress.serves and not progress.is_ending for progress in known):
                raise


def _age(worker: Any) -> int:
    return int(worker.age)
