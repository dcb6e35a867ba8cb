"""The processes that serve a zone: gunicorn's master, and one worker of threads that has the zone.

SIGHUP reads the configuration again. If it can be used, a new worker starts with it on the same socket, and
once it serves, the old one finishes what it has begun. Else everything stays as it is. SIGUSR2 writes a
report into the log.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication

from zonesched import conf as options
from zonesched import log_lines
from zonesched.api.app import create_app
from zonesched.conf import Conf
from zonesched.dashboard.mounting import add_dashboard
from zonesched.errors import ConfigError, DatabaseFull
from zonesched.services import background
from zonesched.services.zone import Zone
from zonesched.serving import open_files, tls
from zonesched.serving.early_signals import EarlySignals
from zonesched.serving.master import GRACEFUL_S, Master

log = logging.getLogger(__name__)

FIXED = ("bind_host", "bind_port", "database_url", "state_path")
"""Options that a new worker cannot change: they need a restart."""

START_S = 300
"""Seconds without a heartbeat after which the serving process counts as dead; reading many hosts is slow."""

IDLE_CONNECTION_S = 75
"""Seconds to keep an idle connection: longer than callers do, so that they close it."""

MAX_CONNECTIONS = 2000
"""Max connections, fewer where few files may be open; a further one replaces the one that waited longest."""

SCHEME_HEADERS = {"X-FORWARDED-PROTO": "https"}
"""Header with which a proxy says that its caller came by https."""

# gunicorn makes its file there by mkstemp, and unlinks it at once.
MEMORY_FOLDER = Path("/dev/shm")  # nosec B108
"""Folder for the file that the serving process touches in each round of its loop.

On a disk a touch waits while the file system commits what a boot has written, and all callers wait with it
(gunicorn's FAQ, "How do I avoid Gunicorn excessively blocking in os.fchmod?").
"""

GARBAGE_THRESHOLDS = (20_000, 20, 20)
"""Thresholds of the garbage collector by generation."""

M_ARENA_MAX = -8
"""Parameter of glibc's mallopt: the maximum number of heaps."""

_NAMES = tuple(option.dest for option in options.ALL)


def is_in_memory(folder: Path) -> bool:
    """Tell whether the folder is a mount of its own, as /dev/shm is on Linux, and can be written to."""
    return folder.is_mount() and os.access(folder, os.W_OK | os.X_OK)


def keep_to_one_processor() -> None:
    """Pin this thread, and those that it starts, to one of the allowed processors.

    Python runs one thread at a time. With several processors each switch wakes another one, which costs as
    much as the work of a boot (docs/benchmarks.md).
    """
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        # A random choice spreads the zones of one machine.
        os.sched_setaffinity(0, {allowed[os.getpid() % len(allowed)]})


def keep_to_one_heap() -> None:
    """Have all threads allocate from one heap, where the C library is glibc.

    By default each thread gets a heap of its own, which keeps the most that its largest request took: so many
    large requests one after the other would count together. Python runs one thread at a time, so separate
    heaps save nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_ARENA_MAX, 1)


def _would_hide_secrets(serving: Sequence[str], fresh: Sequence[str]) -> bool:
    """Tell whether a new worker would encrypt secrets that the serving one could not read.

    That one still calls the children, and goes on where the new one cannot start.
    """
    return bool(serving and fresh) and fresh[0] not in serving


class Server(BaseApplication):  # type: ignore[misc]
    """gunicorn with one process of threads, set up from the zone's own configuration."""

    def __init__(self, files: Sequence[str], conf: Conf, early_signals: EarlySignals) -> None:
        self.early_signals = early_signals
        self._files = files
        self._conf = conf
        self._zone: Zone | None = None
        super().__init__()

    @property
    def conf(self) -> Conf:
        """The options that a serving process starts with."""
        return self._conf

    @property
    def zone(self) -> Zone:
        """The zone of this worker; there is none before `load`."""
        assert self._zone is not None
        return self._zone

    def run(self) -> None:
        """Serve until a signal ends it; as gunicorn's own, with the signals of `Master`."""
        try:
            Master(self).run()
        except RuntimeError as error:
            log.error("the zone cannot be served: %s", error)
            sys.exit(1)

    def read_again(self) -> bool:
        """Take over the options of the files as they are now; false where they cannot be used."""
        try:
            fresh = options.load(self._files)
            tls.socket_maker(fresh)
        except ConfigError as error:
            log.error("the configuration stays as it was: %s", error.message)
            return False
        changed = [name for name in _NAMES if fresh[name] != self._conf[name]]
        kept = [name for name in changed if name in FIXED]
        if _would_hide_secrets(self._conf.secret_encryption_key, fresh.secret_encryption_key):
            kept.append("secret_encryption_key")
        for name in kept:
            log.warning("option %s has changed and stays as it was until a restart", name)
            fresh.set_override(name, self._conf[name])
        self.use(fresh)
        taken = ", ".join(name for name in changed if name not in kept) or "none"
        log.info("the configuration is read again and a new worker starts; changed options: %s", taken)
        return True

    def use(self, conf: Conf) -> None:
        """Start the next worker with these options."""
        self._conf = conf
        self.reload()

    def load_config(self) -> None:
        host = f"[{self._conf.bind_host}]" if ":" in self._conf.bind_host else self._conf.bind_host
        settings = {
            "bind": f"{host}:{self._conf.bind_port}",
            "workers": 1,
            "worker_class": "zonesched.serving.api_worker.GatheringWorker",
            "worker_connections": open_files.connections(MAX_CONNECTIONS),
            "threads": self._conf.api_threads,
            "timeout": START_S,
            "graceful_timeout": GRACEFUL_S,
            "keepalive": IDLE_CONNECTION_S,
            "control_socket_disable": True,
            # From any address: it changes nothing but the links and the cookie of its sender's own answer.
            "forwarded_allow_ips": "*",
            "secure_scheme_headers": SCHEME_HEADERS,
            "forwarder_headers": "",
            "loglevel": "warning",
            "worker_exit": self._stop_zone,
            "worker_tmp_dir": str(MEMORY_FOLDER) if is_in_memory(MEMORY_FOLDER) else None,
        }
        for name, value in settings.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> Any:
        """Return the application; called in the serving process, where the zone's threads start too."""
        # Before any thread starts: threads inherit it from this one.
        keep_to_one_processor()
        keep_to_one_heap()
        log_lines.set_up(self._conf.log_format, self._conf.log_level)
        try:
            self._zone = Zone.open(self._conf)
            app = create_app(self._zone)
        except (ConfigError, DatabaseFull) as error:
            log.error("no zone can be served with this configuration: %s", error.message)
            sys.exit(Master.WORKER_BOOT_ERROR)
        add_dashboard(app)
        background.start(self._zone)
        # Hosts are read before the first request, then frozen: the garbage collector no longer scans them,
        # which a boot of a thousand instances would trigger often.
        self._zone.hosts.read_again()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GARBAGE_THRESHOLDS)
        return app

    def _stop_zone(self, server: Any, worker: Any) -> None:
        if self._zone is not None:
            self._zone.stop()
