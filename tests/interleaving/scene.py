"""One zone in the midst of everything, and the processes that write to it.

h1   4 slots   HELD held (parent), built below: FRESH of a user, FAILING of the parent     1 left
h2   plenty    members of groups, instances that move or are acted on, RESIZED with both of its places;
               RESTING was there, and is shelved
h3   4 slots   LEFT, which only waits for its agent
h4   4 slots   the new places of the moves ARRIVING and LEAVING                            2 left
h5   empty, of another agent, and disabled
c1   a child   BELOW is built there, ASKED is being confirmed, OFFERED is held

Nobody reaches the child, unless a kind lets it answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from tests.builders.clock import START, FakeClock
from tests.builders.inline_executor import InlineExecutor
from tests.builders.one_zone import (
    AGENT,
    CHEAP_PASSWORDS,
    KEY,
    a_form,
    a_spec,
    put_instance,
    put_place,
    put_reservation,
)
from tests.builders.wsgi_transport import Dead, WsgiAdapter
from tests.interleaving import answering_child, catalog, played_store
from tests.interleaving.answering_child import AnsweringChild
from tests.interleaving.calls import Sent, calls_of, spec_of
from tests.interleaving.catalog import Furnished
from tests.interleaving.kept_rows import KeptRows
from tests.interleaving.names import (
    ADMIN,
    ARRIVING,
    ASKED,
    BELOW,
    BOOT,
    BOUNDED,
    CHILD,
    DOOMED,
    FAILING,
    FRESH,
    LEAVING,
    LEFT,
    MEMBER,
    MEMBERS,
    NEW_BOOTS,
    NEW_SERVERS,
    OFFERED,
    OWNER,
    PARENT,
    PLACING,
    RESIZED,
    RESTING,
    SERVER,
    boot_of,
)
from tests.interleaving.played_store import PlayedStore
from zonesched import conf as options
from zonesched.errors import ZoneschedError
from zonesched.model.action_table import Action
from zonesched.model.agent_instances import AgentReport, AgentState
from zonesched.model.desired_call import DesiredOf
from zonesched.model.desired_state import Desired
from zonesched.model.instance_action import MigrateServer, ResizeServer
from zonesched.model.observed_state import Observed, Power
from zonesched.model.placement import Attempt, InstanceChange, InstanceStatus, PlacementState
from zonesched.model.views import ServiceChange
from zonesched.services.hosts import hosts, services
from zonesched.services.moves import mover
from zonesched.services.owners import actions
from zonesched.services.parent import desired
from zonesched.services.parent.confirm import confirm
from zonesched.services.state.boot_queue import NewBoot
from zonesched.services.state.child_rows import StoredChildren
from zonesched.services.state.heartbeats import Heartbeats
from zonesched.services.state.host_cache import HostCache
from zonesched.services.state.quotas import Quotas
from zonesched.services.state.restored import Restored
from zonesched.services.zone import Zone
from zonesched.store import children, identity, instances, quota_overrides, reservations
from zonesched.store.children import ChildRow
from zonesched.store.placements import AskedChild, ClaimedHost
from zonesched.store.reservations import ReservationState
from zonesched.store.store import Transaction
from zonesched.zones.transport import HttpTransport
from zonesched.zones.zone_manager import ZoneManager

RESOURCES = a_spec().resources


class SceneClock(FakeClock):
    """A clock that starts again with each schedule."""

    def start(self, seed: int) -> None:
        """Begin at the first moment, with the same random numbers as before."""
        FakeClock.__init__(self, START, seed)


class Logged(logging.Handler):
    """Keeps the errors that loops have logged: these go on with the next thing."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what was logged, and the error that it is about."""
        error = record.exc_info[1] if record.exc_info else ""
        self.lines.append(f"{record.getMessage()}: {error}")


Prepare = Callable[["Scene", Zone], object]


