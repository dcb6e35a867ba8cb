"""A restored zone reads from its children what they have of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
    cursor, more, is_holding = "", True, False
    while more:
        page = client.changes(cursor, zone.conf.build_timeout)
        found = [_found(child_id, item) for item in page.items if _has_it(item)]
        found = _with_given_back(zone, client, found)
        cursor, more = page.cursor, page.more
        is_holding |= any(item.state is BuildState.HELD for item in page.items)
        uuids = [item.uuid for item in page.items]
        is_last = not (more or is_holding)
        more &= zone.store.write(partial(_take, child_id, uuids, found, is_last=is_last))


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
    child_id: str, uuids: Sequence[str], found: Sequence[Found], tx: Transaction, *, is_last: bool
) -> bool:
    """Note which of these instances a child has; forget what an earlier read has noted of them.

    Return false where it was heard meanwhile: then nothing is noted, and no more is to be read.
    """
    locks.recovery(tx)
    if recovery.is_heard(tx, Kind.CHILD, child_id):
        # Another process has read it all meanwhile, and the recovery may have ended by that.
        return False
    recovery.forget_in_child(tx, child_id, uuids)
    recovery.put(tx, found)
    if recovery.count_of(tx, Kind.CHILD, child_id) > _most(tx, child_id):
        raise ChildUnreachable("The child tells of too many instances.", code="child_invalid_answer")
    if is_last:
        recovery.hear(tx, Kind.CHILD, child_id)
    return True


def _most(tx: Transaction, child_id: str) -> int:
    return FREE_INSTANCES + INSTANCES_PER_PLACEMENT * count_in_child(tx, child_id)


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
