"""Seven zones in three levels, agents with hosts in the leaves, and links that can be spoiled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.zone_trees.client import ZoneClient, ZoneFault
from benchmarks.zone_trees.postgres import Postgres
from benchmarks.zone_trees.processes import (
    StartFailed,
    ZoneProcess,
    ZoneSite,
    free_ports,
    interrupts_wait,
    make_folder,
)
from benchmarks.zone_trees.tree import parent_of, sites
from tests.builders.private_servers import Server, rabbitmq

from . import running
from .link import Link, Way

SIZES = (1, 2, 4)
AGENTS_PER_LEAF, HOSTS_PER_AGENT = 2, 3
INVENTORIES = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 131_072}, "DISK_GB": {"total": 2_000}}
FLAVORS: Sequence[Mapping[str, Any]] = (
    {"name": "small", "vcpus": 1, "ram": 512, "disk": 1},
    {"name": "large", "vcpus": 2, "ram": 1024, "disk": 2},
)
"""Servers are booted with the first one."""
READY_WITHIN_S = 120.0
OPTIONS = {
    "zone_db_check_interval": "1",
    "zone_poll_timeout": "2",
    "boot_lease": "4",
    "boot_poll_interval": "0.5",
    "select_timeout": "4",
    "build_timeout": "4",
    "hold": "10",
    "hold_margin": "2",
    "retry_pause": "0.3",
    "retry_pause_max": "2",
    "instance_sync_interval": "2",
    "service_down_time": "15",
    "api_threads": "16",
}
"""Short leases and pauses: a fault is over sooner, and more of them happen while something is going on."""


class Part:
    """A process with all it has started, which can be killed, stopped and started again."""

    def __init__(self, name: str, start: Callable[[], subprocess.Popen[bytes] | ZoneProcess]) -> None:
        self.name = name
        self._start = start
        self._process = start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, what: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, what)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> None:
        """However it is, it is not any more."""
        self.signal(signal.SIGKILL)
        self._process.wait(10.0)

    def end_in_order(self) -> None:
        """Told to stop, it may take its time; not more than that."""
        self.signal(signal.SIGTERM)
        try:
            self._process.wait(20.0)
        except (StartFailed, subprocess.TimeoutExpired):
            self.end()

    def start(self) -> None:
        """After it has ended."""
        with interrupts_wait():
            self._process = self._start()

    def kill_a_child(self) -> bool:
        """Kill the process that serves, which the one above it starts again; whether there was one."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        with suppress(OSError, ProcessLookupError):
            pids = children.read_text().split()
            if pids:
                os.kill(int(pids[0]), signal.SIGKILL)
                return True
        return False


