"""`zonesched-zone`: serve one zone from its configuration, until SIGTERM.

One process of threads serves; it is forked after the configuration was checked, the database brought up to
date and, in a zone without users, a first admin made.
"""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path
from typing import Any

import click
from gunicorn.app.base import BaseApplication

from zonesched import conf as options
from zonesched import log_lines
from zonesched.api.app import create_app
from zonesched.compute.credentials import Credentials, write_credentials
from zonesched.conf import Conf
from zonesched.conf.ports import check_port_is_free
from zonesched.conf.private_files import refuse_if_shared, shared_secrets
from zonesched.errors import ConfigError
from zonesched.model.views import NewUser
from zonesched.seal.shortcomings import shortcomings
from zonesched.services import background
from zonesched.services.catalog import users
from zonesched.services.zone import Zone
from zonesched.store.store import StoreError

GRACEFUL_S = 30
START_S = 300
"""Seconds without a heartbeat after which the serving process counts as dead; reading many hosts is slow."""

IDLE_CONNECTION_S = 75
"""Seconds to keep an idle connection: longer than callers do, so that they close it."""

MAX_CONNECTIONS = 2000
"""Max connections; a further one replaces the one that has waited longest."""

GARBAGE_THRESHOLDS = (20_000, 20, 20)
"""Thresholds of the garbage collector by generation."""

M_ARENA_MAX = -8
"""Parameter of glibc's mallopt: the maximum number of heaps."""

NO_ADDRESS = ("0.0.0.0", "::", "")


@click.command()
@click.option(
    "--config-file",
    "files",
    multiple=True,
    type=click.Path(),
    help="Configuration file; repeatable, a later one wins.",
)
@click.version_option(package_name="zonesched")
def main(files: tuple[str, ...]) -> None:
    """Serve one zone until SIGTERM; running requests are then finished."""
    try:
        conf = options.load(files)
        log_lines.set_up(conf.log_format)
        check_port_is_free(conf.bind_host, conf.bind_port, "bind_port")
        prepare(conf)
    except ConfigError as error:
        raise click.ClickException(error.message) from error
    except OSError as error:
        raise click.ClickException(str(error)) from error
    for line in (*shortcomings(conf), *shared_secrets(files)):
        say(line)
    say(f"Zone {conf.zone_name} listens on {zone_url(conf)}.")
    Server(conf).run()


def say(line: str) -> None:
    """Print a line for the operator."""
    click.echo(f"zonesched-zone: {line}", err=True)


def zone_url(conf: Conf) -> str:
    """Return the URL of the zone on this machine."""
    host = "127.0.0.1" if conf.bind_host in NO_ADDRESS else conf.bind_host
    return f"http://[{host}]:{conf.bind_port}" if ":" in host else f"http://{host}:{conf.bind_port}"


def prepare(conf: Conf) -> None:
    """Prepare the zone: check its options, migrate its database, make a first admin."""
    state = Path(conf.state_path)
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"Option state_path: '{state}' cannot be made: {error.strerror}.") from error
    refuse_if_shared(state, "state_path")
    path = state / "admin.credentials"

    def keep(admin: NewUser) -> None:
        write_credentials(path, Credentials(zone_url(conf), admin.user.name, admin.secret))

    try:
        zone = Zone.open(conf)
    except StoreError as error:
        raise ConfigError(f"Option database_url: the database cannot be used: {error.orig}.") from error
    try:
        made = (
            users.create_first_admin(zone.store, zone.clock, keep)
            if conf.auth_strategy == "http_basic"
            else None
        )
    finally:
        zone.stop()
    if made:
        say(f"Made the first user, {made.user.name}; its password is in {path}.")


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


class Server(BaseApplication):  # type: ignore[misc]
    """gunicorn with one process of threads, set up from the zone's own configuration."""

    def __init__(self, conf: Conf) -> None:
        self._conf = conf
        self._zone: Zone | None = None
        super().__init__()

    def load_config(self) -> None:
        host = f"[{self._conf.bind_host}]" if ":" in self._conf.bind_host else self._conf.bind_host
        settings = {
            "bind": f"{host}:{self._conf.bind_port}",
            "workers": 1,
            "worker_class": "zonesched.serving.api_worker.GatheringWorker",
            "worker_connections": MAX_CONNECTIONS,
            "threads": self._conf.api_threads,
            "timeout": START_S,
            "graceful_timeout": GRACEFUL_S,
            "keepalive": IDLE_CONNECTION_S,
            "control_socket_disable": True,
            "loglevel": "warning",
            "worker_exit": self._stop_zone,
        }
        for name, value in settings.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> Any:
        """Return the application; called in the serving process, where the zone's threads start too."""
        # Before any thread starts: threads inherit it from this one.
        keep_to_one_processor()
        keep_to_one_heap()
        self._zone = Zone.open(self._conf)
        app = create_app(self._zone)
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


if __name__ == "__main__":
    main(prog_name="zonesched-zone")
