"""Draining of child zones: instances leave a disabled child, and are placed anew once nothing is left there.

Each leaves as a shelved one does, so the child says when it is gone. The rows alone say who is leaving, so
any process goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from zonesched import tracing
from zonesched.errors import Conflict
from zonesched.model.action_table import Action, Illegal, judge
from zonesched.model.caller import Caller
from zonesched.model.desired_state import NEW, Desired
from zonesched.model.group_place import Anywhere, GroupPlace
from zonesched.model.observed_state import Power
from zonesched.model.placement import UNFINISHED, PlacementState
from zonesched.model.shown_status import Status, expected_status
from zonesched.model.views import Drained, Staying
from zonesched.services.children import children, drain_turns
from zonesched.services.life import leaving
from zonesched.services.life.wanting import Wanted, wake_for, want
from zonesched.services.zone import Zone
from zonesched.store import (
    group_places,
    identity,
    instance_actions,
    instance_states,
    instances,
    locks,
    placements,
)
from zonesched.store.instance_actions import Count, InstanceAction
from zonesched.store.instance_states import StoredState
from zonesched.store.instances import Instance
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.store import Transaction

DRAINS = {"drain": Power.RUNNING, "drain stopped": Power.STOPPED}
"""Names of the actions with which instances leave, and the power that each has at its new place."""

MOST_LISTED = 1000

UNPLACED = "The server has left the child zone, and rests without a place."

MESSAGES = {
    "server_of_parent": "The server belongs to a parent zone: drain this zone there.",
    "rebuild_elsewhere_refused": "The server's owner wants no rebuild elsewhere (rebuild_elsewhere: false).",
    "server_in_affinity_group": "The server's group has its one place in this child.",
    "zone_routing_disabled": "This zone passes no calls on to its child zones.",
    Illegal.HAS_ENDED.value: "The server is in ERROR: its owner deletes it.",
    Illegal.WRONG_STATUS.value: "Only servers that are ACTIVE or SHUTOFF are drained.",
}


@dataclass(frozen=True)
class _Here:
    """An instance at its place in the child, with its stored state."""

    instance: Instance
    place: Placement
    stored: StoredState | None


@dataclass(frozen=True)
class _Leaves:
    """An instance may leave, with this desired state, by an action of this name."""

    desired: Desired
    action: str


@dataclass(frozen=True)
class _Stays:
    code: str


@dataclass(frozen=True)
class _IsLeaving:
    pass


@dataclass(frozen=True)
class _Waits:
    """Something else is under way."""


_Verdict = _Leaves | _Stays | _IsLeaving | _Waits


@dataclass(frozen=True)
class _Found:
    """The instances in a child, and those that a drain has let leave it.

    `drained`: those in the child that leave by a drain; `on_their_way`: those that have left and are being
    placed; `without_place`: those that have left and rest, each with the reason.
    """

    here: Sequence[tuple[_Here, _Verdict]]
    drained: Sequence[str]
    on_their_way: Sequence[str]
    without_place: Sequence[tuple[Instance, str]]


def drain(zone: Zone, caller: Caller, child_id: str, count: int, *, retry: bool = True) -> Drained:
    """Let instances leave a disabled child until `count` are on their way: a repeat lets no more leave.

    With `retry`, those that have left it and found no place are placed again, but for half of `count` where
    others can leave. Those that ask for the same wait until these have a place.
    Raises NotFound, and Conflict for a child that is not disabled.
    """
    if children.show(zone.store, zone.children, child_id).state != children.DISABLED:
        raise Conflict(
            "The child zone is enabled: new instances would take the places of those that leave.",
            code="child_not_disabled",
            field="drain",
        )
    found = zone.store.read(partial(_look, zone, child_id))
    leaving_now = sum(isinstance(verdict, _IsLeaving) for _, verdict in found.here)
    ready = [one.instance for one, verdict in found.here if isinstance(verdict, _Leaves)]
    room = max(0, count - leaving_now - len(found.on_their_way))
    unplaced = [row for row, _ in found.without_place if leaving.may_be_rebuilt(row)]
    free = zone.store.read(lambda tx: drain_turns.may_leave(tx, ready, unplaced))
    tries = drain_turns.retries(count, room, len(found.on_their_way), others_wait=bool(free))
    again = [row.uuid for row in unplaced][: tries if retry else 0]
    chosen = free[: room - len(again)]
    asked = zone.store.write(partial(_leave, zone, caller, child_id, chosen)) if chosen else []
    wake_for(zone.wake, [one.place for one in asked])
    if again:
        again = zone.store.write(partial(_place_again, zone, caller, child_id, again))
        zone.wake.boots()
    staying = [
        Staying(one.instance.uuid, one.instance.name, verdict.code, MESSAGES.get(verdict.code, ""))
        for one, verdict in found.here
        if isinstance(verdict, _Stays)
    ]
    staying += [
        Staying(row.uuid, row.name, reason, UNPLACED)
        for row, reason in found.without_place
        if row.uuid not in again
    ]
    return Drained(
        asked=[*(one.instance.uuid for one in asked), *found.drained],
        on_their_way=[*again, *found.on_their_way],
        leaving=leaving_now + len(asked),
        waiting=sum(isinstance(v, _Waits) for _, v in found.here) + len(ready) - len(asked),
        held_up=len(ready) - len(free),
        staying=staying[:MOST_LISTED],
        staying_count=len(staying),
    )


def _look(zone: Zone, child_id: str, tx: Transaction) -> _Found:
    here = _judged(zone, tx, _present(tx, placements.unfinished_in(tx, child_id)))
    leaving_ = [one.instance.uuid for one, verdict in here if isinstance(verdict, _IsLeaving)][:MOST_LISTED]
    names = instance_actions.names_of_last(tx, leaving_)
    reasons = instance_actions.without_place_from(tx, child_id, DRAINS.keys())
    rows = instances.read_by_uuid(tx, sorted(reasons))
    return _Found(
        here=here,
        drained=[uuid for uuid in leaving_ if names.get(uuid) in DRAINS],
        on_their_way=instance_actions.on_their_way_from(tx, child_id, DRAINS.keys(), MOST_LISTED),
        without_place=[(rows[uuid], reason) for uuid, reason in reasons.items()],
    )


def _place_again(
    zone: Zone, caller: Caller, child_id: str, uuids: Sequence[str], tx: Transaction
) -> list[str]:
    """Place those of these instances anew that still rest without a place; return them."""
    locks.instances(tx, uuids)
    resting = sorted(instance_actions.without_place_from(tx, child_id, DRAINS.keys()).keys() & set(uuids))
    change, now = identity.next_change(tx), zone.clock.now()
    rows, states = instances.read_by_uuid(tx, resting), instance_states.read(tx, resting)
    powers = {uuid: states[uuid].state.desired.power for uuid in resting}
    leaving.place_anew(tx, change, list(rows.values()), powers, caller.user_id, now)
    return resting


def place_anew(zone_uuid: str, tx: Transaction, change: int, resting: Iterable[str], now: float) -> None:
    """Place those of these instances anew that rest since they were drained; they are locked."""
    uuids = sorted(resting)
    names = instance_actions.names_of_last(tx, uuids)
    drained = {uuid: DRAINS[names[uuid]] for uuid in uuids if names.get(uuid) in DRAINS}
    rows = instances.read_by_uuid(tx, sorted(drained))
    leaving.place_anew(tx, change, list(rows.values()), drained, zone_uuid, now)


def _present(tx: Transaction, places: Iterable[Placement]) -> list[_Here]:
    there = {p.key: p for p in places}
    wanted = sorted({uuid for uuid, _ in there})
    rows, states = instances.read_by_uuid(tx, wanted), instance_states.read(tx, wanted)
    found = [(row, there.get((row.uuid, row.attempt))) for row in rows.values()]
    return [_Here(row, place, states.get(row.uuid)) for row, place in found if place is not None]


def _judged(zone: Zone, tx: Transaction, here: Sequence[_Here]) -> list[tuple[_Here, _Verdict]]:
    place_of = cache(partial(group_places.find, tx))
    return [(one, _judge(zone, place_of, one)) for one in here]


def _judge(zone: Zone, place_of: Callable[[str, str], GroupPlace], one: _Here) -> _Verdict:
    instance, state = one.instance, one.stored.state if one.stored is not None else NEW
    if instance.caller_id != zone.uuid:
        return _Stays("server_of_parent")
    if state.desired.power is Power.OFFLOADED:
        return _IsLeaving()
    if one.place.state is not PlacementState.CONFIRMED or state.is_pending:
        return _Waits()
    if not zone.conf.enable_zone_routing:
        return _Stays("zone_routing_disabled")
    if not leaving.may_be_rebuilt(instance):
        return _Stays("rebuild_elsewhere_refused")
    if instance.group_id and not isinstance(place_of(instance.caller_id, instance.group_id), Anywhere):
        return _Stays("server_in_affinity_group")
    found = judge(Action.SHELVE, instance.status, state)
    status = expected_status(instance.status, state)
    action = {Status.ACTIVE: "drain", Status.SHUTOFF: "drain stopped"}.get(status)
    if isinstance(found, Illegal) or action is None:
        code = found.value if isinstance(found, Illegal) else Illegal.WRONG_STATUS.value
        # A move within the child ends by itself.
        is_transient = code == Illegal.NOT_BUILT.value or status is Status.RESIZE
        return _Waits() if is_transient else _Stays(code)
    return _Leaves(found, action)


def _leave(
    zone: Zone, caller: Caller, child_id: str, uuids: Sequence[str], tx: Transaction
) -> Sequence[_Here]:
    """Let those of these instances leave that still may."""
    locks.instances(tx, uuids)
    # Not all that the child has: other writers wait meanwhile.
    places = placements.read_by_uuid(tx, uuids)
    there = [p for p in places if isinstance(p.where, AskedChild) and p.where.child_id == child_id]
    judged = _judged(zone, tx, _present(tx, [p for p in there if p.state in UNFINISHED]))
    leaves = [(one, verdict) for one, verdict in judged if isinstance(verdict, _Leaves)]
    if not leaves:
        return ()
    change, now = identity.next_change(tx), zone.clock.now()
    before: Mapping[str, StoredState] = {
        one.instance.uuid: one.stored for one, _ in leaves if one.stored is not None
    }
    counts = instance_actions.counts(tx, uuids)
    want(tx, [Wanted(one.instance, one.place, v.desired) for one, v in leaves], before, change, now)
    instance_actions.insert(
        tx,
        [
            InstanceAction(
                uuid=one.instance.uuid,
                number=counts.get(one.instance.uuid, Count()).last + 1,
                action=verdict.action,
                request_id=tracing.current().request_id,
                user_id=caller.user_id,
                project_id=one.instance.project_id,
                generation=verdict.desired.generation,
                started_at=now,
            )
            for one, verdict in leaves
        ],
    )
    return [one for one, _ in leaves]
