"""Trees of real zones in one process: real apps, databases and keys; time and network in the test's hand."""

from __future__ import annotations

import base64
import json as json_text
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flask import Flask

from tests.builders.clock import FakeClock
from tests.builders.inline_executor import InlineExecutor
from tests.builders.migrated import a_database, copy_database, following, url_of
from tests.builders.one_zone import CHEAP_PASSWORDS
from tests.builders.options import copy_of, loaded
from tests.builders.stores import open_store
from tests.builders.sync import ask_all
from tests.builders.wsgi_transport import WsgiAdapter, answer_of, environ_of
from zonesched.api.app import create_app
from zonesched.conf import Conf
from zonesched.model.caller import Caller, Role
from zonesched.model.views import ChildForm, HostForm, InventoryForm
from zonesched.seal.passwords import hash_secret, new_secret
from zonesched.seams import Executor
from zonesched.services import background
from zonesched.services.catalog import users
from zonesched.services.children import children
from zonesched.services.children.pending_calls import PendingCalls
from zonesched.services.hosts import hosts
from zonesched.services.moves import mover
from zonesched.services.owners import resize_confirms
from zonesched.services.owners.reclaims import Reclaims
from zonesched.services.placing import build_timeouts
from zonesched.services.zone import Zone
from zonesched.store import users as user_rows
from zonesched.store.store import Store
from zonesched.store.users import User
from zonesched.zones.known_child import KnownChild
from zonesched.zones.transport import HttpTransport

FIRST_PORT = 7001


def a_host(
    name: str,
    *,
    vcpus: int = 16,
    ram_mb: int = 32768,
    disk_gb: int = 500,
    zone: str = "az1",
    traits: Sequence[str] = (),
    capabilities: Mapping[str, Any] | None = None,
    address: str = "10.0.0.1",
    **classes: int,
) -> HostForm:
    """A host to register; `classes` are further resource classes with their totals."""
    totals = {"VCPU": vcpus, "MEMORY_MB": ram_mb, "DISK_GB": disk_gb, **classes}
    return HostForm(
        name=name,
        address=address,
        availability_zone=zone,
        inventories={c: InventoryForm(total=n) for c, n in totals.items() if n > 0},
        capabilities=capabilities or {},
        traits=frozenset(traits),
    )


@dataclass
class Node:
    """One zone of a tree with its app, and credentials of each role."""

    name: str
    url: str
    zone: Zone
    app: Flask
    secrets: dict[str, str] = field(default_factory=dict)
    compute: Caller | None = None

    def client(self, user: str = "admin") -> Client:
        """Calls to this zone as one of its users."""
        return Client(self.app, user, self.secrets.get(user, ""))


@dataclass(frozen=True)
class Answer:
    """Answer to a call."""

    status: int
    json: Any
    headers: Mapping[str, str]
    body: bytes


class Client:
    """Calls to one zone as one user."""

    def __init__(self, app: Flask, user: str, secret: str) -> None:
        self._app = app
        pair = base64.b64encode(f"{user}:{secret}".encode()).decode()
        self._headers = {"Authorization": f"Basic {pair}"} if user else {}

    def call(
        self,
        method: str,
        path: str,
        json: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        data: bytes | str = b"",
        environ: Mapping[str, Any] | None = None,
    ) -> Answer:
        """One request; `json` is its body, or `data` as it is. Flask's own client is slow."""
        sent = {"OpenStack-API-Version": "compute latest", **self._headers, **(headers or {})}
        if json is not None:
            data = json_text.dumps(json).encode()
            sent["Content-Type"] = "application/json"
        whole = data.encode() if isinstance(data, str) else data
        call = environ_of(method, f"http://localhost{path}", sent, whole) | dict(environ or {})
        status, fields, body = answer_of(self._app, call)
        answered = dict(fields)
        is_json = answered.get("Content-Type", "").startswith("application/json")
        return Answer(status, json_text.loads(body) if is_json and body else None, answered, body)

    def get(self, path: str) -> Answer:
        return self.call("GET", path)

    def post(self, path: str, json: Any, **kwargs: Any) -> Answer:
        return self.call("POST", path, json, **kwargs)

    def delete(self, path: str) -> Answer:
        return self.call("DELETE", path)


