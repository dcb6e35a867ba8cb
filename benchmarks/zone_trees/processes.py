"""Zones as real processes: each with its own folder, port, keys and database."""

from __future__ import annotations

import configparser
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from .client import ZoneClient, ZoneFault

STARTS_WITHIN_S = 120.0
ENDS_WITHIN_S = 15.0
LOG_LINES = 20
FIRST_PORT, PORTS = 10_000, 10_000
"""Below those from which Linux takes ports for connections, and below the demo's."""
LAST_PORT = f"/tmp/zonesched-last-port-{os.getuid()}"
"""File with the port that was found last: one for all processes, whatever folder each has for its own."""


class StartFailed(Exception):
    """A zone did not start, or ended by itself; the message has the end of its log."""


@dataclass(frozen=True)
class ZoneSite:
    """Address and folder of a zone; `options` extend the configuration of all zones.

    `ca_file`: of a zone that serves https.
    """

    name: str
    folder: Path
    port: int
    options: Mapping[str, str] = field(default_factory=dict)
    ca_file: str = ""

    @property
    def url(self) -> str:
        return f"{'https' if self.ca_file else 'http'}://127.0.0.1:{self.port}"

    @property
    def database(self) -> Path:
        return self.folder / "zone.sqlite"

    @property
    def database_url(self) -> str:
        return self.options.get("database_url", f"sqlite:///{self.database}")

    @property
    def config(self) -> Path:
        return self.folder / "zone.conf"

    @property
    def log(self) -> Path:
        return self.folder / "zone.log"

    def client(self, username: str = "", password: str = "", timeout_s: float = 60.0) -> ZoneClient:
        """Calls of one user to this zone."""
        return ZoneClient(self.url, username, password, timeout_s, self.ca_file)


def free_ports(count: int) -> list[int]:
    """Ports of loopback on which nobody listens now, and that the system gives to no connection meanwhile.

    Each search starts behind the last one, whichever process made it: a port that was found is not found
    again before its zone listens, which takes a second.
    """
    found: list[int] = []
    # Not through a link of somebody else's.
    with os.fdopen(os.open(LAST_PORT, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b") as last:
        fcntl.flock(last, fcntl.LOCK_EX)
        port = int(last.read() or FIRST_PORT)
        while len(found) < count:
            port = FIRST_PORT + (port + 1 - FIRST_PORT) % PORTS
            with suppress(OSError), socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
                found.append(port)
        last.seek(0)
        last.truncate()
        last.write(b"%d" % port)
    return found


def make_folder(site: ZoneSite) -> None:
    """The zone's folder with its configuration, and new keys in it."""
    site.folder.mkdir(mode=0o700, parents=True)
    with os.fdopen(os.open(site.config, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(_configuration(site))


class ZoneProcess:
    """One running zone, in a folder that is made."""

    def __init__(self, site: ZoneSite) -> None:
        self.site = site
        with site.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "zonesched.serving", "--config-file", str(site.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for the tool, which ends its zones itself.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Return once the zone answers. Raises StartFailed."""
        probe = self.site.client(timeout_s=5.0)
        ends_at = time.monotonic() + STARTS_WITHIN_S
        while True:
            self.check()
            with suppress(ZoneFault):
                probe.call("GET", "/readiness")
                probe.close()
                return
            if time.monotonic() > ends_at:
                raise StartFailed(f"zone {self.site.name} does not answer\n{self._end_of_log()}")
            time.sleep(0.1)

    def check(self) -> None:
        """Raises StartFailed when the zone has ended."""
        if self._process.poll() is not None:
            raise StartFailed(f"zone {self.site.name} has ended\n{self._end_of_log()}")

    def admin(self) -> ZoneClient:
        """The zone's first admin."""
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(self.site.folder / "admin.credentials", encoding="utf-8")
        told = parser["zonesched"]
        return self.site.client(told["username"], told["password"])

    def poll(self) -> int | None:
        """The exit code of a zone that has ended."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int:
        """The exit code of a zone that ends. Raises StartFailed when it does not."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise StartFailed(f"zone {self.site.name} does not end\n{self._end_of_log()}") from None

    def terminate(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()

    def wait_or_kill(self, ends_at: float) -> None:
        """Let the zone end by itself until then (monotonic seconds), not longer."""
        try:
            self._process.wait(max(0.1, ends_at - time.monotonic()))
        except subprocess.TimeoutExpired:
            # Its session holds this zone's processes and nothing else.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _end_of_log(self) -> str:
        lines = self.site.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES:])


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Ctrl-C and SIGTERM are heard at the end of the block: what is started in it is known by then."""
    heard: list[int] = []
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, lambda number, _frame: heard.append(number)) for one in signals]
    try:
        yield
    finally:
        for one, handler in zip(signals, before, strict=True):
            signal.signal(one, handler)
        for number in heard:
            signal.raise_signal(number)


@contextmanager
def further_processes(site: ZoneSite, count: int) -> Iterator[Sequence[ZoneProcess]]:
    """Processes that serve a running zone too, on its database and with its keys, until the block ends."""
    started: list[ZoneProcess] = []
    try:
        for number, port in enumerate(free_ports(count), 2):
            own = replace(
                site, folder=site.folder.with_name(f"{site.folder.name}-process-{number}"), port=port
            )
            make_folder(own)
            with interrupts_wait():
                started.append(ZoneProcess(own))
        for process in started:
            process.wait_until_ready()
        yield started
    finally:
        stop_all(started)


def stop_all(zones: Sequence[ZoneProcess]) -> None:
    """End all zones, however often Ctrl-C is pressed meanwhile."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for zone in zones:
            zone.terminate()
        ends_at = time.monotonic() + ENDS_WITHIN_S
        for zone in zones:
            zone.wait_or_kill(ends_at)
    finally:
        signal.signal(signal.SIGINT, before)


def _configuration(site: ZoneSite) -> str:
    options: dict[str, object] = {
        "zone_name": site.name,
        "state_path": site.folder,
        "bind_host": "127.0.0.1",
        "bind_port": site.port,
        "auth_strategy": "http_basic",
        "build_plan_encryption_key": os.urandom(32).hex(),
        "secret_encryption_key": os.urandom(32).hex(),
        "child_networks": "loopback",
        "zone_db_check_interval": 5.0,
        **site.options,
    }
    return "\n".join(["[DEFAULT]", *(f"{name} = {value}" for name, value in options.items()), ""])
