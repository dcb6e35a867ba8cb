"""Agents tell what they have: before anything else in a recovery, and after it before they end anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from zonesched.model.caller import Caller
from zonesched.model.placement import Attempt, InstanceStatus
from zonesched.model.told_instance import ToldInstance
from zonesched.services.life.observing import UNSURPRISING
from zonesched.services.zone import Zone
from zonesched.store import (
    host_states,
    hosts,
    identity,
    instances,
    locks,
    placements,
    recovery,
    services,
)
from zonesched.store.placements import ClaimedHost
from zonesched.store.recovery import Found, Kind
from zonesched.store.store import Store, Transaction

UNKNOWN = "It has instances that this zone does not know: zonesched audit lists them."


def take(
    zone: Zone, caller: Caller, service: str, told: Sequence[ToldInstance], *, is_first: bool, is_last: bool
) -> None:
    """Take a page of what an agent has. Raises NotFound, Forbidden, and Conflict for another agent's service.

    After the recovery only what no row has is noted: the agent keeps it, and its host takes no more.
    """

    own = zone.store.read(
        lambda tx: services.own(tx, service, caller.user_id, caller.agent_id, caller.agent_home)
    )
    zone.heartbeats.note(own.id)

    def fn(tx: Transaction) -> None:
        locks.recovery(tx)
        services.keep(tx, own)
        ids = hosts.ids_of_service(tx, own.id)
        found = [_found(own.id, ids, one) for one in told]
        if is_first:
            _ask_whose(tx, own.id, found)
            recovery.forget_of(tx, Kind.AGENT, own.id)
        if recovery.is_under_way(tx):
            # It tells anew at each poll: until its last page, what it has looks lost.
            recovery.await_word(tx, Kind.AGENT, own.id)
            recovery.put(tx, found)
        else:
            unknown = _unknown(tx, found)
            recovery.put(tx, unknown)
            close_hosts(tx, unknown)
        if is_last:
            recovery.hear(tx, Kind.AGENT, own.id)

    zone.store.write(fn)


def _ask_whose(tx: Transaction, service_id: str, found: Sequence[Found]) -> None:
    """Let parents name their instances once more where an agent has some that was heard without any.

    The copy may lack its hosts, so that the recovery did not wait for it.
    """
    is_new = recovery.is_heard(tx, Kind.AGENT, service_id) and not recovery.count_of(
        tx, Kind.AGENT, service_id
    )
    if found and is_new and recovery.is_under_way(tx):
        recovery.await_parents(tx)


@dataclass(frozen=True)
class History:
    """A zone as its agent must know it: what it keeps though no row has it, and the zone's last start."""

    kept: Sequence[Attempt]
    start: str


def history(store: Store, caller: Caller, service: str) -> History:
    """Read what an agent needs to know of the zone's history. Raises NotFound, Forbidden."""

    def fn(tx: Transaction) -> History:
        own = services.own(tx, service, caller.user_id, caller.agent_id, caller.agent_home)
        return History(recovery.kept(tx, own.id), identity.newest_start(tx))

    return store.read(fn)


def _found(service_id: str, ids: dict[str, str], one: ToldInstance) -> Found:
    # An agent that was started since does not know the host, unless it has but one.
    host_id = ids.get(one.host, "") if one.host else next(iter(ids.values()), "") if len(ids) == 1 else ""
    status = InstanceStatus.ACTIVE if one.is_built else InstanceStatus.BUILD
    observed = None if one.observed == UNSURPRISING else one.observed
    return Found(
        Kind.AGENT,
        service_id,
        one.uuid,
        one.number,
        host_id,
        status,
        observed=observed,
        flavor=one.flavor,
    )


def _unknown(tx: Transaction, found: Sequence[Found]) -> list[Found]:
    """Return what no row has, but for places that an instance has left: it was built at a later one."""
    uuids = [one.uuid for one in found]
    places = {p.key: p for p in placements.read_by_uuid(tx, uuids)}
    rows = instances.read_by_uuid(tx, uuids)
    built = {
        row.uuid: row.attempt
        for row in rows.values()
        if row.status is InstanceStatus.ACTIVE
        and (place := places.get((row.uuid, row.attempt))) is not None
        and isinstance(place.where, ClaimedHost)
    }
    return [one for one in found if one.key not in places and one.number >= built.get(one.uuid, 0)]


def close_hosts(tx: Transaction, unknown: Sequence[Found]) -> None:
    """Disable the hosts of instances that no row has: nothing is claimed for them there."""
    ids = sorted({one.host_id for one in unknown if one.host_id})
    if not ids:
        return
    locks.hosts(tx, ids)
    for said in host_states.read_ids(tx, ids).values():
        if said.enabled:
            host_states.write(tx, replace(said, enabled=False, disabled_reason=UNKNOWN))
