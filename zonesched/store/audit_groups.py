"""Inconsistencies of server groups in a zone's rows; `store.audit` includes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.group_place import Anywhere
from zonesched.model.inconsistency import Inconsistency, OfGroup
from zonesched.model.place import ChildPlace, LocalPlace, Place
from zonesched.model.placement import CLAIMING, OCCUPYING, PlacementState
from zonesched.model.request_spec import Group, GroupPolicy, ServerGroup
from zonesched.store import group_places, reservations
from zonesched.store import tables as t
from zonesched.store.prepared import is_in

_place, _instance, _row = t.placements.c, t.instances.c, t.group_places.c
Key = tuple[str, str]
"""Sender of a group (a parent's user, or this zone's uuid) and the group's id."""


@dataclass(frozen=True)
class Member:
    """Instance that keeps the place of its group, and the group as its request has it."""

    uuid: str
    key: Key
    group: Group
    place: Place
    state: PlacementState


def group_inconsistencies(tx: Connection) -> list[Inconsistency]:
    """Find all inconsistencies of groups."""
    found = members(tx)
    return [*place_unused(tx), *places_differ(tx, found), *host_overfull(found)]


def place_unused(tx: Connection) -> list[Inconsistency]:
    """Check that a group has a place only while an instance keeps it."""
    statement = sa.select(_row.caller_id, _row.group_id).where(~group_places.KEPT)
    return [
        _inconsistency(
            "group_place_unused", (row.caller_id, row.group_id), "no instance of the group is there"
        )
        for row in tx.execute(statement)
    ]


def places_differ(tx: Connection, members_: Sequence[Member]) -> list[Inconsistency]:
    """Check that all instances of an affinity group are in its one place."""
    found: list[Inconsistency] = []
    for member in members_:
        if _policy(member.group) is not GroupPolicy.AFFINITY:
            continue
        match group_places.find(tx, *member.key):
            case Anywhere():
                detail = f"instance {member.uuid} belongs to the group, which has no place"
                found.append(_inconsistency("group_place_missing", member.key, detail))
            case taken if taken != member.place:
                detail = f"instance {member.uuid} is not in the group's place"
                found.append(_inconsistency("group_split", member.key, detail))
    return found


def host_overfull(members_: Sequence[Member]) -> list[Inconsistency]:
    """Check that hosts have no more instances of an anti-affinity group than its rule allows."""
    counted: Counter[tuple[Key, str]] = Counter()
    allowed: dict[Key, int] = {}
    for member in members_:
        match member.group, member.place:
            case ServerGroup(_, GroupPolicy.ANTI_AFFINITY, limit), LocalPlace(host_id):
                counted[member.key, host_id] += member.state in CLAIMING
                allowed[member.key] = max(limit, allowed.get(member.key, limit))
    return [
        _inconsistency("group_host_overfull", key, f"host {host_id} has {count} of it, limit {allowed[key]}")
        for (key, host_id), count in counted.items()
        if count > allowed[key]
    ]


def members(tx: Connection) -> Sequence[Member]:
    """Read all instances that keep the place of a group, in order of instance and place."""
    shown = (_place.uuid, _place.host_id, _place.child_id, _place.state)
    statement = (
        sa.select(*shown, _instance.caller_id, _instance.group_id, _instance.reservation_id)
        .join(t.instances, _instance.uuid == _place.uuid)
        .where(_instance.group_id != "", is_in(_place.state, OCCUPYING))
        .order_by(_place.uuid, _place.number)
    )
    rows = list(tx.execute(statement))
    boots = reservations.read_ids(tx, sorted({row.reservation_id for row in rows}))
    return [
        Member(
            uuid=row.uuid,
            key=(row.caller_id, row.group_id),
            group=boots[row.caller_id, row.reservation_id].spec.group,
            place=ChildPlace(row.child_id) if row.host_id is None else LocalPlace(row.host_id),
            state=PlacementState(row.state),
        )
        for row in rows
        if (row.caller_id, row.reservation_id) in boots
    ]


def _policy(group: Group) -> GroupPolicy | None:
    return group.policy if isinstance(group, ServerGroup) else None


def _inconsistency(kind: str, key: Key, detail: str) -> Inconsistency:
    caller_id, group_id = key
    return Inconsistency(kind, OfGroup(caller_id, group_id), detail)