class World:
    """All that runs; `close` ends it."""

    def __init__(self, folder: Path, database: str, say: Callable[[str], None], *, broker: bool) -> None:
        self.server: Postgres | None = None
        self.broker: Server | None = None
        self.zones: list[Part] = []
        self.agents: list[Part] = []
        self.links: dict[str, Link] = {}
        self.sites: list[ZoneSite] = []
        self.leaves: list[ZoneSite] = []
        self._processes: dict[str, ZoneProcess] = {}
        self._clients: list[ZoneClient] = []
        self.folder = folder
        self._say = say
        self._ending = ExitStack()
        try:
            if broker:
                say("starting a RabbitMQ")
                self.broker = self._ending.enter_context(rabbitmq(folder / "rabbitmq"))
            self._begin(folder, database)
        except BaseException:
            self.close()
            raise

    @property
    def root(self) -> ZoneSite:
        return self.sites[0]

    def user(self, name: str, role: str, site: ZoneSite, project: str = "") -> ZoneClient:
        """A new user of a zone."""
        user = {"name": name, "role": role, "project_id": project}
        secret = str(self.admin(site).call("POST", "/users", {"user": user})["user"]["secret"])
        return self._kept(site.client(name, secret, timeout_s=15.0))

    def admin(self, site: ZoneSite) -> ZoneClient:
        """The zone's first admin."""
        return self._kept(self._processes[site.name].admin())

    def like(self, client: ZoneClient) -> ZoneClient:
        return self._kept(ZoneClient.like(client))

    def watch(self, spoilt: Collection[str]) -> None:
        """Start again what has ended by itself, as whatever watches over services does.

        A zone that cannot reach its database as it starts says so and ends.
        """
        for part in (*self.zones, *self.agents):
            if part.name not in spoilt and part.has_ended:
                part.start()

    def heal(self) -> None:
        """Wait until every zone knows its children."""
        self._wait_for_links()

    def close(self) -> None:
        for part in (*self.agents, *self.zones):
            part.end()
        running.kill_all(self.folder)
        for link in self.links.values():
            link.close()
        for client in self._clients:
            client.close()
        if self.server is not None:
            self.server.stop()
        self._ending.close()

    # -- beginning -----------------------------------------------------------------------------------------

    def _begin(self, folder: Path, database: str) -> None:
        if database == "postgresql":
            self.server = Postgres(folder / "postgres", free_ports(1)[0])
            self.server.start()
        levels = sites(folder, SIZES, self._options)
        self.sites = [site for level in levels for site in level]
        self.leaves = levels[-1]
        self._say(f"starting {len(self.sites)} zones")
        for site in self.sites:
            make_folder(site)
            with interrupts_wait():
                self.zones.append(Part(site.name, self._starter(site)))
        for site in self.sites:
            self._processes[site.name].wait_until_ready()
        for above, below in pairwise(levels):
            for number, child in enumerate(below):
                self._link(above[parent_of(number, len(above), len(below))], child)
        for leaf in self.leaves:
            self._start_agents(leaf)
        self._wait_for_links()

    def _options(self, name: str) -> Mapping[str, str]:
        options = dict(OPTIONS)
        if self.broker is not None:
            options["transport_url"] = self._broker_url
        if self.server is not None:
            self.server.create(name.replace("-", "_"))
            options["database_url"] = self.server.url(name.replace("-", "_"))
        return options

    @property
    def _broker_url(self) -> str:
        return "" if self.broker is None else f"amqp://guest:guest@127.0.0.1:{self.broker.port}//"

    def _starter(self, site: ZoneSite) -> Callable[[], ZoneProcess]:
        def start() -> ZoneProcess:
            self._processes[site.name] = ZoneProcess(site)
            return self._processes[site.name]

        return start

    def _link(self, parent: ZoneSite, child: ZoneSite) -> None:
        self.links[child.name] = Link(child.port)
        user = {"name": parent.name, "role": "parent", "project_id": ""}
        secret = self.admin(child).call("POST", "/users", {"user": user})["user"]["secret"]
        zone = {
            "name": child.name,
            "api_url": self.links[child.name].url,
            "username": parent.name,
            "password": secret,
        }
        self.admin(parent).call("POST", "/zones", {"zone": zone})

    def _start_agents(self, leaf: ZoneSite) -> None:
        user = {"name": "agent", "role": "compute", "project_id": ""}
        secret = self.admin(leaf).call("POST", "/users", {"user": user})["user"]["secret"]
        for number in range(AGENTS_PER_LEAF):
            self._start_agent(leaf, f"agent-{number}", str(secret))

    def _start_agent(self, leaf: ZoneSite, service: str, secret: str) -> None:
        folder = leaf.folder / service
        folder.mkdir()
        hosts = [
            {"name": f"{leaf.name}-{service}-h{n}", "inventories": INVENTORIES}
            for n in range(HOSTS_PER_AGENT)
        ]
        inventory = folder / "inventory.json"
        inventory.write_text(json.dumps(hosts))
        options = {
            "--zone-url": leaf.url,
            "--username": "agent",
            "--inventory": str(inventory),
            "--service": service,
            "--heartbeat-seconds": "1",
            "--poll-seconds": "0.5",
            "--connection-type": "process",
            "--state-folder": str(folder),
            "--shared-folder": str(leaf.folder / "shared"),
            "--process-stop-seconds": "1",
        }
        (leaf.folder / "shared").mkdir(exist_ok=True)
        command = [sys.executable, "-m", "zonesched.compute.main"]
        command += [word for pair in options.items() for word in pair]
        own = {"ZONESCHED_PASSWORD": secret, "ZONESCHED_TRANSPORT_URL": self._broker_url}

        def start() -> subprocess.Popen[bytes]:
            with (folder / "agent.log").open("ab") as log:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **own},
                    start_new_session=True,
                )

        with interrupts_wait():
            self.agents.append(Part(f"{service} of {leaf.name}", start))

    def _wait_for_links(self) -> None:
        ends_at = time.monotonic() + READY_WITHIN_S
        for site in self.sites:
            while not self._is_complete(site):
                self.watch(())
                if time.monotonic() > ends_at:
                    raise StartFailed(f"zone {site.name} does not reach its children")
                time.sleep(0.2)

    def _is_complete(self, site: ZoneSite) -> bool:
        with suppress(ZoneFault):
            return bool(self.admin(site).call("GET", "/zones/info")["zone"]["complete"])
        return False

    def _kept(self, client: ZoneClient) -> ZoneClient:
        self._clients.append(client)
        return client


def repaired(link: Link) -> None:
    """All goes through again."""
    link.set(Way.PASS)