@dataclass
class Scene:
    """The zone, in as many processes as there are players, and what its callers send."""

    zones: Sequence[Zone]
    edges: Sequence[WsgiAdapter]
    watch: psycopg.Connection[Any]
    host_ids: Mapping[str, str]
    calls: Mapping[str, Sequence[Sent]]
    new_boots: Sequence[NewBoot]
    first: KeptRows
    rows: KeptRows
    furnished: Furnished
    logged: Logged = field(default_factory=Logged)
    begun: object = ()
    changed: set[str] = field(default_factory=set)
    prepared: list[Prepare] = field(default_factory=list)
    looked: set[int] = field(default_factory=set)
    followed: dict[int, tuple[str, dict[str, InstanceChange]]] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, url: str, watch: psycopg.Connection[Any], players: int = 3) -> Scene:
        """Set the scene on an empty database of the present schema; `watch`: a connection to it."""
        edges = [WsgiAdapter() for _ in range(players)]
        first = _open_zone(folder, url, 0, edges[0])
        host_ids = _add_hosts(first)
        first.store.write(partial(_add_child, first))
        catalog.add_flavors(first)
        new_boots = [_accept(first, *one) for one in zip(NEW_SERVERS, NEW_BOOTS, strict=True)]
        calls = calls_of(first, host_ids)
        _fill(first, host_ids, calls)
        furnished = catalog.furnish(first, admin=ADMIN, parent=PARENT, server=SERVER)
        zones = [first, *(_open_zone(folder, url, number, edges[number]) for number in range(1, players))]
        rows = KeptRows(watch)
        scene = cls(zones, edges, watch, host_ids, calls, new_boots, rows, rows, furnished)
        logging.getLogger("zonesched").addHandler(scene.logged)
        return scene

    def begin(self, damage: Sequence[str] = (), prepare: Sequence[Prepare] = ()) -> None:
        """Put everything back to the first moment, with rows damaged by these statements.

        `prepare`: what has come about since then.
        """
        if not prepare or (damage, prepare) != self.begun:
            self.first.put_back(played_store.written | self.changed)
            self.rows = self.first
            self.begun = (damage, prepare)
            self.changed.clear()
            played_store.written.clear()
            self._spoil(damage)
            if prepare:
                self._open(0)
                self.prepared.clear()
                for one in prepare:
                    self.once(one, self.zones[0])
                self.changed.update(played_store.written)
                self.rows = KeptRows(self.watch, "prepared")
        else:
            self.rows.put_back(played_store.written)
        if prepare:
            played_store.written.clear()
        self.looked.clear()
        self.followed.clear()
        self.logged.lines.clear()
        # Other random numbers than those of what was prepared.
        self._open(len(self.zones) if prepare else 0)

    def _open(self, seed: int) -> None:
        """Let all processes be as if they had just begun."""
        for number, zone in enumerate(self.zones):
            assert isinstance(zone.clock, SceneClock)
            zone.clock.start(seed + number)
            self.edges[number].fault(answering_child.URL, Dead())
            zone.quotas = Quotas(zone.conf, zone.uuid, zone.store, zone.clock)
            _count_holds(zone)
            zone.hosts = HostCache(zone.store, zone.clock, zone.listening, max_age_s=0.0)
            zone.restored = Restored(zone.store)
            # It remembers which it has written.
            zone.heartbeats = Heartbeats(zone.store, zone.clock, zone.conf.service_down_time)
            zone.children = ZoneManager.from_conf(
                zone.conf,
                StoredChildren(zone.store, zone.secret_box),
                zone.uuid,
                zone.clock,
                zone.executor,
                zone.transport,
            )
            zone.children.refresh()
            while zone.boots.take() is not None:
                pass

    def _spoil(self, damage: Sequence[str]) -> None:
        for statement in damage:
            self.spoil(statement)

    def spoil(self, statement: str) -> None:
        """Change rows before a schedule."""
        text: Any = statement
        self.watch.execute(text)
        played_store.written.update(played_store.tables_of(statement))

    def once(self, prepare: Prepare, zone: Zone) -> None:
        """Bring about a scene of some kinds, as far as that goes after what others have brought about."""
        if prepare not in self.prepared:
            self.prepared.append(prepare)
            with suppress(ZoneschedError):
                prepare(self, zone)

    def answering(self, number: int, child: AnsweringChild) -> None:
        """Let the child answer what one process asks."""
        self.edges[number].heal(answering_child.URL)
        self.edges[number].mount(answering_child.URL, child)

    def later(self, zone: Zone, seconds: float) -> Zone:
        """Let one process be late, or its clock ahead."""
        assert isinstance(zone.clock, SceneClock)
        zone.clock.advance(seconds)
        return zone

    def end_connection(self, pid: int) -> None:
        """End a connection, and wait until the server has let go of what it held."""
        self.watch.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])

    def close(self) -> None:
        """End all processes."""
        logging.getLogger("zonesched").removeHandler(self.logged)
        self.first.forget()
        if self.rows is not self.first:
            self.rows.forget()
        for zone in self.zones:
            zone.store.close()


def _count_holds(zone: Zone) -> None:
    """Count the parent's holds, as they are at most times: calls that count them take turns as a whole."""
    zone.store.read(lambda tx: zone.quotas.admit_holds(tx, PARENT.user_id, 0, 0))


def _open_zone(folder: Path, url: str, number: int, edge: WsgiAdapter) -> Zone:
    conf = options.load(
        overrides={
            "state_path": str(folder),
            "database_url": url,
            "build_plan_encryption_key": [KEY],
            "secret_encryption_key": KEY,
            "child_networks": ["loopback", "private"],
            "max_server_groups": 1,
            "reclaim_instance_interval": 600.0,
            "enable_zone_routing": True,
        }
    )
    clock = SceneClock(seed=number)
    return Zone.open(
        conf,
        clock=clock,
        executor=InlineExecutor(),
        transport=HttpTransport.from_conf(conf, clock, adapter=edge),
        store=PlayedStore.of_player(url),
        password_cost=CHEAP_PASSWORDS,
    )


