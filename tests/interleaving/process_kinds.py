"""Kinds of a process itself: it starts, stops, finds its clock set back, and follows the rows it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.builders.one_zone import AGENT
from tests.interleaving.names import PARENT, SERVER
from tests.interleaving.operator_kinds import Act
from tests.interleaving.scene import Prepare, Scene
from zonesched.model.console import ConsoleAnswer, ConsoleState
from zonesched.model.placement import BuildState, InstanceChange
from zonesched.services import zone as zones
from zonesched.services.hosts import hosts, services
from zonesched.services.owners.reservations import changes
from zonesched.services.state.clock_steps import bring_near
from zonesched.services.state.host_cache import HostCache
from zonesched.services.state.sql_hosts import SqlHosts
from zonesched.services.zone import Zone
from zonesched.store import consoles
from zonesched.store import services as service_rows
from zonesched.store.consoles import ConsoleAsk

_TIMES = (
    ("placements", "next_call_at"),
    ("placements", "hold_expires_at"),
    ("instance_states", "next_call_at"),
    ("instance_states", "resized_at"),
    ("reservations", "next_work_at"),
    ("reservations", "lease_expires_at"),
    ("moves", "next_step_at"),
)
ASK = ConsoleAsk("55555555-5555-4555-8555-555555555555", SERVER, 1)


def _started(scene: Scene, zone: Zone, number: int) -> None:
    """Another process starts on the same rows."""
    zones._identify(zone.conf, zone.store, zone.clock)
    services.beat_own(zone)


def _stopped(scene: Scene, zone: Zone, number: int) -> None:
    leases = [new.lease for new in scene.new_boots]
    zone.store.write(lambda tx: zones._give_back(tx, leases))


def _set_back(scene: Scene, zone: Zone, number: int) -> None:
    zone.store.write(lambda tx: bring_near(tx, zone.conf, zone.clock.now()))


def _console(scene: Scene, zone: Zone, number: int) -> object:
    now = zone.clock.now()
    agents = {one.name: one.id for one in zone.store.read(service_rows.read_all).values()}
    zone.store.write(lambda tx: consoles.insert(tx, ASK, agents["agent"], now + 60))
    found = zone.store.read(lambda tx: consoles.answer_to(tx, ASK.id))
    zone.store.write(lambda tx: consoles.delete(tx, ASK.id, now))
    return found is None


def _console_answered(scene: Scene, zone: Zone, number: int) -> object:
    answer = ConsoleAnswer(ConsoleState.READ, "text")
    return hosts.take_console(zone.store, AGENT, "agent", ASK.id, answer)


def _idle_console(scene: Scene, zone: Zone, number: int) -> None:
    now = zone.clock.now()
    idle = scene.furnished.idle_agent_id
    zone.store.write(lambda tx: consoles.insert(tx, ASK, idle, now + 60))
    zone.store.write(lambda tx: consoles.delete(tx, ASK.id, now))


def _cached(cache: HostCache | SqlHosts) -> list[tuple[object, ...]]:
    assert isinstance(cache, HostCache)
    with cache.current() as table:
        classes = sorted(table.resource_classes)
        return [
            (
                table.name(row),
                *(bool(of[row]) for of in (table.enabled, table.up)),
                *(float(table.used(name)[row]) for name in classes),
                *(float(table.capacity(name)[row]) for name in classes),
                *(float(of[row]) for of in (table.num_instances, table.num_building, table.failed_builds)),
            )
            for row in map(table.row_of, table.ids_between("", ""))
        ]


def _hosts_followed(scene: Scene, zone: Zone, number: int) -> None:
    """Read the hosts that have changed; at the second look all is as a new process reads it."""
    found = [_cached(zone.hosts) for _ in range(4)]
    if number in scene.looked:
        fresh = HostCache(zone.store, zone.clock, zone.listening, max_age_s=0.0)
        if found[-1] != _cached(fresh):
            raise AssertionError(f"a cache of hosts lacks changes: {found[-1]} {_cached(fresh)}")
    scene.looked.add(number)


def _as_told(change: InstanceChange) -> InstanceChange:
    """Leave out what a parent learns by the answer to its own confirm, not by the feed."""
    return replace(change, state=BuildState.CONFIRMED) if change.state is BuildState.HELD else change


def _all(zone: Zone, cursor: str, known: dict[str, InstanceChange]) -> str:
    more = True
    while more:
        page, cursor, more = changes(zone, PARENT, cursor)
        known |= {one.uuid: _as_told(one) for one in page}
    return cursor


def _feed_followed(scene: Scene, zone: Zone, number: int) -> None:
    """Read the changes of a parent's instances, as a parent does: later looks miss none."""
    cursor, known = scene.followed.get(number, ("", {}))
    for _ in range(4):
        cursor = _all(zone, cursor, known)
    if number in scene.followed:
        fresh: dict[str, InstanceChange] = {}
        _all(zone, "", fresh)
        if any(known.get(uuid) != one for uuid, one in fresh.items()):
            raise AssertionError(f"a parent that follows its feed lacks changes: {known} {fresh}")
    scene.followed[number] = (cursor, known)


def _far(scene: Scene, zone: Zone) -> None:
    """Times were stored by a clock that was ahead."""
    for table, column in _TIMES:
        scene.spoil(f"UPDATE {table} SET {column} = {column} + 1000000 WHERE {column} > 0")


ACTS: Mapping[str, tuple[Act, Prepare | None]] = {
    "process_started": (_started, _far),
    "process_stopped": (_stopped, None),
    "clock_set_back": (_set_back, _far),
    "console": (_console, None),
    "console_answered": (_console_answered, None),
    "idle_console": (_idle_console, None),
    "hosts_followed": (_hosts_followed, None),
    "feed_followed": (_feed_followed, None),
}
"""Kinds by name, each with what sets its own scene."""

LOOK_AGAIN = frozenset({"hosts_followed", "feed_followed"})
