"""A tree of real zones with the trace's nodes dealt over its leaves, kept alive without agents."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from .client import ZoneClient, ZoneFault
from .forms import host_form
from .processes import StartFailed, ZoneProcess, ZoneSite, free_ports, stop_all
from .trace import Node

BEAT_S = 10.0
LINKED_WITHIN_S = 120.0
SERVICE = "replay"
PROJECT = "replay"


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
    folder: Path, sizes: Sequence[int], nodes: Sequence[Node], say: Callable[[str], None]
) -> Iterator[Tree]:
    """A tree with `sizes` zones on its levels, ready to boot; all its processes end with the block."""
    started: list[ZoneProcess] = []
    heart = Heart()
    try:
        say(f"starting {sum(sizes)} zones")
        levels = _start(folder, sizes, started)
        for zone in started:
            zone.wait_until_ready()
        admins = {zone.site.name: zone.admin() for zone in started}
        leaves = levels[-1]
        for number, leaf in enumerate(leaves):
            agent = _new_user(leaf, admins[leaf.site.name], "agent", "compute")
            _register(agent, nodes[number :: len(leaves)])
            heart.add(agent)
        heart.start()
        say(f"{len(nodes)} hosts over {len(leaves)} zones; linking the tree")
        for above, below in reversed(list(pairwise(levels))):
            _link(above, below, admins)
        root = levels[0][0]
        tenant = _new_user(root, admins[root.site.name], "tenant", "member", PROJECT)
        yield Tree(started, tenant, admins, heart)
    finally:
        heart.stop()
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
                    agent.call("POST", "/hosts/beat", {"service": SERVICE})
                except ZoneFault as fault:
                    self._fault = fault
                    return
            if self._over.wait(BEAT_S):
                return


def parent_of(number: int, parents: int, children: int) -> int:
    """The place in its level of the parent of child `number`: neighbours share one, as evenly as can be."""
    return number * parents // children


def _start(folder: Path, sizes: Sequence[int], started: list[ZoneProcess]) -> list[list[ZoneProcess]]:
    ports = iter(free_ports(sum(sizes)))
    levels: list[list[ZoneProcess]] = []
    for depth, size in enumerate(sizes):
        level: list[ZoneProcess] = []
        for number in range(size):
            name = f"zone-{depth}-{number}"
            level.append(ZoneProcess(ZoneSite(name, folder / name, next(ports))))
            started.append(level[-1])
        levels.append(level)
    return levels


def _register(agent: ZoneClient, nodes: Sequence[Node]) -> None:
    agent.call("PUT", "/hosts", {"service": SERVICE, "hosts": [host_form(node) for node in nodes]})
    agent.call("POST", "/hosts/beat", {"service": SERVICE})


def _new_user(zone: ZoneProcess, admin: ZoneClient, name: str, role: str, project: str = "") -> ZoneClient:
    return ZoneClient(zone.site.url, name, _secret(admin, name, role, project))


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
