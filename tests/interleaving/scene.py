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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from tests.interleaving.catalog import Furnished
from tests.interleaving.kept_rows import KeptRows
from tests.interleaving.played_store import PlayedStore
from zonesched import conf as options
from zonesched.model.agent_instances import AgentReport, AgentState
from zonesched.model.build_plan import ChildBlob, EntryPlace
from zonesched.model.caller import Caller, Role
from zonesched.model.desired_call import DesiredOf
from zonesched.model.desired_state import Action, Desired
from zonesched.model.instance_action import MigrateServer, ResizeServer
from zonesched.model.observed_state import Observed, Power
from zonesched.model.place import LocalPlace
from zonesched.model.placement import Attempt, Build, InstanceStatus, PlacementState
from zonesched.model.request_spec import GroupPolicy, NoGroup, RequestSpec, ServerGroup
from zonesched.model.request_wire import content_digest
from zonesched.model.views import ServiceChange
from zonesched.seal.envelope import Bound
from zonesched.services.hosts import hosts, services
from zonesched.services.moves import mover
from zonesched.services.owners import actions
from zonesched.services.parent import desired
from zonesched.services.parent.confirm import confirm
from zonesched.services.parent.hold import hold_builds
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

PARENT = Caller("00000000-0000-4000-8000-000000000001", "parent", Role.PARENT, "")
BOUNDED = Caller("00000000-0000-4000-8000-000000000002", "bounded", Role.PARENT, "")
OWNER = Caller("user-1", "owner", Role.MEMBER, "project-1")
ADMIN = Caller("admin-1", "admin", Role.ADMIN, "project-0")
CHILD = "00000000-0000-4000-8000-00000000000c"
HOLD_S = 30.0
RESOURCES = a_spec().resources


def uuid_of(number: int) -> str:
    """The uuid of one of the scene's instances or boots."""
    return f"11111111-1111-4111-8111-{number:012d}"


def boot_of(uuid: str) -> str:
    """The id of the boot of one of the scene's own instances."""
    return uuid.replace("11111111", "22222222", 1)


HELD, NEW, ELSEWHERE, INTO_CHILD = map(uuid_of, range(1, 5))
FRESH, FAILING, LEFT, SERVER = map(uuid_of, range(5, 9))
BELOW, ASKED, OFFERED, DOOMED = map(uuid_of, range(10, 14))
PLACING, LEAVING, ARRIVING, RESIZED, RESTING = map(uuid_of, range(14, 19))
MEMBER, OTHERS = uuid_of(20), (uuid_of(21), uuid_of(22), uuid_of(23))
BOOT, MEMBERS = uuid_of(100), uuid_of(101)
NEW_BOOTS, NEW_SERVERS = (uuid_of(110), uuid_of(111)), (uuid_of(200), uuid_of(201))
TOGETHER, APART, JOINED = uuid_of(120), uuid_of(121), uuid_of(122)


class SceneClock(FakeClock):
    """A clock that starts again with each schedule."""

    def start(self, seed: int) -> None:
        """Begin at the first moment, with the same random numbers as before."""
        FakeClock.__init__(self, START, seed)


@dataclass(frozen=True)
class Sent:
    """One call of a parent, which any process can take."""

    caller: Caller
    reservation_id: str
    spec: RequestSpec
    builds: Sequence[Build]

    def hold(self, zone: Zone) -> object:
        """Take the call."""
        return hold_builds(zone, self.caller, self.reservation_id, self.builds, HOLD_S, self.spec)


