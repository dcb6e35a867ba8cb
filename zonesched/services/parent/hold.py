"""Hold the builds of a parent: open their entries, claim or pass on, answer each.

A known build is answered with its stored state, however old its entry is. The entry of a new build must open,
and is used up in the transaction that claims.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from zonesched import tracing
from zonesched.errors import BlobRefused
from zonesched.model.caller import Caller
from zonesched.model.new_instances import NO_CLAIMS, OwnClaims
from zonesched.model.placement import (
    COUNTED_STATUSES,
    UNBUILT,
    Attempt,
    Build,
    BuildAnswer,
    InstanceStatus,
    PlacementState,
)
from zonesched.model.request_spec import RequestSpec
from zonesched.services.life.leaving import EVACUATED
from zonesched.services.parent import opening, stored_request
from zonesched.services.parent.build_answers import (
    REFUSED,
    Places,
    answers,
    moved,
    named_by_caller,
    places_here_and_elsewhere,
    places_of,
)
from zonesched.services.parent.opening import children_of
from zonesched.services.placing import child_calls
from zonesched.services.placing.inbound_places import Try, choose, choose_unused, place
from zonesched.services.placing.new_places import Boot, NewPlace
from zonesched.services.select.hinted_instances import with_uuids_here
from zonesched.services.zone import Zone
from zonesched.store import (
    aliases,
    identity,
    inbound,
    instance_states,
    instances,
    locks,
    moves,
    placements,
    reservations,
)
from zonesched.store.inbound import InboundBuild, RestEntry
from zonesched.store.instances import Instance
from zonesched.store.placements import Placement
from zonesched.store.reservations import ReservationState
from zonesched.store.store import Store, Transaction

State = PlacementState
_NOWHERE: Places = {}


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
    spec = with_uuids_here(zone.store, caller, replace(spec, traced_by=tracing.current().request_id))
    call = _Call(caller, reservation_id, spec, min(hold_s, zone.conf.max_hold))
    opened = opening.open_entries(zone, caller, reservation_id, spec, builds)
    admitted = zone.store.write(lambda tx: _admit(zone, tx, call, builds, opened))
    if admitted is None:
        raise BlobRefused("no build of the call can be used")
    zone.quotas.note_holds(caller.user_id, admitted.tries)
    zone.hosts.note_claims(admitted.claims)
    keys = [Attempt(admitted.here.get(b.uuid, b.uuid), b.attempt) for b in builds]
    own = [Attempt(b.uuid, b.attempt) for b in builds]
    return named_by_caller(own, _place_all(zone, call, keys, admitted.made, ends_at))


def _place_all(
    zone: Zone, call: _Call, keys: Sequence[Attempt], made: Sequence[Placement], ends_at: float
) -> list[BuildAnswer]:
    """Send builds to their children, and try further entries, until each attempt is held or has failed.

    `made`: the placements that were just written for some of them.
    """
    at, elsewhere = _as_written(keys, made), _NOWHERE
    if not at:
        at, elsewhere = _read_places(zone.store, call, keys)
    repeated = {p.key for p in at.values() if p is not None}.difference(p.key for p in made)
    while True:
        if intended := _read_unsent(zone.store, call, at, repeated):
            left_s = ends_at - zone.clock.monotonic()
            held = _send(zone, call, intended, left_s)
            all_held = len(held) == len(intended)
            at = moved(at, held) if all_held else _read_places(zone.store, call, keys)[0]
        untried = _read_untried(zone, call, at)
        if not untried:
            return answers(zone.clock, {**elsewhere, **_with_one_end(zone.store, at)}, keys, REFUSED)
        child_ids = children_of(e for build in untried for e in build.rest)
        zone.store.write(partial(_try_next, zone, call, keys, child_ids))
        at, _ = _read_places(zone.store, call, keys)


def _read_unsent(
    store: Store, call: _Call, at: Places, repeated: Collection[tuple[str, int]]
) -> list[Placement]:
    """Return the placements to send; a `repeated` one only with the request that it was made for."""
    intended = [p for p in at.values() if p is not None and p.state is State.INTENDED]
    asked = [p.uuid for p in intended if p.key in repeated]
    if not asked:
        return intended
    sent = store.read(lambda tx: stored_request.sent_with(tx, call.caller.user_id, call.spec, asked))
    return [p for p in intended if p.key not in repeated or p.uuid in sent]


def _read_untried(zone: Zone, call: _Call, at: Places) -> list[InboundBuild]:
    if all(p is None or p.state is not State.FAILED for p in at.values()):
        return []
    # A read first: mostly nothing is left to try, and a write would wait for the disk once more.
    return zone.store.read(lambda tx: _untried(tx, call, at, zone.clock.now()))


def _as_written(keys: Sequence[Attempt], made: Sequence[Placement]) -> Places:
    """Return the place of each attempt if all of them have a new one; else none."""
    by_uuid = {p.uuid: p for p in made}
    if len(made) != len(keys) or any(key.uuid not in by_uuid for key in keys):
        return {}
    return {key: by_uuid[key.uuid] for key in keys}


def _read_places(store: Store, call: _Call, keys: Sequence[Attempt]) -> tuple[Places, Places]:
    """Read the places of attempts: of the call's reservation, and of others, which are answered alone."""
    return store.read(lambda tx: places_here_and_elsewhere(tx, call.caller, call.reservation_id, keys))


