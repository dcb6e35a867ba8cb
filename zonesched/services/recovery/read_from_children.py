"""A restored zone reads from its children what they have of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from zonesched.errors import ChildUnreachable
from zonesched.model.placement import COUNTED_STATUSES, BuildState, InstanceChange
from zonesched.services.life.given_back import ahead_of
from zonesched.services.recovery.talks import talk
from zonesched.services.zone import Zone
from zonesched.store import instance_states, instances, locks, recovery
from zonesched.store.child_placements import count_in_child
from zonesched.store.recovery import Found, Kind
from zonesched.store.store import Transaction
from zonesched.zones.child import Ready
from zonesched.zones.client import ChildClient

FREE_INSTANCES = 250_000
INSTANCES_PER_PLACEMENT = 8
"""Instances that a child may have: these, and so many for each that it has by the restored rows."""

FREE_LINES = 10 * FREE_INSTANCES
LINES_PER_PLACEMENT = 10 * INSTANCES_PER_PLACEMENT
"""Lines that a child may tell, most of them of instances that have ended, likewise."""

LINES_PER_PAGE = 100
"""A page with fewer lines counts as so many, or empty ones could go on without end."""

_COMPLAINT = "does not say what it has"


def read_all(zone: Zone) -> None:
    """Read what each child has that is ready and was not heard yet; one that fails is read again later."""
    unheard = [
        known.child
        for known in zone.children.snapshot()
        if isinstance(known.status, Ready)
        and not zone.store.read(partial(recovery.is_heard, kind=Kind.CHILD, id_=known.child.id))
    ]
    talk(zone, unheard, lambda zone, child: _read(zone, child.id, zone.child_client(child.id)), _COMPLAINT)


def _read(zone: Zone, child_id: str, client: ChildClient) -> None:
    """Read all that a child has, unless it was heard meanwhile; it is heard once it holds nothing.

    A confirm of before the restore may still come to what it holds, and what is confirmed then was found
    nowhere. A hold that none comes to ends by itself. Raise ChildUnreachable for one that tells of more
    instances than it can have: it may never end.
    """
    cursor, more, is_holding, told = "", True, False, 0
    room = zone.store.read(partial(_room, child_id))
    while more:
        page = client.changes(cursor, zone.conf.build_timeout)
        told += max(len(page.items), LINES_PER_PAGE)
        if told > room.lines:
            raise _too_many()
        found = [_found(child_id, item) for item in page.items if _has_it(item)]
        found = _with_given_back(zone, client, found)
        cursor, more = page.cursor, page.more
        is_holding |= any(item.state is BuildState.HELD for item in page.items)
        uuids = [item.uuid for item in page.items]
        is_last = not (more or is_holding)
        taken = zone.store.write(partial(_take, child_id, uuids, found, is_last=is_last, most=room.instances))
        if taken is None:
            return
        room = replace(room, instances=room.instances - taken)


@dataclass(frozen=True)
class _Room:
    """How many more instances a child may have, and how many lines it may tell."""

    instances: int
    lines: int


def _room(child_id: str, tx: Transaction) -> _Room:
    places = count_in_child(tx, child_id)
    # An earlier read may have been cut off.
    noted = recovery.count_of(tx, Kind.CHILD, child_id)
    return _Room(
        FREE_INSTANCES + INSTANCES_PER_PLACEMENT * places - noted, FREE_LINES + LINES_PER_PLACEMENT * places
    )


def _too_many() -> ChildUnreachable:
    return ChildUnreachable("The child tells of too many instances.", code="child_invalid_answer")


def _with_given_back(zone: Zone, client: ChildClient, found: Sequence[Found]) -> list[Found]:
    """Ask for those that no row here has, and for those to which more was done than these rows have."""
    uuids = [one.uuid for one in found]
    known = zone.store.read(lambda tx: instances.read_by_uuid(tx, uuids))
    states = zone.store.read(lambda tx: instance_states.read(tx, uuids))
    seen = [(one.uuid, one.observed) for one in found if one.observed is not None]
    asked = {uuid for uuid in uuids if uuid not in known} | {*ahead_of(states, seen)}
    sent = {uuid: client.request_of(uuid, zone.conf.build_timeout) for uuid in sorted(asked)}
    return [replace(one, given_back=sent.get(one.uuid)) for one in found]


def _take(
    child_id: str, uuids: Sequence[str], found: Sequence[Found], tx: Transaction, *, is_last: bool, most: int
) -> int | None:
    """Note which of these instances a child has; forget what an earlier read has noted of them.

    Return how many more are noted since, at most `most`; None where it was heard meanwhile: then nothing is
    noted, and no more is to be read.
    """
    locks.recovery(tx)
    if recovery.is_heard(tx, Kind.CHILD, child_id):
        # Another process has read it all meanwhile, and the recovery may have ended by that.
        return None
    more = len({one.key for one in found}) - recovery.forget_in_child(tx, child_id, uuids)
    if more > most:
        raise _too_many()
    recovery.put(tx, found)
    if is_last:
        recovery.hear(tx, Kind.CHILD, child_id)
    return more


def _has_it(item: InstanceChange) -> bool:
    return item.state is BuildState.CONFIRMED and item.status in COUNTED_STATUSES


def _found(child_id: str, item: InstanceChange) -> Found:
    return Found(
        Kind.CHILD,
        child_id,
        item.uuid,
        item.attempt,
        "",
        item.status,
        observed=item.observed,
        moves=item.moves,
    )
