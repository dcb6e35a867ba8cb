"""Inconsistencies of server groups in a zone's rows; `store.audit` includes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

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
# As the index of groups is ordered.
_key = sa.tuple_(_instance.group_id, _instance.caller_id)
GROUPS_OF_A_PAGE = 200

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
    found = place_unused(tx)
    for key, of_group in groups(tx):
        found += places_differ(tx, key, of_group)
        found += host_overfull(key, of_group)
    return found


def place_unused(tx: Connection) -> list[Inconsistency]:
    """Check that a group has a place only while an instance keeps it."""
    statement = sa.select(_row.caller_id, _row.group_id).where(~group_places.KEPT)
    return [
        _inconsistency(
            "group_place_unused", (row.caller_id, row.group_id), "no instance of the group is there"
        )
        for row in tx.execute(statement)
    ]


def places_differ(tx: Connection, key: Key, of_group: Sequence[Member]) -> list[Inconsistency]:
    """Check that all instances of an affinity group are in its one place."""
    together = [member for member in of_group if _policy(member.group) is GroupPolicy.AFFINITY]
    if not together:
        return []
    match group_places.find(tx, *key):
        case Anywhere():
            detail = "instance {} belongs to the group, which has no place"
            return [_inconsistency("group_place_missing", key, detail.format(m.uuid)) for m in together]
        case taken:
            detail = "instance {} is not in the group's place"
            strays = [member for member in together if member.place != taken]
            return [_inconsistency("group_split", key, detail.format(m.uuid)) for m in strays]


def host_overfull(key: Key, of_group: Sequence[Member]) -> list[Inconsistency]:
    """Check that hosts have no more instances of an anti-affinity group than its rule allows."""
    # One that is resized on its host has two places there.
    on_host: defaultdict[str, set[str]] = defaultdict(set)
    allowed = 0
    for member in of_group:
        match member.group, member.place:
            case ServerGroup(_, GroupPolicy.ANTI_AFFINITY, limit), LocalPlace(host_id):
                if member.state in CLAIMING:
                    on_host[host_id].add(member.uuid)
                allowed = max(limit, allowed)
    return [
        _inconsistency("group_host_overfull", key, f"host {host_id} has {len(uuids)} of it, limit {allowed}")
        for host_id, uuids in on_host.items()
        if len(uuids) > allowed
    ]


def groups(tx: Connection) -> Iterator[tuple[Key, list[Member]]]:
    """Read each group with its members, so many groups at a time."""
    keys = sa.select(_instance.group_id, _instance.caller_id).where(_instance.group_id != "").distinct()
    keys = keys.order_by(_instance.group_id, _instance.caller_id).limit(GROUPS_OF_A_PAGE)
    page = [tuple(row) for row in tx.execute(keys)]
    while page:
        found = _members(tx, sa.and_(_key >= page[0], _key <= page[-1]))
        for key, of_group in groupby(found, key=lambda member: member.key):
            yield key, list(of_group)
        page = [tuple(row) for row in tx.execute(keys.where(_key > page[-1]))]


def members(tx: Connection, key: Key) -> Sequence[Member]:
    """Read the instances that keep the place of a group, in order of instance and place."""
    caller_id, group_id = key
    return _members(tx, sa.and_(_instance.group_id == group_id, _instance.caller_id == caller_id))


def _members(tx: Connection, condition: sa.ColumnElement[bool]) -> Sequence[Member]:
    """Read members of groups, those of one group side by side."""
    shown = (_place.uuid, _place.host_id, _place.child_id, _place.state)
    statement = (
        sa.select(*shown, _instance.caller_id, _instance.group_id, _instance.reservation_id)
        .join(t.instances, _instance.uuid == _place.uuid)
        .where(_instance.group_id != "", condition, is_in(_place.state, OCCUPYING))
        .order_by(_instance.group_id, _instance.caller_id, _place.uuid, _place.number)
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