def _with_one_end(store: Store, at: Places) -> Places:
    """Return the same attempts with all holds shortened to the least.

    Different ends would show the parent which instances are held by the same child zone.
    """
    held = [p for p in at.values() if p is not None and p.state is State.HELD]
    until = min((p.hold_expires_at for p in held), default=0.0)
    longer = [p.in_state(p.state, hold_expires_at=until) for p in held if p.hold_expires_at > until]
    if longer:
        store.write(partial(_shorten, [p.key for p in longer], until))
    return moved(at, longer)


def _shorten(keys: Sequence[tuple[str, int]], until: float, tx: Transaction) -> None:
    locks.instances(tx, [uuid for uuid, _ in keys])
    placements.shorten_holds(tx, keys, until)


# -- placing -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Usable:
    """Builds of a call that can have a placement.

    `here`: the uuids in this zone of the parent's uuids that are aliases. `taken`: new uuids for those that
    another caller's instance has. `rows`: the instances that were there before. `is_known`: the call names an
    attempt that was here before.
    """

    tries: Sequence[Try]
    here: Mapping[str, str]
    taken: Mapping[str, str]
    rows: Mapping[str, Instance]
    is_known: bool


@dataclass(frozen=True)
class _Admitted:
    """Result of the first transaction: `here` as in `_Usable`, what it wrote, and the number of its tries."""

    here: Mapping[str, str]
    claims: OwnClaims = NO_CLAIMS
    made: Sequence[Placement] = ()
    tries: int = 0


def _read_usable(
    zone: Zone,
    tx: Transaction,
    call: _Call,
    builds: Sequence[Build],
    opened: Mapping[Attempt, tuple[RestEntry, ...]],
) -> _Usable:
    me = call.caller.user_id
    here = aliases.instance_uuids(tx, me, [b.uuid for b in builds])
    uuids = [here.get(b.uuid, b.uuid) for b in builds]
    known = inbound.read(tx, me, uuids)
    rows = instances.read_by_uuid(tx, uuids)
    used = placements.used_entry_keys(tx, [e.key for entries in opened.values() for e in entries])
    tries: list[Try] = []
    taken: dict[str, str] = {}
    last = moves.last_numbers(tx, list(rows))
    retry_window_s = zone.conf.retry_window
    for b, uuid in zip(builds, uuids, strict=True):
        usable = opened[Attempt(b.uuid, b.attempt)]
        if used:
            usable = tuple([e for e in usable if e.key not in used])
        row = rows.get(uuid)
        # An instance that has a placement takes no new build.
        if Attempt(uuid, b.attempt) in known or not usable:
            continue
        if row is not None and row.caller_id != me:
            row = None
            uuid = taken[b.uuid] = zone.clock.new_uuid()
        if not _has_place(tx, row):
            retained_until = max([e.expires_at for e in usable]) + retry_window_s
            build = InboundBuild(uuid, me, b.attempt, call.reservation_id, 0, (), retained_until)
            tries.append(Try(build, 0 if row is None else last.get(uuid, 0), usable))
    is_known = bool(known) and any(
        Attempt(uuid, b.attempt) in known for b, uuid in zip(builds, uuids, strict=True)
    )
    return _Usable(tries, here, taken, rows, is_known)


