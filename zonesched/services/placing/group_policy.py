"""Policies of server groups, applied in the transaction that claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from zonesched.model.group_place import Anywhere, GroupPlace
from zonesched.model.place import ChildPlace, LocalPlace, Place
from zonesched.model.placement import OCCUPYING
from zonesched.model.request_spec import Group, GroupPolicy, ServerGroup
from zonesched.store import group_places, locks
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.store import Transaction

ELSEWHERE = "group_elsewhere"
FULL = "group_host_full"


def place_of(tx: Transaction, caller_id: str, group: Group) -> GroupPlace:
    """Return the place to which all instances of the group go; Anywhere for a group without one."""
    match group:
        case ServerGroup(id=group_id, policy=GroupPolicy.AFFINITY):
            return group_places.find(tx, caller_id, group_id)
        case _:
            return Anywhere()


def refused(
    tx: Transaction, caller_id: str, group: Group, wanted: Mapping[str, Place], *, moving: str = ""
) -> Mapping[str, str]:
    """Return the reason code of each instance that may not go where it is wanted; first come first served.

    Anti-affinity in a child is checked by the child. `moving`: the uuid of an instance whose own present
    place does not count, "" for none. Locks the group until the transaction ends.
    """
    if isinstance(group, ServerGroup):
        locks.group(tx, caller_id, group.id)
    match group:
        case ServerGroup(policy=GroupPolicy.AFFINITY) if wanted:
            found = place_of(tx, caller_id, group)
            only = next(iter(wanted.values())) if isinstance(found, Anywhere) else found
            return {uuid: ELSEWHERE for uuid, place in wanted.items() if place != only}
        case ServerGroup(group_id, GroupPolicy.ANTI_AFFINITY, limit):
            host_of = {uuid: place.host_id for uuid, place in wanted.items() if isinstance(place, LocalPlace)}
            hosts = sorted(set(host_of.values()))
            members = Counter(group_places.members_on(tx, caller_id, group_id, hosts, but=moving))
            over: dict[str, str] = {}
            for uuid, host_id in host_of.items():
                members[host_id] += 1
                if members[host_id] > limit:
                    over[uuid] = FULL
            return over
        case _:
            return {}


def take_place(tx: Transaction, caller_id: str, group: Group, made: Iterable[Placement]) -> None:
    """Take the group's place for the placements just written, unless it has one or all of them failed."""
    match group:
        case ServerGroup(id=group_id, policy=GroupPolicy.AFFINITY):
            kept = next((p.where for p in made if p.state in OCCUPYING), None)
            if kept is not None and isinstance(place_of(tx, caller_id, group), Anywhere):
                place = (
                    ChildPlace(kept.child_id) if isinstance(kept, AskedChild) else LocalPlace(kept.host_id)
                )
                group_places.take(tx, caller_id, group_id, place)