@dataclass
class Scene:
    """The zone, in as many processes as there are players, and what its callers send."""

    zones: Sequence[Zone]
    edges: Sequence[WsgiAdapter]
    watch: psycopg.Connection[Any]
    host_ids: Mapping[str, str]
    calls: Mapping[str, Sequence[Sent]]
    new_boots: Sequence[NewBoot]
    rows: KeptRows
    furnished: Furnished

    @classmethod
    def open(cls, folder: Path, url: str, watch: psycopg.Connection[Any], players: int = 3) -> Scene:
        """Set the scene on an empty database of the present schema; `watch`: a connection to it."""
        edges = [WsgiAdapter() for _ in range(players)]
        first = _open_zone(folder, url, 0, edges[0])
        host_ids = _add_hosts(first)
        first.store.write(partial(_add_child, first))
        catalog.add_flavors(first)
        new_boots = [_accept(first, *one) for one in zip(NEW_SERVERS, NEW_BOOTS, strict=True)]
        calls = _calls(first, host_ids)
        _fill(first, host_ids, calls)
        furnished = catalog.furnish(first, admin=ADMIN, parent=PARENT, server=SERVER)
        zones = [first, *(_open_zone(folder, url, number, edges[number]) for number in range(1, players))]
        return cls(zones, edges, watch, host_ids, calls, new_boots, KeptRows(watch), furnished)

    def begin(self, damage: Sequence[str] = ()) -> None:
        """Put everything back to the first moment, with rows damaged by these statements."""
        self.rows.put_back(played_store.written)
        played_store.written.clear()
        for statement in damage:
            text: Any = statement
            self.watch.execute(text)
            played_store.written.update(played_store.tables_of(statement))
        for number, zone in enumerate(self.zones):
            assert isinstance(zone.clock, SceneClock)
            zone.clock.start(number)
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


def _spec(reservation_id: str, group: ServerGroup | NoGroup | None = None) -> RequestSpec:
    spec = a_spec(reservation_id=reservation_id)
    return replace(spec, group=group or NoGroup(), path=("33333333-3333-4333-8333-333333333333",))


def _call(
    zone: Zone,
    caller: Caller,
    reservation_id: str,
    places: Mapping[str, Sequence[EntryPlace]],
    group: ServerGroup | None = None,
    attempt: int = 1,
) -> Sent:
    spec = _spec(reservation_id, group)
    bound = Bound(zone.uuid, caller.user_id, spec.project_id, content_digest(spec))
    builds = [Build(uuid, attempt, tuple(zone.envelope.seal(bound, some))) for uuid, some in places.items()]
    return Sent(caller, reservation_id, spec, builds)


def _calls(zone: Zone, host_ids: Mapping[str, str]) -> Mapping[str, Sequence[Sent]]:
    h1, h2, h3, h4, h5 = (LocalPlace(host_ids[name]) for name in ("h1", "h2", "h3", "h4", "h5"))
    affine, apart = (
        ServerGroup(TOGETHER, GroupPolicy.AFFINITY),
        ServerGroup(APART, GroupPolicy.ANTI_AFFINITY, 1),
    )
    joined = ServerGroup(JOINED, GroupPolicy.AFFINITY)
    in_child, again_in_child = (ChildBlob(CHILD, blob) for blob in answering_child.BLOBS)
    whole = {HELD: [h1], NEW: [h1], ELSEWHERE: [h3]}
    return {
        "first": [_call(zone, PARENT, BOOT, {HELD: [h1, h2], FAILING: [h1, h2]})],
        "hold": [_call(zone, PARENT, BOOT, whole)],
        "below": [_call(zone, PARENT, BOOT, {INTO_CHILD: [in_child, h1]})],
        "below_twice": [_call(zone, PARENT, BOOT, {INTO_CHILD: [in_child, again_in_child, h1]})],
        "both": [_call(zone, PARENT, BOOT, {INTO_CHILD: [in_child], ELSEWHERE: [h3, h2]})],
        "bounded": [_call(zone, BOUNDED, uuid_of(130 + n), {uuid_of(30 + n): [h1]}) for n in range(3)],
        "together": [
            _call(zone, PARENT, uuid_of(140 + n), {uuid_of(40 + n): [host]}, affine)
            for n, host in enumerate((h2, h3, h4))
        ],
        "apart": [_call(zone, PARENT, uuid_of(150 + n), {uuid_of(50 + n): [h2]}, apart) for n in range(3)],
        "join": [_call(zone, PARENT, uuid_of(160 + n), {uuid_of(60 + n): [h3]}, joined) for n in range(3)],
        "empty": [_call(zone, PARENT, uuid_of(190), {uuid_of(90): [h5]})],
        "next": [_call(zone, PARENT, BOOT, {HELD: [h2]}, attempt=2)],
        "pruned": [_call(zone, PARENT, catalog.PRUNED_BOOT, {uuid_of(70): [h1]})],
        "member": [_call(zone, PARENT, MEMBERS, {MEMBER: [h2]}, joined)],
    }


def _accept(zone: Zone, uuid: str, boot_id: str) -> NewBoot:
    now, spec = zone.clock.now(), replace(_spec(boot_id), path=())
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
