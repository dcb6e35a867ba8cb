"""Second step of a parent: confirm or cancel held builds.

Each attempt moves by one conditional write; a child's place is confirmed only by the child's own answer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from zonesched import tracing
from zonesched.model.caller import Caller
from zonesched.model.placement import TO_BUILD, Attempt, BuildAnswer, PlacementState
from zonesched.services.parent.build_answers import (
    Places,
    answers,
    attempts_here,
    moved,
    named_by_caller,
    places_of,
)
from zonesched.services.placing import child_calls, idle_holds
from zonesched.services.placing.idle_holds import IdleHold
from zonesched.services.placing.placement_moves import advance
from zonesched.services.zone import Zone
from zonesched.store import identity, inbound, locks
from zonesched.store.inbound import InboundBuild
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.store import Transaction

State = PlacementState


@dataclass(frozen=True)
class _Decision:
    """Placements as they are after the decision, those newly confirmed, and holds that ended idle.

    `attempts`: those of the call, by the uuids that their instances have here. `at`: their places.
    """

    attempts: Sequence[Attempt]
    places: Sequence[Placement]
    at: Places
    confirmed: int = 0
    idle: Sequence[IdleHold] = ()


def confirm(
    zone: Zone,
    caller: Caller,
    reservation_id: str,
    attempts: Sequence[Attempt],
    budget_s: float = math.inf,
) -> list[BuildAnswer]:
    """Confirm held builds; a place in a child is CONFIRMED only once the child has answered so.

    Children that do not answer within the caller's `budget_s` are not waited for.
    """
    ends_at = _ends_at(zone, budget_s)
    tracing.about(reservation_id)
    decision = zone.store.write(partial(_decide_confirm, zone, caller, reservation_id, attempts))
    zone.quotas.note_confirmed(caller.user_id, decision.confirmed)
    idle_holds.charge(zone, decision.idle)
    zone.wake.agents(p for p in decision.places if p.state is State.CONFIRMED)
    confirming = [p for p in decision.places if p.state is State.CONFIRMING]
    cancelling = [p for p in decision.places if p.state is State.CANCELLING]
    confirmed = child_calls.send_confirms(zone, confirming, timeout_s=_left_s(zone, ends_at)).moved
    child_calls.send_cancels(zone, cancelling, _left_s(zone, ends_at))
    at = moved(decision.at, [*decision.places, *confirmed])
    if all(p is not None and p.state is State.CONFIRMED for p in at.values()):
        return named_by_caller(attempts, answers(zone.clock, at, decision.attempts, "hold_gone"))
    return _answers(zone, caller, reservation_id, attempts, decision.attempts, "hold_gone")


def _ends_at(zone: Zone, budget_s: float) -> float:
    """Return when children are no longer waited for (monotonic): the rest of the time is for the answer."""
    budget_s = min(budget_s, float(zone.conf.build_timeout))
    reserve_s = min(float(zone.conf.select_reserve), budget_s / 5)
    return zone.clock.monotonic() + budget_s - reserve_s


def _left_s(zone: Zone, ends_at: float) -> float:
    return max(0.05, ends_at - zone.clock.monotonic())


_LOST = (State.GONE, State.CANCELLING)


def _decide_confirm(
    zone: Zone, caller: Caller, reservation_id: str, called: Sequence[Attempt], tx: Transaction
) -> _Decision:
    attempts = attempts_here(tx, caller, called)
    locks.instances(tx, [a.uuid for a in attempts])
    now, change = zone.clock.now(), identity.next_change(tx)
    ends: defaultdict[PlacementState, list[Placement]] = defaultdict(list)
    at = places_of(tx, caller, reservation_id, attempts)
    places = [p for p in at.values() if p is not None]
    for p in places:
        if p.state is State.HELD:
            in_child = isinstance(p.where, AskedChild)
            if p.hold_expires_at <= now:
                ends[State.CANCELLING if in_child else State.GONE].append(p)
            else:
                ends[State.CONFIRMING if in_child else State.CONFIRMED].append(p)
    # A confirmed instance may need another entry if its build fails.
    kept = {p.uuid for to, some in ends.items() if to not in _LOST for p in some}
    known = {p.uuid for p in places if p.state in TO_BUILD}
    inbound.forget_rest(tx, caller.user_id, [a for a in at if a.uuid not in kept | known])
    idle = idle_holds.ending(tx, zone.uuid, [p for to in _LOST for p in ends.get(to, ())], now)
    decided = [p for p in places if p.state is not State.HELD]
    for to, some in ends.items():
        reason = "hold_expired" if to in _LOST else ""
        pause_s = zone.conf.retry_pause
        ended = advance(tx, change, zone.uuid, some, to, now, reason=reason, repeat_in_s=pause_s)
        # The answer to the cancel must not tell a parent which of its holds were in a child.
        decided += [replace(p, reason=reason) if to in _LOST else p for p in ended]
    return _Decision(attempts, decided, at, len(kept), idle)


def cancel(
    zone: Zone,
    caller: Caller,
    reservation_id: str,
    attempts: Sequence[Attempt],
    budget_s: float = math.inf,
) -> list[BuildAnswer]:
    """Cancel held builds. An unknown attempt leaves a tombstone, so that it is not built afterwards.

    Children that do not answer within the caller's `budget_s` are not waited for. Raises OverLimit, with
    nothing cancelled, for more tombstones than a parent may leave.
    """
    ends_at = _ends_at(zone, budget_s)
    tracing.about(reservation_id)
    decision = zone.store.write(partial(_decide_cancel, zone, caller, reservation_id, attempts))
    idle_holds.charge(zone, decision.idle)
    child_calls.send_cancels(zone, decision.places, _left_s(zone, ends_at))
    return _answers(zone, caller, reservation_id, attempts, decision.attempts, "cancelled")


def _decide_cancel(
    zone: Zone, caller: Caller, reservation_id: str, called: Sequence[Attempt], tx: Transaction
) -> _Decision:
    now = zone.clock.now()
    _leave_tombstones(zone, tx, caller, reservation_id, called, now)
    attempts = attempts_here(tx, caller, called)
    locks.instances(tx, [a.uuid for a in attempts])
    change = identity.next_change(tx)
    at = places_of(tx, caller, reservation_id, attempts)
    inbound.forget_rest(tx, caller.user_id, at)
    places = [p for p in at.values() if p is not None]
    open_ = [p for p in places if p.state in (State.HELD, State.INTENDED)]
    idle = idle_holds.ending(tx, zone.uuid, open_, now)
    in_children = [p for p in open_ if isinstance(p.where, AskedChild)]
    on_hosts = [p for p in open_ if not isinstance(p.where, AskedChild)]
    cancelling = advance(tx, change, zone.uuid, in_children, State.CANCELLING, now, reason="cancelled")
    advance(tx, change, zone.uuid, on_hosts, State.GONE, now, reason="cancelled")
    called_again = [p for p in places if p.state is State.CANCELLING]
    return _Decision(attempts, [*called_again, *cancelling], at, idle=idle)


def _answers(
    zone: Zone,
    caller: Caller,
    reservation_id: str,
    called: Sequence[Attempt],
    attempts: Sequence[Attempt],
    unknown_reason: str,
) -> list[BuildAnswer]:
    at = zone.store.read(lambda tx: places_of(tx, caller, reservation_id, attempts))
    return named_by_caller(called, answers(zone.clock, at, attempts, unknown_reason))


def _leave_tombstones(
    zone: Zone,
    tx: Transaction,
    caller: Caller,
    reservation_id: str,
    called: Sequence[Attempt],
    now: float,
) -> None:
    if not _unknown(tx, caller, called):
        return
    locks.tombstones(tx, caller.user_id)
    # A hold of the same boot may be about to give an instance another uuid here.
    locks.call(tx, caller.user_id, reservation_id)
    unknown = _unknown(tx, caller, called)
    zone.quotas.admit_tombstones(tx, caller.user_id, len(unknown))
    retained_until = now + zone.conf.build_plan_ttl + zone.conf.retry_window
    inbound.insert(
        tx,
        [
            InboundBuild(a.uuid, caller.user_id, a.attempt, reservation_id, 0, (), retained_until)
            for a in unknown
        ],
    )


def _unknown(tx: Transaction, caller: Caller, called: Sequence[Attempt]) -> list[Attempt]:
    attempts = attempts_here(tx, caller, called)
    known = inbound.read(tx, caller.user_id, [a.uuid for a in attempts])
    return [a for a in attempts if a not in known]
