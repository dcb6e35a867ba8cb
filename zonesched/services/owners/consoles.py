"""Console output of instances: asked of the agent that has the instance, or of the child zone that has it.

Nothing is kept: each caller waits for an answer of its own. Waiting callers are limited in number, shared
fairly by caller, and in their rate; none of them waits longer than `MAX_WAIT_S`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zonesched.errors import CallerGone, ChildUnreachable, Conflict, NotFound
from zonesched.model.caller import Caller, Role
from zonesched.model.console import CONSOLE_TRAIT, ConsoleAnswer, ConsoleState
from zonesched.model.placement import HOLDS_INSTANCE, InstanceStatus
from zonesched.model.work_deadline import always
from zonesched.services.owners.scopes import scope_of
from zonesched.services.zone import Zone
from zonesched.store import consoles, hosts, placements, server_list, services
from zonesched.store.consoles import ConsoleAsk
from zonesched.store.placements import AskedChild, ClaimedHost
from zonesched.store.store import Transaction

MAX_WAIT_S = 10.0
SHARE_BELOW = 0.9
"""The share of its time that a zone gives a child, so that a late agent is told from a late zone."""

LOOK_S = 0.1
"""Pause between two looks for the answer, which another process of the zone may have taken."""


@dataclass(frozen=True)
class _OnHost:
    """The agent's service of an instance; `can_read`: its driver can; `is_up`: it was heard of lately."""

    ask: ConsoleAsk
    service_id: str
    host_id: str
    can_read: bool
    is_up: bool


@dataclass(frozen=True)
class _InChild:
    uuid: str
    child_id: str


def read(
    zone: Zone,
    caller: Caller,
    uuid: str,
    budget_s: float = MAX_WAIT_S,
    is_wanted: Callable[[], bool] = always,
) -> ConsoleAnswer:
    """Read the newest console output of an instance, wherever in the tree it is, within `budget_s`.

    Raises NotFound, OverLimit, ZoneBusy, CallerGone; Conflict where `enable_zone_routing` is off, also below.
    """
    where = zone.store.read(lambda tx: _where(zone, tx, caller, uuid))
    if where is None:
        return ConsoleAnswer(ConsoleState.NOT_THERE)
    budget_s = min(budget_s, MAX_WAIT_S)
    zone.quotas.admit_console(caller)
    slots = zone.console_slots
    with slots.of_parent(caller.user_id) if caller.role is Role.PARENT else slots.of_user(caller.user_id):
        match where:
            case _InChild():
                return _ask_child(zone, where, budget_s, is_wanted)
            case _OnHost(can_read=False):
                return ConsoleAnswer(ConsoleState.UNSUPPORTED)
            case _OnHost(is_up=False):
                return ConsoleAnswer(ConsoleState.LATE)
            case _OnHost():
                return _ask_agent(zone, where, budget_s, is_wanted)


def _where(zone: Zone, tx: Transaction, caller: Caller, uuid: str) -> _OnHost | _InChild | None:
    """Find where an instance of the caller's is; None for nowhere. Raises NotFound, Conflict."""
    found = server_list.find(tx, scope_of(zone.uuid, caller, all_tenants=True), uuid)
    living = [one for one in found if one.status is not InstanceStatus.DELETED]
    if not living:
        raise NotFound("There is no such instance.", code="instance_not_found")
    (instance,) = living
    places = placements.read_by_uuid(tx, [instance.uuid])
    place = next((p for p in places if p.number == instance.attempt and p.state in HOLDS_INSTANCE), None)
    if place is None:
        return None
    match place.where:
        case AskedChild(child_id):
            if not zone.conf.enable_zone_routing:
                raise Conflict(
                    "This zone passes no calls on to its child zones.", code="zone_routing_disabled"
                )
            return _InChild(place.uuid, child_id)
        case ClaimedHost(host_id):
            host = hosts.read_one(tx, host_id)
            service = services.read_one(tx, host.service_id) if host is not None else None
            if host is None or service is None:
                return None
            is_up = zone.listening.hears(service)
            return _OnHost(
                ConsoleAsk(zone.clock.new_uuid(), place.uuid, place.number),
                service.id,
                host_id,
                CONSOLE_TRAIT in host.traits,
                is_up and not host.forced_down,
            )


def _ask_agent(zone: Zone, where: _OnHost, budget_s: float, is_wanted: Callable[[], bool]) -> ConsoleAnswer:
    ask, ends_at = where.ask, zone.clock.monotonic() + budget_s
    expires_at = zone.clock.now() + 2 * budget_s
    zone.store.write(lambda tx: consoles.insert(tx, ask, where.service_id, expires_at))
    try:
        zone.wake.agents_of([where.host_id])
        while (found := zone.store.read(lambda tx: consoles.answer_to(tx, ask.id))) is None:
            left_s = ends_at - zone.clock.monotonic()
            if left_s <= 0:
                return ConsoleAnswer(ConsoleState.LATE)
            if not is_wanted():
                raise CallerGone
            zone.executor.pause(min(LOOK_S, left_s))
        return found
    finally:
        zone.store.write(lambda tx: consoles.delete(tx, ask.id, zone.clock.now()))


def _ask_child(zone: Zone, where: _InChild, budget_s: float, is_wanted: Callable[[], bool]) -> ConsoleAnswer:
    try:
        client = zone.child_client(where.child_id).within(zone.clock.monotonic() + budget_s, is_wanted)
        return client.console(where.uuid, budget_s * SHARE_BELOW, budget_s)
    except ChildUnreachable:
        return ConsoleAnswer(ConsoleState.LATE)