class Tree:
    """Zones under one clock; edges between them go through `network`, which can be told to fail."""

    def __init__(
        self,
        folder: Path,
        clock: FakeClock | None = None,
        *,
        network: WsgiAdapter | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.folder = folder
        self.clock = clock or FakeClock()
        self.network = network or WsgiAdapter()
        self.executor = executor or InlineExecutor()
        if isinstance(self.executor, InlineExecutor):
            self.executor.while_paused = self.clock.advance
        self.nodes: dict[str, Node] = {}

    def add(
        self,
        name: str,
        *,
        hosts_: Sequence[HostForm] = (),
        parent: str = "",
        weight_offset: float = 0.0,
        weight_scale: float = 1.0,
        **overrides: Any,
    ) -> Node:
        """A new zone with its hosts, registered with its parent (which knows it after `poll`)."""
        node = self._start(name, overrides)
        self.nodes[name] = node
        if hosts_:
            self.register(name, hosts_)
        if parent:
            self.join(parent, name, weight_offset=weight_offset, weight_scale=weight_scale)
        return node

    def join(self, parent: str, child: str, **weights: float) -> str:
        """Register a zone with another one; the id of the child there."""
        user = f"parent-{parent}"
        below = self.nodes[child]
        if user not in below.secrets:
            below.secrets[user] = users.create(
                below.zone.store, below.zone.clock, user, Role.PARENT, "-"
            ).secret
        form = ChildForm(child, below.url, user, below.secrets[user], **weights)
        before = len(self.network.sent)
        child_id = children.add(self.nodes[parent].zone, form).id
        # The trial of a new child is none of the calls that tests look at.
        del self.network.sent[before:]
        return child_id

    def register(self, name: str, forms: Sequence[HostForm]) -> None:
        """Give a zone hosts, by its agent, and beat once."""
        node = self.nodes[name]
        assert node.compute is not None
        hosts.register(node.zone, node.compute, "agent", list(forms))
        hosts.beat(node.zone, node.compute, "agent")

    def beat(self) -> None:
        """Every agent beats."""
        for node in self.nodes.values():
            assert node.compute is not None
            hosts.register(node.zone, node.compute, "agent", [])
            hosts.beat(node.zone, node.compute, "agent")

    def restart(self, name: str) -> None:
        """The zone's process dies, and another one starts on its database."""
        old = self.nodes[name]
        self._start_again(old, old.zone.store, old.zone.conf)

    def copy_to(self, folder: Path) -> Tree:
        """Another tree: new processes on copies of these databases, at the same time of the clock."""
        folder.mkdir(exist_ok=True)
        tree = Tree(folder, self.clock.twin())
        for node in self.nodes.values():
            copy_database(self.folder / f"{node.name}.sqlite", folder / f"{node.name}.sqlite")
            store = open_store(url_of(folder / f"{node.name}.sqlite"))
            tree._start_again(node, store, copy_of(node.zone.conf))
        return tree

    def stop(self) -> None:
        """Write what the zones know of their agents, and stop them."""
        for node in self.nodes.values():
            node.zone.heartbeats.write()
            node.zone.stop()

    def _start_again(self, old: Node, store: Store, conf: Conf) -> None:
        zone = self._open(conf, store)
        app = create_app(zone)
        self.network.mount(old.url, app)
        self.nodes[old.name] = Node(old.name, old.url, zone, app, dict(old.secrets), old.compute)

    def poll(self, rounds: int = 5) -> None:
        """Every zone asks its children how they are, often enough for news to reach the top.

        After a round without news that took no time, each further one would be the same.
        """
        for _ in range(rounds):
            before = self.clock.monotonic(), self._known()
            for node in reversed(self.nodes.values()):
                background.poll_children(node.zone)
            if before == (self.clock.monotonic(), self._known()):
                return

    def _known(self) -> list[tuple[KnownChild, ...]]:
        return [node.zone.children.snapshot() for node in self.nodes.values()]

    def settle(self, rounds: int = 6) -> None:
        """Let all background work go on until it has nothing to do: a round changes no row, takes no time."""
        with following([self.folder / f"{name}.sqlite" for name in self.nodes]) as changes:
            for _ in range(rounds):
                before = self.clock.monotonic()
                for node in self.nodes.values():
                    self.step(node.name)
                if not changes() and self.clock.monotonic() == before:
                    return

    def step(self, name: str) -> None:
        """One round of one zone's background work."""
        zone = self.nodes[name].zone
        if zone.restored.is_under_way:
            return
        while background.work_on_boots(zone) == 0.0:
            pass
        mover.work(zone)
        resize_confirms.confirm_overdue(zone)
        Reclaims(zone).step()
        PendingCalls(zone).step()
        background.reap(zone)
        build_timeouts.end_lost_builds(zone)
        while ask_all(zone).behind:
            pass

    def _start(self, name: str, overrides: Mapping[str, Any]) -> Node:
        url = f"http://127.0.0.1:{FIRST_PORT + len(self.nodes)}"
        conf = loaded(
            {
                "zone_name": name,
                "build_plan_encryption_key": [self.clock.random_bytes(32).hex()],
                "secret_encryption_key": self.clock.random_bytes(32).hex(),
                "child_networks": ["loopback"],
                "state_path": str(self.folder / name),
                "service_down_time": 1e6,
                **overrides,
            }
        )
        zone = self._open(conf, open_store(a_database(self.folder / f"{name}.sqlite")))
        app = create_app(zone)
        self.network.mount(url, app)
        node = Node(name, url, zone, app)
        made = [_a_user(self.clock, role) for role in Role if role is not Role.PARENT]
        zone.store.write(lambda tx: [user_rows.insert(tx, user) for user, _ in made])
        node.secrets |= {user.name: secret for user, secret in made}
        node.compute = users.authenticate(zone, "compute", node.secrets["compute"])
        return node

    def _open(self, conf: Conf, store: Store) -> Zone:
        transport = HttpTransport.from_conf(conf, self.clock, adapter=self.network)
        return Zone.open(
            conf,
            clock=self.clock,
            executor=self.executor,
            transport=transport,
            store=store,
            password_cost=CHEAP_PASSWORDS,
        )


def _a_user(clock: FakeClock, role: Role) -> tuple[User, str]:
    """Make the user of a role and its secret, as `users.create` does."""
    secret = new_secret(clock)
    user = User(clock.new_uuid(), role.value, role, "project-1", hash_secret(secret), clock.now())
    return user, secret
