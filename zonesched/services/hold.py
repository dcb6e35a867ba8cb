"""Hold what a parent builds here: open its entries, claim or pass on, answer each.

A build that is known is answered with what is stored, whatever the entry's age; a new one must open, and uses
its entry up in the same transaction that claims.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from zonesched.errors import BlobRefused
from zonesched.model.account import NO_ACCOUNT
from zonesched.model.caller import Caller
from zonesched.model.group_place import AtChild, AtHost, TakenPlace
from zonesched.model.placement import (
    Attempt,
    Build,
    BuildAnswer,
    InstanceStatus,
    PlacementState,
)
from zonesched.model.request_spec import RequestSpec
from zonesched.seal.envelope import Bound, ChildContent, HostContent, OpenedEntry
from zonesched.services import child_calls, group_policy
from zonesched.services.build_answers import REFUSED, answers, placed
from zonesched.services.zone import Zone
from zonesched.store import claims, identity, inbound, instances, placements, reservations
from zonesched.store.inbound import InboundBuild, RestEntry
from zonesched.store.instances import Instance
from zonesched.store.placements import InChild, OnHost, Placement, Where
from zonesched.store.reservations import Reservation, ReservationState
from zonesched.store.store import Transaction

log = logging.getLogger(__name__)

State = PlacementState


@dataclass(frozen=True)
class _Call:
    """One POST /servers of a parent."""

    caller: Caller
    reservation_id: str
    spec: RequestSpec
    hold_s: float


@dataclass(frozen=True)
class _Try:
    """A build and the entries it may still use, in order."""

    build: InboundBuild
    entries: tuple[RestEntry, ...]


def hold_builds(
    zone: Zone,
    caller: Caller,
    reservation_id: str,
    builds: Sequence[Build],
    hold_s: float,
    spec: RequestSpec,
) -> list[BuildAnswer]:
    """Hold a place for each build, here or in the child that offered it; one answer each, in order.

    Raises BlobRefused, with nothing created, when no entry of any build opens.
    """
    started_at = zone.clock.monotonic()
    call = _Call(caller, reservation_id, spec, min(hold_s, zone.conf.max_hold))
    opened = _open(zone, call, builds)
    known = zone.store.write(lambda tx: _admit(zone, tx, call, builds, opened))
    if not known:
        raise BlobRefused("no build of the call can be used")
    while True:
        left_s = spec.time_budget_s - (zone.clock.monotonic() - started_at)
        _send_intended(zone, call, builds, left_s)
        if not zone.store.write(lambda tx: _try_next(zone, tx, call, builds)):
            break
    return answers(zone, caller, reservation_id, [Attempt(b.uuid, b.attempt) for b in builds], REFUSED)


# -- opening -----------------------------------------------------------------------------------------------


def _open(zone: Zone, call: _Call, builds: Sequence[Build]) -> Mapping[Attempt, tuple[RestEntry, ...]]:
    """The entries of each build that open for this caller, project and request."""
    bound = Bound(zone.uuid, call.caller.user_id, call.spec.project_id, call.spec.digest())
    results = iter(zone.envelope.open_entries(bound, [blob for b in builds for blob in b.blobs]))
    opened: dict[Attempt, tuple[RestEntry, ...]] = {}
    for b in builds:
        found: list[RestEntry] = []
        for _ in b.blobs:
            match next(results):
                case OpenedEntry() as entry:
                    found.append(_rest_entry(entry))
                case BlobRefused(reason=reason):
                    log.info("an entry of reservation %s does not open: %s", call.reservation_id, reason)
        opened[Attempt(b.uuid, b.attempt)] = tuple(found)
    return opened


def _rest_entry(entry: OpenedEntry) -> RestEntry:
    match entry.content:
        case HostContent(host_id):
            return RestEntry(host_id, "", "", entry.key, entry.expires_at)
        case ChildContent(child_id, blob):
            return RestEntry("", child_id, blob, entry.key, entry.expires_at)


# -- placing -----------------------------------------------------------------------------------------------


def _admit(
    zone: Zone,
    tx: Transaction,
    call: _Call,
    builds: Sequence[Build],
    opened: Mapping[Attempt, tuple[RestEntry, ...]],
) -> bool:
    """Write down the new builds that can be used and claim for them; false when no build is known."""
    now = zone.clock.now()
    uuids = [b.uuid for b in builds]
    known = inbound.read(tx, call.caller.user_id, uuids)
    rows = instances.read_by_uuid(tx, uuids)
    used = placements.used_entry_keys(tx, [e.key for entries in opened.values() for e in entries])
    tries: list[_Try] = []
    for b in builds:
        key = Attempt(b.uuid, b.attempt)
        usable = tuple(e for e in opened[key] if e.key not in used)
        # An instance of somebody else, or one that has moved on to a later attempt, takes no new build.
        other = b.uuid in rows and rows[b.uuid].caller_id != call.caller.user_id
        if key not in known and usable and not other and not _has_place(tx, rows.get(b.uuid)):
            retained_until = max(e.expires_at for e in usable) + zone.conf.retry_window
            row = InboundBuild(
                b.uuid, call.caller.user_id, b.attempt, call.reservation_id, 0, (), retained_until
            )
            tries.append(_Try(row, usable))
    if not tries:
        return any(Attempt(b.uuid, b.attempt) in known for b in builds)
    if not _same_request(tx, call):
        return False
    _write_reservation(tx, call, now)
    change = identity.next_change(tx)
    names = {b.uuid: b.name or b.uuid for b in builds}
    fresh = [_instance(call, t.build.uuid, names, position, now) for position, t in enumerate(tries)]
    instances.insert(tx, change, [i for i in fresh if i.uuid not in rows])
    inbound.insert(tx, [t.build for t in tries])
    _place(zone, tx, change, call, tries, now)
    return True


def _has_place(tx: Transaction, instance: Instance | None) -> bool:
    if instance is None or instance.attempt == 0:
        return False
    column = placements.COLUMNS
    (present,) = placements.read(tx, column.uuid == instance.uuid, column.number == instance.attempt)
    return present.state not in (State.GONE, State.FAILED, State.CANCELLING)


def _same_request(tx: Transaction, call: _Call) -> bool:
    stored = reservations.read_ids(tx, [call.reservation_id]).get((call.caller.user_id, call.reservation_id))
    return stored is None or stored.spec.digest() == call.spec.digest()


def _try_next(zone: Zone, tx: Transaction, call: _Call, builds: Sequence[Build]) -> bool:
    """Give builds whose place failed their next entry; whether there was any."""
    now = zone.clock.now()
    known = inbound.read(tx, call.caller.user_id, [b.uuid for b in builds])
    keys = [Attempt(b.uuid, b.attempt) for b in builds]
    failed = {p.key for p in placed(tx, call.caller, call.reservation_id, keys) if p.state is State.FAILED}
    rows = [known[key] for key in keys if key in known]
    # Once held, a build has its place: a repeat never tries another entry.
    inbound.update(tx, [replace(row, rest=()) for row in rows if row.rest and _key(row) not in failed])
    again = [_Try(row, row.rest) for row in rows if row.rest and _key(row) in failed]
    if again:
        _place(zone, tx, identity.next_change(tx), call, again, now)
    return bool(again)


def _key(row: InboundBuild) -> tuple[str, int]:
    return (row.uuid, row.number)


def _place(zone: Zone, tx: Transaction, change: int, call: _Call, tries: Sequence[_Try], now: float) -> None:
    """Claim own hosts and write down what children will be asked, each with the first entry not used up."""
    used = set(placements.used_entry_keys(tx, [e.key for t in tries for e in t.entries]))
    rows = instances.read_by_uuid(tx, [t.build.uuid for t in tries])
    chosen: list[tuple[_Try, RestEntry]] = []
    updated: list[InboundBuild] = []
    for one in tries:
        entry = next((e for e in one.entries if e.key not in used), None)
        if entry is None:
            updated.append(replace(one.build, rest=()))
            continue
        used.add(entry.key)
        chosen.append((one, entry))
    caller_id, group = call.caller.user_id, call.spec.group
    wanted = {one.build.uuid: _group_place(entry) for one, entry in chosen}
    refused = group_policy.refused(tx, caller_id, group, wanted)
    hosts = Counter(e.host_id for one, e in chosen if e.host_id and one.build.uuid not in refused)
    room = dict(claims.claim(tx, change, hosts, call.spec.resources))
    made: list[Placement] = []
    for one, entry in chosen:
        where: Where
        if entry.host_id:
            where = OnHost(entry.host_id, call.spec.resources)
        else:
            where = InChild(entry.child_id, (entry.blob,))
        reason = refused.get(one.build.uuid, "")
        if entry.host_id and not reason:
            reason = "" if room[entry.host_id] > 0 else "claim_lost"
            room[entry.host_id] -= 1
        hopeful_state = State.HELD if entry.host_id else State.INTENDED
        state = State.FAILED if reason else hopeful_state
        number = rows[one.build.uuid].attempt + 1
        made.append(
            Placement(
                uuid=one.build.uuid,
                number=number,
                caller_id=caller_id,
                reservation_id=call.reservation_id,
                where=where,
                state=state,
                reason=reason,
                hold_expires_at=now + call.hold_s,
                retained_until=one.build.retained_until,
                entry_key=entry.key,
            )
        )
        later = one.entries[one.entries.index(entry) + 1 :]
        updated.append(replace(one.build, number=number, rest=later))
    placements.insert(tx, made)
    group_policy.take_place(tx, caller_id, group, made)
    inbound.update(tx, updated)
    lost = {p.uuid: p.number for p in made if p.state is State.FAILED}
    if lost:
        zone.hosts.expire()
    hopeful = {p.uuid: p.number for p in made if p.state is not State.FAILED}
    instances.set_attempts(tx, change, hopeful, InstanceStatus.BUILD, now)
    # Ended here unless another entry is tried: the parent, which hears of it, finds another place.
    instances.set_attempts(tx, change, lost, InstanceStatus.DELETED, now)


def _group_place(entry: RestEntry) -> TakenPlace:
    return AtHost(entry.host_id) if entry.host_id else AtChild(entry.child_id)


def _send_intended(zone: Zone, call: _Call, builds: Sequence[Build], left_s: float) -> None:
    keys = [Attempt(b.uuid, b.attempt) for b in builds]
    places = zone.store.read(lambda tx: placed(tx, call.caller, call.reservation_id, keys))
    intended = [p for p in places if p.state is State.INTENDED]
    if intended:
        budget_s = left_s - min(zone.conf.select_reserve, call.spec.time_budget_s / 5)
        spec = replace(call.spec, time_budget_s=max(0.05, budget_s))
        child_calls.send_builds(zone, intended, spec, call.hold_s)


def _write_reservation(tx: Transaction, call: _Call, now: float) -> None:
    if (call.caller.user_id, call.reservation_id) in reservations.read_ids(tx, [call.reservation_id]):
        return
    reservations.insert(
        tx,
        Reservation(
            id=call.reservation_id,
            caller_id=call.caller.user_id,
            project_id=call.spec.project_id,
            user_id=call.caller.user_id,
            spec=call.spec,
            num_instances=call.spec.num_instances,
            min_count=0,
            state=ReservationState.SERVED,
            reason="",
            why=NO_ACCOUNT,
            selects=0,
            idempotency_key="",
            fingerprint="",
            created_at=now,
        ),
    )


def _instance(call: _Call, uuid: str, names: Mapping[str, str], position: int, now: float) -> Instance:
    return Instance(
        uuid=uuid,
        caller_id=call.caller.user_id,
        project_id=call.spec.project_id,
        user_id=call.caller.user_id,
        reservation_id=call.reservation_id,
        position=position,
        name=names[uuid],
        kept={},
        flavor_id=call.spec.flavor.id,
        image_key=call.spec.image_key,
        group_id=call.spec.group_id,
        status=InstanceStatus.BUILD,
        reason="",
        attempt=0,
        created_at=now,
        updated_at=now,
    )
