"""The attacked tree: root, middle and leaf, each one or more processes, and what an honest operator does."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.zone_trees.client import ZoneClient, ZoneFault
from benchmarks.zone_trees.postgres import Postgres
from benchmarks.zone_trees.processes import (
    StartFailed,
    ZoneProcess,
    ZoneSite,
    free_ports,
    interrupts_wait,
    make_folder,
    stop_all,
)
from benchmarks.zone_trees.tree import SERVICE

from . import front
from .certificates import Certificates, make_certificates

NAMES = ("root", "middle", "leaf")
HOSTS = {"root": 10, "middle": 20, "leaf": 40}
INVENTORIES = {"VCPU": {"total": 256}, "MEMORY_MB": {"total": 262_144}, "DISK_GB": {"total": 10_000}}
FLAVOR = {"flavor": {"name": "small", "vcpus": 1, "ram": 512, "disk": 1}}
BEAT_S = 5.0
LINKED_WITHIN_S = 60.0
SELECT_TIMEOUT_S = 2.0

OPTIONS = {
    "zone_db_check_interval": "0.5",
    "zone_poll_timeout": "2",
    "boot_poll_interval": "0.5",
    "select_timeout": str(SELECT_TIMEOUT_S),
    "build_timeout": "2",
    "build_plan_ttl": "3",
    "hold": "8",
    "hold_margin": "2",
    "retry_pause": "0.3",
    "retry_pause_max": "2",
    "instance_sync_interval": "1",
}
"""Short pauses, so that a child's deeds have their effect within an attack. Limits are the defaults."""


@dataclass(frozen=True)
class Setup:
    """How the tree is run."""

    database: str = "sqlite"
    tls: bool = False
    processes: int = 1


@dataclass(frozen=True)
class Zone:
    """One zone: its processes, the URL that callers use, and its first admin."""

    name: str
    title: str
    url: str
    processes: Sequence[ZoneProcess]
    admin: ZoneClient

    @property
    def database_url(self) -> str:
        return self.processes[0].site.database_url

    @property
    def pids(self) -> list[int]:
        """The process ids of all its processes, of those too that a process has forked."""
        found = []
        for process in self.processes:
            found.append(process.pid)
            with suppress(OSError):
                found += map(
                    int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                )
        return found

    def secret_of(self, name: str, role: str, project: str = "", password: str = "") -> str:
        """Make a user; return its secret."""
        user = {
            "name": name,
            "role": role,
            "project_id": project,
            **({"password": password} if password else {}),
        }
        made = self.admin.call("POST", "/users", {"user": user})["user"]
        return password or str(made["secret"])


