"""A tree of real zones with hosts in its leaves, which are kept alive without agents."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from .client import ZoneClient, ZoneFault
from .processes import (
    StartFailed,
    ZoneProcess,
    ZoneSite,
    free_ports,
    interrupts_wait,
    make_folder,
    stop_all,
)

BEAT_S = 10.0
LINKED_WITHIN_S = 120.0
STARTING_AT_ONCE = 8
"""Zones that start at one time: a hundred at once would all be late."""

SERVICE = "benchmark"
PROJECT = "benchmark"

Register = Callable[[ZoneClient, int, int], None]
"""Registers the hosts of a leaf, by its agent, its number among the leaves, and how many there are."""


@dataclass(frozen=True)
class Tree:
    """Running zones, the root first; `tenant` is a user of the root, `admins` has one of each zone."""

    zones: Sequence[ZoneProcess]
    tenant: ZoneClient
    admins: Mapping[str, ZoneClient]
    heart: Heart

    @property
    def root_admin(self) -> ZoneClient:
        return self.admins[self.zones[0].site.name]

    def check(self) -> None:
        """Raises StartFailed when a zone has ended, or a heartbeat did not get through."""
        for zone in self.zones:
            zone.check()
        self.heart.check()


@contextmanager
def running_tree(
    levels: Sequence[Sequence[ZoneSite]], register: Register, say: Callable[[str], None]
) -> Iterator[Tree]:
    """A tree with these zones on its levels, ready to boot; all its processes end with the block."""
    started: list[ZoneProcess] = []
    clients: list[ZoneClient] = []
    heart = Heart()
    try:
        say(f"starting {sum(map(len, levels))} zones")
        running = [[_start(site, started) for site in level] for level in levels]
        for zone in started[-STARTING_AT_ONCE:]:
            zone.wait_until_ready()
        admins = {zone.site.name: zone.admin() for zone in started}
        clients += admins.values()
        leaves = running[-1]
        for number, leaf in enumerate(leaves):
            agent = _new_user(leaf, admins[leaf.site.name], "agent", "compute")
            clients.append(agent)
            register(agent, number, len(leaves))
            agent.call("POST", "/hosts/beat", {"service": SERVICE})
            heart.add(agent)
        heart.start()
        say(f"hosts are in {len(leaves)} zones; linking the tree")
        for above, below in reversed(list(pairwise(running))):
            _link(above, below, admins)
        root = running[0][0]
        tenant = _new_user(root, admins[root.site.name], "tenant", "member", PROJECT)
        clients.append(tenant)
        yield Tree(started, tenant, admins, heart)
    finally:
        heart.stop()
        for client in clients:
            client.close()
        stop_all(started)


class Heart:
    """Says for the leaves' hosts, again and again, that their agents live."""

    def __init__(self) -> None:
        self._agents: list[ZoneClient] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeats")
        self._fault: ZoneFault | None = None

    def add(self, agent: ZoneClient) -> None:
        self._agents.append(agent)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        """Raises StartFailed when a beat did not get through."""
        if self._fault is not None:
            raise StartFailed(f"a heartbeat did not get through: {self._fault}")

    def _run(self) -> None:
        while True:
            for agent in self._agents:
                try:
                    _beat(agent)
                except ZoneFault as fault:
                    self._fault = fault
                    return
            if self._over.wait(BEAT_S):
                return


def _beat(agent: ZoneClient) -> None:
    with suppress(ZoneFault):
        agent.call("POST", "/hosts/beat", {"service": SERVICE})
        return
    # A zone closes an idle connection; the second call opens a new one.
    agent.call("POST", "/hosts/beat", {"service": SERVICE})


def parent_of(number: int, parents: int, children: int) -> int:
    """The place in its level of the parent of child `number`: neighbours share one, as evenly as can be."""
    return number * parents // children


def sites(
    folder: Path, sizes: Sequence[int], options: Callable[[str], Mapping[str, str]] = lambda name: {}
) -> list[list[ZoneSite]]:
    """Places for so many zones on each level; `options` has a zone's by its name."""
    ports = iter(free_ports(sum(sizes)))
    names = [[f"zone-{depth}-{number}" for number in range(size)] for depth, size in enumerate(sizes)]
    return [[ZoneSite(name, folder / name, next(ports), options(name)) for name in level] for level in names]


def _start(site: ZoneSite, started: list[ZoneProcess]) -> ZoneProcess:
    if not site.folder.exists():
        make_folder(site)
    if len(started) >= STARTING_AT_ONCE:
        started[-STARTING_AT_ONCE].wait_until_ready()
    with interrupts_wait():
        started.append(ZoneProcess(site))
    _keep_to_a_processor(started[-1], len(started))
    return started[-1]


def _keep_to_a_processor(zone: ZoneProcess, number: int) -> None:
    """Deal the zones out: each would choose one processor at random, and a run would depend on it."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(zone.pid, {allowed[number % len(allowed)]})


def _new_user(zone: ZoneProcess, admin: ZoneClient, name: str, role: str, project: str = "") -> ZoneClient:
    return zone.site.client(name, _secret(admin, name, role, project))


def _secret(admin: ZoneClient, name: str, role: str, project: str = "") -> str:
    user = {"name": name, "role": role, "project_id": project}
    made = admin.call("POST", "/users", {"user": user})["user"]
    return str(made["secret"])


def _link(above: Sequence[ZoneProcess], below: Sequence[ZoneProcess], admins: dict[str, ZoneClient]) -> None:
    """Make the zones of one level children of those above, and wait until these know them."""
    for number, child in enumerate(below):
        parent = above[parent_of(number, len(above), len(below))]
        zone = {
            "name": child.site.name,
            "api_url": child.site.url,
            "username": parent.site.name,
            "password": _secret(admins[child.site.name], parent.site.name, "parent"),
        }
        admins[parent.site.name].call("POST", "/zones", {"zone": zone})
    ends_at = time.monotonic() + LINKED_WITHIN_S
    for parent in above:
        while not admins[parent.site.name].call("GET", "/zones/info")["zone"]["complete"]:
            parent.check()
            if time.monotonic() > ends_at:
                raise StartFailed(f"zone {parent.site.name} does not reach its children")
            time.sleep(0.2)