def _admit(
    zone: Zone,
    tx: Transaction,
    call: _Call,
    builds: Sequence[Build],
    opened: Mapping[Attempt, tuple[RestEntry, ...]],
) -> _Admitted | None:
    """Write the rows of usable new builds and claim for them; None when no build of the call is known."""
    locks.children(tx, children_of(e for entries in opened.values() for e in entries))
    locks.call(tx, call.caller.user_id, call.reservation_id)
    me, now = call.caller.user_id, zone.clock.now()
    usable = _read_usable(zone, tx, call, builds, opened)
    rows, taken = usable.rows, usable.taken
    if not usable.tries:
        return _Admitted(usable.here) if usable.is_known else None
    stored = reservations.read_ids(tx, [call.reservation_id]).get((me, call.reservation_id))
    booted = call.spec if stored is None else stored.spec
    if not stored_request.is_of_boot(call.spec, booted):
        return None
    chosen = choose(usable.tries)
    if chosen.refused:
        # A cancel of the same boot takes it first: where the two meet, one is run again.
        locks.tombstones(tx, me)
    zone.quotas.admit_holds(tx, me, len(usable.tries), _uncounted(usable.tries, rows))
    if stored is None:
        _write_reservation(tx, call, now)
    change = identity.next_change(tx)
    names = {taken.get(b.uuid) or usable.here.get(b.uuid, b.uuid): b.name or b.uuid for b in builds}
    fresh = [p for p in chosen.places if p.uuid not in rows]
    if fresh:
        # An instance without rows has its first place.
        first = _instance(call, fresh[0], now)
        instances.insert_alike(tx, change, first, {p.uuid: names[p.uuid] for p in fresh})
    again = [p.uuid for p in chosen.places if p.uuid in rows]
    instance_states.forget(tx, again)
    # Another attempt may be an unshelve, of which this zone is not told: it gets the builds of a new one.
    instances.forget_failed_builds(tx, again)
    new = [p.uuid for p in chosen.places]
    stored_request.note(tx, change, call.spec, booted, new, rows, now)
    placed_here = {p.uuid for p in fresh}
    new_here = {own: uuid for own, uuid in taken.items() if uuid in placed_here}
    aliases.insert(tx, me, new_here)
    zone.quotas.admit_tombstones(tx, me, len(chosen.refused))
    # A refused build has no instance here: it keeps the parent's uuid.
    own_of = {uuid: own for own, uuid in taken.items()}
    refused = [replace(build, uuid=own_of.get(build.uuid, build.uuid)) for build in chosen.refused]
    inbound.insert(tx, [*chosen.builds, *refused])
    made = place(zone, tx, change, call.boot, chosen, now, known=rows)
    return _Admitted({**usable.here, **new_here}, made.claims, made.placements, len(usable.tries))


def _uncounted(tries: Sequence[Try], rows: Mapping[str, Instance]) -> int:
    """Count the instances that are new, or have ended and come back."""
    return sum(t.build.uuid not in rows or rows[t.build.uuid].status not in COUNTED_STATUSES for t in tries)


def _has_place(tx: Transaction, instance: Instance | None) -> bool:
    if instance is None or instance.attempt == 0:
        return False
    place = placements.read_one(tx, instance.uuid, instance.attempt)
    may_return = instance.status in (InstanceStatus.DELETED, InstanceStatus.OFFLOADED)
    has_left = place.state is State.RELEASED or place.reason == EVACUATED
    return place.state not in UNBUILT and not (may_return and has_left)


def _untried(tx: Transaction, call: _Call, at: Places, now: float) -> list[InboundBuild]:
    """Return the builds with entries left whose placement failed before it was confirmed or expired.

    Nothing is tried for a call with another request than theirs, nor for an instance that has been sent with
    a later attempt since.
    """
    failed = [
        a for a, p in at.items() if p is not None and p.state is State.FAILED and p.hold_expires_at > now
    ]
    if not failed:
        return []
    known = inbound.read(tx, call.caller.user_id, [key.uuid for key in failed])
    left = [known[key] for key in failed if known[key].rest]
    numbers = (
        stored_request.sent_with(tx, call.caller.user_id, call.spec, [b.uuid for b in left]) if left else {}
    )
    return [build for build in left if numbers.get(build.uuid) == build.number]


def _try_next(
    zone: Zone, call: _Call, keys: Sequence[Attempt], child_ids: Collection[str], tx: Transaction
) -> None:
    """Give builds whose placement failed their next entry; `child_ids`: of all their remaining entries."""
    locks.children(tx, child_ids)
    locks.call(tx, call.caller.user_id, call.reservation_id)
    now = zone.clock.now()
    again = _untried(tx, call, places_of(tx, call.caller, call.reservation_id, keys), now)
    rows = instances.read_by_uuid(tx, [row.uuid for row in again])
    last = moves.last_numbers(tx, list(rows))
    tries = [Try(row, last[row.uuid], row.rest) for row in again]
    if not zone.quotas.admits_instances(tx, call.caller.user_id, _uncounted(tries, rows)):
        inbound.forget_rest(tx, call.caller.user_id, [t.build.key for t in tries])
        return
    if not tries:
        return
    change = identity.next_change(tx)
    chosen = choose_unused(tx, tries)
    inbound.update(tx, [*chosen.builds, *chosen.refused])
    place(zone, tx, change, call.boot, chosen, now, known=rows)


def _send(zone: Zone, call: _Call, intended: Sequence[Placement], left_s: float) -> Sequence[Placement]:
    budget_s = left_s - min(zone.conf.select_reserve, call.spec.time_budget_s / 5)
    spec = replace(call.spec, time_budget_s=max(0.05, budget_s))
    return child_calls.send_builds(zone, intended, spec, call.hold_s).held


def _write_reservation(tx: Transaction, call: _Call, now: float) -> None:
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


def _instance(call: _Call, place: NewPlace, now: float) -> Instance:
    return instances.of_request(
        call.spec,
        uuid=place.uuid,
        reservation_id=call.reservation_id,
        caller_id=call.caller.user_id,
        user_id=call.caller.user_id,
        position=0,
        name="",
        attempt=place.number,
        now=now,
    )