@dataclass
class Tree:
    """Running zones by name, to be ended with `close`."""

    folder: Path
    setup: Setup
    say: Callable[[str], None]
    zones: dict[str, Zone] = field(default_factory=dict)
    certificates: Certificates | None = None
    _started: list[ZoneProcess] = field(default_factory=list)
    _helpers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _agents: list[ZoneClient] = field(default_factory=list)
    _server: Postgres | None = None
    _over: threading.Event = field(default_factory=threading.Event)
    _beats: threading.Thread | None = None

    @property
    def ca_file(self) -> str:
        return str(self.certificates.authority) if self.certificates else ""

    @property
    def agents(self) -> Sequence[ZoneClient]:
        """The honest agent of each zone."""
        return self._agents

    def start(self) -> None:
        """Start all zones with their hosts, and link them."""
        if self.setup.tls:
            self.certificates = make_certificates(self.folder)
        if self.setup.database == "postgresql":
            self._server = Postgres(self.folder / "postgres", free_ports(1)[0])
            self._server.start()
        self.say(f"starting 3 zones of {self.setup.processes} process(es)")
        token = os.urandom(3).hex()
        for name in NAMES:
            self._start_zone(name, f"{name}-zone-{token}")
        for name in NAMES:
            self._add_hosts(self.zones[name])
        self._beats = threading.Thread(target=self._beat, name="heartbeats")
        self._beats.start()
        self.link("middle", "leaf", self.zones["leaf"].url)
        self.link("root", "middle", self.zones["middle"].url)
        self.zones["root"].admin.call("POST", "/flavors", FLAVOR)

    def link(self, parent: str, child: str, url: str, password: str = "") -> None:
        """Register a child zone and wait until its parent knows it."""
        above = self.zones[parent]
        if not password:
            password = self.zones[child].secret_of(f"user-of-{parent}", "parent")
        zone = {
            "name": f"{child}-child",
            "api_url": url,
            "username": f"user-of-{parent}",
            "password": password,
        }
        above.admin.call("POST", "/zones", {"zone": zone})
        ends_at = time.monotonic() + LINKED_WITHIN_S
        while not self.is_complete(parent):
            if time.monotonic() > ends_at:
                raise StartFailed(f"the zone {parent} does not reach {child}")
            time.sleep(0.1)

    def is_complete(self, name: str) -> bool:
        """Tell whether a zone knows all zones below it."""
        with suppress(ZoneFault):
            return bool(self.zones[name].admin.call("GET", "/zones/info")["zone"]["complete"])
        return False

    def help_by(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a process of this package that ends with the tree."""
        return self._help(sys.executable, "-m", f"benchmarks.attackers.{module}", *arguments)

    def _help(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / "helpers.log").open("ab") as log, interrupts_wait():
            self._helpers.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    cwd=Path(__file__).parents[2],
                )
            )
        return self._helpers[-1]

    def fronted(self, backends: Sequence[int]) -> str:
        """The URL at which callers reach the ports of a zone: through a front where there are several."""
        return self.url(self._front(backends) if len(backends) > 1 else backends[0])

    def url(self, port: int) -> str:
        """The URL of a port of a zone, or of the played child."""
        return f"{'https' if self.certificates else 'http'}://127.0.0.1:{port}"

    def _front(self, backends: Sequence[int]) -> int:
        port = free_ports(1)[0]
        file = self.folder / f"front-{port}.cfg"
        file.write_text(front.configuration(port, backends))
        process = self._help(front.haproxy(), "-db", "-f", str(file))
        while not front.listens(port):
            if process.poll() is not None:
                raise StartFailed((self.folder / "helpers.log").read_text(errors="replace"))
            time.sleep(0.05)
        return port

    def close(self) -> None:
        """End everything."""
        self._over.set()
        if self._beats is not None:
            self._beats.join()
        for helper in self._helpers:
            helper.kill()
            helper.wait()
        stop_all(self._started)
        for zone in self.zones.values():
            zone.admin.close()
        for agent in self._agents:
            agent.close()
        if self._server is not None:
            self._server.stop()

    # -- beginning -----------------------------------------------------------------------------------------

    def _start_zone(self, name: str, title: str) -> None:
        ports = free_ports(self.setup.processes)
        shared = self._options(name, title)
        processes = []
        for number, port in enumerate(ports):
            site = ZoneSite(title, self.folder / f"{name}-{number}", port, shared, self.ca_file)
            make_folder(site)
            with interrupts_wait():
                self._started.append(ZoneProcess(site))
            processes.append(self._started[-1])
            # The first one makes the database and its admin.
            processes[-1].wait_until_ready()
        self.zones[name] = Zone(name, title, self.fronted(ports), processes, processes[0].admin())

    def _options(self, name: str, title: str) -> Mapping[str, str]:
        options = {
            **OPTIONS,
            "build_plan_encryption_key": os.urandom(32).hex(),
            "secret_encryption_key": os.urandom(32).hex(),
            "database_url": f"sqlite:///{self.folder}/{name}-0/zone.sqlite",
        }
        if self._server is not None:
            self._server.create(name)
            options["database_url"] = self._server.url(name)
        if self.certificates is not None:
            options["child_ca_file"] = str(self.certificates.authority)
            options["tls_certificate_file"] = str(self.certificates.server)
        if name == "leaf":
            # As a zone without children has it: attackers look for ways around it.
            options["child_networks"] = "public,private"
        return options

    def _add_hosts(self, zone: Zone) -> None:
        agent = zone.processes[0].site.client("agent", zone.secret_of("agent", "compute"))
        hosts = [
            {
                "name": f"host-{number:03}-of-{zone.title}",
                "address": f"10.{77 + NAMES.index(zone.name)}.{number}.{number + 1}",
                "inventories": INVENTORIES,
            }
            for number in range(HOSTS[zone.name])
        ]
        agent.call("PUT", "/hosts", {"service": SERVICE, "hosts": hosts})
        agent.call("POST", "/hosts/beat", {"service": SERVICE})
        self._agents.append(agent)

    def _beat(self) -> None:
        agents = [ZoneClient.like(agent) for agent in self._agents]
        while not self._over.wait(BEAT_S):
            for agent in agents:
                with suppress(ZoneFault):
                    agent.call("POST", "/hosts/beat", {"service": SERVICE})
        for agent in agents:
            agent.close()
