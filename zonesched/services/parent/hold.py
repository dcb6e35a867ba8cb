"""Hold the builds of a parent: open their entries, claim or pass on, answer each.

A known build is answered with its stored state, however old its entry is. The entry of a new build must open,
and is used up in the transaction that claims.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from zonesched import tracing
from zonesched.errors import BlobRefused
from zonesched.model.build_plan import ChildPlace
from zonesched.model.caller import Caller
from zonesched.model.placement import UNBUILT, Attempt, Build, BuildAnswer, PlacementState
from zonesched.model.request_spec import RequestSpec
from zonesched.model.request_wire import content_digest
from zonesched.seal.envelope import Bound, OpenedEntry
from zonesched.services.parent.build_answers import REFUSED, answers, attempt_statuses, placed
from zonesched.services.placing import child_calls
from zonesched.services.placing.inbound_places import Try, choose, place
from zonesched.services.placing.new_places import Boot, NewPlace
from zonesched.services.zone import Zone
from zonesched.store import identity, inbound, instances, locks, placements, reservations
from zonesched.store.inbound import AttemptStatus, InboundBuild, RestEntry
from zonesched.store.instances import Instance
from zonesched.store.reservations import ReservationState
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

    @property
    def boot(self) -> Boot:
        return Boot(self.caller.user_id, self.reservation_id, self.spec, self.hold_s)


def hold_builds(
    zone: Zone,
    caller: Caller,
    reservation_id: str,
    builds: Sequence[Build],
    hold_s: float,
    spec: RequestSpec,
) -> list[BuildAnswer]:
    """Hold a host for each build, here or in the child that offered it; one answer each, in order.

    Raises BlobRefused, with nothing created, if no entry of any build opens, and OverLimit.
    """
    ends_at = zone.clock.monotonic() + min(spec.time_budget_s, zone.conf.max_time_budget)
    tracing.about(reservation_id)
    spec = replace(spec, traced_by=tracing.current().request_id)
    call = _Call(caller, reservation_id, spec, min(hold_s, zone.conf.max_hold))
    opened = _open(zone, call, builds)
    if not zone.store.write(lambda tx: _admit(zone, tx, call, builds, opened)):
        raise BlobRefused("no build of the call can be used")
    keys = [Attempt(b.uuid, b.attempt) for b in builds]
    at = _statuses(zone, call, keys)
    while True:
        if intended := {a: s for a, s in at.items() if s.state is State.INTENDED}:
            left_s = ends_at - zone.clock.monotonic()
            _send(zone, call, intended, left_s)
            at = _statuses(zone, call, keys)
        untried = _read_untried(zone, call, at)
        if not untried:
            return answers(zone, _with_one_end(zone, at), keys, REFUSED)
        child_ids = _children_of(e for build in untried for e in build.rest)
        zone.store.write(partial(_try_next, zone, call, keys, child_ids))
        at = _statuses(zone, call, keys)


def _read_untried(zone: Zone, call: _Call, at: Mapping[Attempt, AttemptStatus]) -> list[InboundBuild]:
    # A read first: mostly all are held, and a write would wait for the disk once more.
    return zone.store.read(lambda tx: _untried(tx, call, at, zone.clock.now()))


def _statuses(zone: Zone, call: _Call, keys: Sequence[Attempt]) -> Mapping[Attempt, AttemptStatus]:
    return zone.store.read(lambda tx: attempt_statuses(tx, call.caller, call.reservation_id, keys))


def _with_one_end(zone: Zone, at: Mapping[Attempt, AttemptStatus]) -> Mapping[Attempt, AttemptStatus]:
    """Return the same attempts with all holds shortened to the least.

    Different ends would show the parent which instances are held by the same child zone.
    """
    held = {a: s for a, s in at.items() if s.state is State.HELD}
    until = min((s.hold_expires_at for s in held.values()), default=0.0)
    longer = {a: replace(s, hold_expires_at=until) for a, s in held.items() if s.hold_expires_at > until}
    if longer:
        zone.store.write(partial(_shorten, [(a.uuid, s.number) for a, s in longer.items()], until))
    return {**at, **longer}


def _shorten(keys: Sequence[tuple[str, int]], until: float, tx: Transaction) -> None:
    locks.instances(tx, [uuid for uuid, _ in keys])
    placements.shorten_holds(tx, keys, until)


# -- opening -----------------------------------------------------------------------------------------------


def _open(zone: Zone, call: _Call, builds: Sequence[Build]) -> Mapping[Attempt, tuple[RestEntry, ...]]:
    """Return the entries of each build that open for this caller, project and request."""
    bound = Bound(zone.uuid, call.caller.user_id, call.spec.project_id, content_digest(call.spec))
    results = iter(zone.envelope.open_entries(bound, [blob for b in builds for blob in b.blobs]))
    opened: dict[Attempt, tuple[RestEntry, ...]] = {}
    for b in builds:
        found: list[RestEntry] = []
        for _ in b.blobs:
            match next(results):
                case OpenedEntry(place, key, expires_at):
                    found.append(RestEntry(place, key, expires_at))
                case BlobRefused(reason=reason):
                    log.info("an entry of reservation %s does not open: %s", call.reservation_id, reason)
        opened[Attempt(b.uuid, b.attempt)] = tuple(found)
    return opened


def _children_of(entries: Iterable[RestEntry]) -> set[str]:
    return {e.place.child_id for e in entries if isinstance(e.place, ChildPlace)}


# -- placing -----------------------------------------------------------------------------------------------


def _admit(
    zone: Zone,
    tx: Transaction,
    call: _Call,
    builds: Sequence[Build],
    opened: Mapping[Attempt, tuple[RestEntry, ...]],
) -> bool:
    """Write the rows of usable new builds and claim for them; False when no build of the call is known."""
    locks.children(tx, _children_of(e for entries in opened.values() for e in entries))
    locks.call(tx, call.caller.user_id, call.reservation_id)
    now = zone.clock.now()
    uuids = [b.uuid for b in builds]
    known = inbound.read(tx, call.caller.user_id, uuids)
    rows = instances.read_by_uuid(tx, uuids)
    used = placements.used_entry_keys(tx, [e.key for entries in opened.values() for e in entries])
    tries: list[Try] = []
    for b in builds:
        key = Attempt(b.uuid, b.attempt)
        usable = tuple(e for e in opened[key] if e.key not in used)
        # Another caller's instance, or one with a later attempt, takes no new build.
        other = b.uuid in rows and rows[b.uuid].caller_id != call.caller.user_id
        if key not in known and usable and not other and not _has_place(tx, rows.get(b.uuid)):
            retained_until = max(e.expires_at for e in usable) + zone.conf.retry_window
            row = InboundBuild(
                b.uuid, call.caller.user_id, b.attempt, call.reservation_id, 0, (), retained_until
            )
            tries.append(Try(row, rows[b.uuid].attempt if b.uuid in rows else 0, usable))
    if not tries:
        return any(Attempt(b.uuid, b.attempt) in known for b in builds)
    if not _same_request(tx, call):
        return False
    zone.quotas.admit_builds(tx, call.caller.user_id, sum(t.build.uuid not in rows for t in tries))
    _write_reservation(tx, call, now)
    change = identity.next_change(tx)
    chosen = choose(tx, tries)
    names = {b.uuid: b.name or b.uuid for b in builds}
    fresh = [p for p in chosen.places if p.uuid not in rows]
    instances.insert(
        tx, change, [_instance(call, p, names[p.uuid], position, now) for position, p in enumerate(fresh)]
    )
    inbound.insert(tx, [*chosen.builds, *chosen.refused])
    place(zone, tx, change, call.boot, chosen, now, known=rows)
    return True


def _has_place(tx: Transaction, instance: Instance | None) -> bool:
    if instance is None or instance.attempt == 0:
        return False
    return placements.read_one(tx, instance.uuid, instance.attempt).state not in UNBUILT


def _same_request(tx: Transaction, call: _Call) -> bool:
    stored = reservations.read_ids(tx, [call.reservation_id]).get((call.caller.user_id, call.reservation_id))
    return stored is None or content_digest(stored.spec) == content_digest(call.spec)


def _untried(
    tx: Transaction, call: _Call, at: Mapping[Attempt, AttemptStatus], now: float
) -> list[InboundBuild]:
    """Return the builds with entries left whose placement failed before it was confirmed or expired."""
    failed = [a for a, s in at.items() if s.state is State.FAILED and s.hold_expires_at > now]
    if not failed:
        return []
    known = inbound.read(tx, call.caller.user_id, [key.uuid for key in failed])
    return [known[key] for key in failed if known[key].rest]


def _try_next(
    zone: Zone, call: _Call, keys: Sequence[Attempt], child_ids: Collection[str], tx: Transaction
) -> None:
    """Give builds whose placement failed their next entry; `child_ids`: of all their remaining entries."""
    locks.children(tx, child_ids)
    locks.call(tx, call.caller.user_id, call.reservation_id)
    now = zone.clock.now()
    again = _untried(tx, call, attempt_statuses(tx, call.caller, call.reservation_id, keys), now)
    rows = instances.read_by_uuid(tx, [row.uuid for row in again])
    tries = [Try(row, rows[row.uuid].attempt, row.rest) for row in again]
    if not tries:
        return
    change = identity.next_change(tx)
    chosen = choose(tx, tries)
    inbound.update(tx, [*chosen.builds, *chosen.refused])
    place(zone, tx, change, call.boot, chosen, now, known=rows)


def _send(zone: Zone, call: _Call, intended: Mapping[Attempt, AttemptStatus], left_s: float) -> None:
    places = zone.store.read(lambda tx: placed(tx, intended))
    budget_s = left_s - min(zone.conf.select_reserve, call.spec.time_budget_s / 5)
    spec = replace(call.spec, time_budget_s=max(0.05, budget_s))
    still = [p for p in places if p.state is State.INTENDED]
    child_calls.send_builds(zone, still, spec, call.hold_s)


def _write_reservation(tx: Transaction, call: _Call, now: float) -> None:
    if (call.caller.user_id, call.reservation_id) in reservations.read_ids(tx, [call.reservation_id]):
        return
    reservations.insert(
        tx,
        reservations.of_request(
            call.spec,
            reservation_id=call.reservation_id,
            caller_id=call.caller.user_id,
            user_id=call.caller.user_id,
            min_count=0,
            state=ReservationState.SERVED,
            now=now,
        ),
    )


def _instance(call: _Call, place: NewPlace, name: str, position: int, now: float) -> Instance:
    return instances.of_request(
        call.spec,
        uuid=place.uuid,
        reservation_id=call.reservation_id,
        caller_id=call.caller.user_id,
        user_id=call.caller.user_id,
        position=position,
        name=name,
        attempt=place.number,
        now=now,
    )