def _add_hosts(zone: Zone) -> Mapping[str, str]:
    slots = {"h1": 4, "h2": 40, "h3": 4, "h4": 4}
    forms = [a_form(name, VCPU=n, MEMORY_MB=1000 * n) for name, n in slots.items()]
    ids = list(hosts.register(zone, AGENT, "agent", forms).hosts)
    ids += hosts.register(zone, AGENT, "spare", [a_form("h5", VCPU=4, MEMORY_MB=4000)]).hosts
    # Boots would go to an empty host.
    services.change(zone, ids[-1][0], ServiceChange(is_enabled=False))
    hosts.beat(zone, AGENT, "agent")
    zone.heartbeats.write()
    return {name: host_id for host_id, name in ids}


def _add_child(zone: Zone, tx: Transaction) -> None:
    password = zone.secret_box.encrypt("children", CHILD, "password", "secret")
    children.insert(tx, ChildRow(CHILD, "c1", f"{answering_child.URL}/v2.1", "parent", password, 0.0, 1.0))
    quota_overrides.write(tx, BOUNDED.user_id, {"parent_instances": 1, "parent_tombstones": 1})


def _accept(zone: Zone, uuid: str, boot_id: str) -> NewBoot:
    now, spec = zone.clock.now(), replace(spec_of(boot_id), path=())
    boot = reservations.of_request(
        spec,
        reservation_id=boot_id,
        caller_id=zone.uuid,
        user_id=OWNER.user_id,
        min_count=1,
        state=ReservationState.OPEN,
        now=now,
    )
    made = instances.of_request(
        spec,
        uuid=uuid,
        reservation_id=boot_id,
        caller_id=zone.uuid,
        user_id=OWNER.user_id,
        position=0,
        name="vm",
        now=now,
    )

    def fn(tx: Transaction) -> NewBoot:
        lease = reservations.insert_leased(tx, boot, now, zone.conf.boot_lease)
        instances.insert(tx, identity.next_change(tx), [made])
        return NewBoot(lease, boot, (made.uuid,))

    return zone.store.write(fn)


def _fill(zone: Zone, host_ids: Mapping[str, str], calls: Mapping[str, Sequence[Sent]]) -> None:
    """Bring about the first moment, by the zone's own services where it has them."""
    for name in ("first", "member"):
        for sent in calls[name]:
            sent.hold(zone)
    confirm(zone, PARENT, BOOT, [Attempt(FAILING, 1)])
    confirm(zone, PARENT, MEMBERS, [Attempt(MEMBER, 1)])
    desired.take(zone, PARENT, [DesiredOf(MEMBER, 1, Desired(1, Power.STOPPED))])
    _put(zone, LEFT, host_ids["h3"], InstanceStatus.ERROR, PlacementState.RELEASING)
    for uuid in (SERVER, PLACING, LEAVING, ARRIVING, RESIZED, RESTING):
        _put(zone, uuid, host_ids["h2"])
    hosts.desired(zone.store, zone.heartbeats, AGENT, "agent")
    states = {
        BELOW: PlacementState.CONFIRMED,
        ASKED: PlacementState.CONFIRMING,
        OFFERED: PlacementState.CANCELLING,
        DOOMED: PlacementState.CONFIRMED,
    }
    for uuid, state in states.items():
        boot_id = _boot_of(zone, uuid)
        put_instance(zone, uuid, status=InstanceStatus.BUILD, reservation_id=boot_id)
        put_place(zone, uuid, AskedChild(CHILD, ("blob",)), reservation_id=boot_id, state=state)
    actions.act(zone, ADMIN, RESIZED, ResizeServer(catalog.LARGE))
    mover.work(zone)
    hosts.report(zone, AGENT, "agent", [AgentReport(RESIZED, 1, AgentState.LEFT, left_for=2)])
    hosts.report(zone, AGENT, "agent", [AgentReport(RESIZED, 2, AgentState.ACTIVE, observed=Observed(1))])
    for uuid in (ARRIVING, LEAVING, PLACING):
        actions.act(zone, ADMIN, uuid, MigrateServer("h4"))
        if uuid != PLACING:
            mover.work(zone)
        if uuid == ARRIVING:
            hosts.report(zone, AGENT, "agent", [AgentReport(uuid, 1, AgentState.LEFT, left_for=2)])
    actions.act(zone, ADMIN, RESTING, Action.SHELVE)
    hosts.report(zone, AGENT, "agent", [AgentReport(RESTING, 1, AgentState.GONE)])
    hosts.desired(zone.store, zone.heartbeats, AGENT, "agent")
    # Its agent does not know of it yet.
    _put(zone, FRESH, host_ids["h1"], InstanceStatus.BUILD)


def _boot_of(zone: Zone, uuid: str) -> str:
    boot_id = boot_of(uuid)
    put_reservation(zone, boot_id)
    return boot_id


def _put(
    zone: Zone,
    uuid: str,
    host_id: str,
    status: InstanceStatus = InstanceStatus.ACTIVE,
    state: PlacementState = PlacementState.CONFIRMED,
) -> None:
    boot_id = _boot_of(zone, uuid)
    put_instance(zone, uuid, status=status, reservation_id=boot_id)
    put_place(zone, uuid, ClaimedHost(host_id, RESOURCES), reservation_id=boot_id, state=state)
