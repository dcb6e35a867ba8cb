"""The one place of each affinity group: a unique row that stays while any instance keeps the place.

A group is identified by its sender (a parent's user, or this zone's uuid for its own users) and its id.
All functions run under the group's lock (`store.locks`), so that two transactions cannot take two places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.group_place import Anywhere, GroupPlace
from zonesched.model.place import ChildPlace, LocalPlace, Place
from zonesched.model.placement import CLAIMING, OCCUPYING
from zonesched.store import claims
from zonesched.store import tables as t
from zonesched.store.prepared import Prepared, is_in, one_of

_row, _place, _instance = t.group_places.c, t.placements.c, t.instances.c

_OF_GROUP = Prepared(
    sa.select(t.group_places).where(
        _row.caller_id == sa.bindparam("caller"), _row.group_id == sa.bindparam("group")
    )
)


KEPT = (
    sa.select(_place.uuid)
    .join(t.instances, _instance.uuid == _place.uuid)
    # The first condition lets the planner use the index, which has rows with a group alone.
    .where(_instance.group_id != "", _instance.group_id == _row.group_id)
    .where(_instance.caller_id == _row.caller_id, is_in(_place.state, OCCUPYING))
    .correlate(t.group_places)
    .exists()
)
"""Condition: some instance keeps the place of a row of `group_places`."""

_GROUPS_OF = Prepared(
    sa.select(_instance.caller_id, _instance.group_id)
    .where(one_of(_instance.uuid, "uuids"), _instance.group_id != "")
    .distinct()
)
_FORGET = Prepared(
    sa.delete(t.group_places).where(
        _row.caller_id == sa.bindparam("caller"), _row.group_id == sa.bindparam("group"), ~KEPT
    )
)


def find(tx: Connection, caller_id: str, group_id: str) -> GroupPlace:
    """Read the place of this caller's group."""
    row = _OF_GROUP.first(tx, caller=caller_id, group=group_id)
    if row is None:
        return Anywhere()
    return ChildPlace(row.child_id) if row.host_id is None else LocalPlace(row.host_id)


def take(tx: Connection, caller_id: str, group_id: str, place: Place) -> None:
    """Store the place of this caller's group; raises IntegrityError when it has one already."""
    values = {"caller_id": caller_id, "group_id": group_id, "host_id": None, "child_id": None}
    match place:
        case LocalPlace(host_id):
            values["host_id"] = host_id
        case ChildPlace(child_id):
            values["child_id"] = child_id
    tx.execute(sa.insert(t.group_places).values(**values))


def leave(tx: Connection, uuids: Sequence[str]) -> None:
    """Release the places of these instances' groups that no instance keeps any more."""
    for row in _GROUPS_OF.all(tx, uuids=uuids):
        forget(tx, row.caller_id, row.group_id)


def forget(tx: Connection, caller_id: str, group_id: str) -> bool:
    """Release the place of a group unless an instance keeps it; return whether it was released."""
    return bool(_FORGET.run(tx, caller=caller_id, group=group_id))


def point_to(tx: Connection, caller_id: str, group_id: str, place: Place) -> None:
    """Set the place of this caller's group, whether or not it has one."""
    key = (_row.caller_id == caller_id, _row.group_id == group_id)
    tx.execute(sa.delete(t.group_places).where(*key))
    take(tx, caller_id, group_id, place)


def members_on(
    tx: Connection, caller_id: str, group_id: str, host_ids: Sequence[str], *, but: str = ""
) -> Mapping[str, int]:
    """Count the instances of this caller's group on each host, `but` for one uuid.

    Hosts without one are left out.
    """
    found: dict[str, int] = {}
    for some in claims.chunks(host_ids):
        statement = (
            # One that is resized on its host has two places there.
            sa.select(_place.host_id, sa.func.count(sa.distinct(_place.uuid)))
            .join(t.instances, _instance.uuid == _place.uuid)
            .where(_place.host_id.in_(some), is_in(_place.state, CLAIMING))
            .where(_instance.group_id == group_id, _instance.caller_id == caller_id)
            .where(_instance.uuid != but)
            .group_by(_place.host_id)
        )
        for host_id, count in tx.execute(statement):
            found[host_id] = count
    return found
