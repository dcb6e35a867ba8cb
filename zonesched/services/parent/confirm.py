"""Second step of a parent: confirm or cancel held builds.

Each attempt moves by one conditional write; a child's place is confirmed only by the child's own answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from zonesched import tracing
from zonesched.model.caller import Caller
from zonesched.model.placement import TO_BUILD, Attempt, BuildAnswer, PlacementState
from zonesched.services.parent.build_answers import answers, attempt_statuses, placed
from zonesched.services.placing import child_calls
from zonesched.services.placing.placement_moves import advance
from zonesched.services.zone import Zone
from zonesched.store import identity, inbound, locks
from zonesched.store.inbound import InboundBuild
from zonesched.store.placements import InChild, Placement
from zonesched.store.store import Transaction

State = PlacementState


def confirm(
    zone: Zone, caller: Caller, reservation_id: str, attempts: Sequence[Attempt]
) -> list[BuildAnswer]:
    """Confirm held builds; a place in a child is CONFIRMED only once the child has answered so."""
    tracing.about(reservation_id)

    def decide(tx: Transaction) -> list[Placement]:
        locks.instances(tx, [a.uuid for a in attempts])
        now, change = zone.clock.now(), identity.next_change(tx)
        ends: defaultdict[PlacementState, list[Placement]] = defaultdict(list)
        places = placed(tx, attempt_statuses(tx, caller, reservation_id, attempts))
        for p in places:
            if p.state is State.HELD:
                if p.hold_expires_at <= now:
                    to = State.CANCELLING if isinstance(p.where, InChild) else State.GONE
                else:
                    to = State.CONFIRMING if isinstance(p.where, InChild) else State.CONFIRMED
                ends[to].append(p)
        # A confirmed instance may need another entry if its build fails.
        kept = {p.uuid for to, some in ends.items() if to not in _LOST for p in some}
        known = {p.uuid for p in places if p.state in TO_BUILD}
        inbound.forget_rest(tx, caller.user_id, [a.uuid for a in attempts if a.uuid not in kept | known])
        decided = [p for p in places if p.state is not State.HELD]
        for to, some in ends.items():
            reason = "hold_expired" if to in _LOST else ""
            pause_s = zone.conf.retry_pause
            decided += advance(tx, change, zone.uuid, some, to, now, reason=reason, repeat_in_s=pause_s)
        return decided

    decided = zone.store.write(decide)
    zone.wake.agents(p for p in decided if p.state is State.CONFIRMED)
    child_calls.send_confirms(zone, [p for p in decided if p.state is State.CONFIRMING])
    child_calls.send_cancels(zone, [p for p in decided if p.state is State.CANCELLING])
    return _answers(zone, caller, reservation_id, attempts, "hold_gone")


_LOST = (State.GONE, State.CANCELLING)


def cancel(zone: Zone, caller: Caller, reservation_id: str, attempts: Sequence[Attempt]) -> list[BuildAnswer]:
    """Cancel held builds. An unknown attempt leaves a tombstone, so that it is not built afterwards."""
    tracing.about(reservation_id)

    def decide(tx: Transaction) -> list[Placement]:
        locks.instances(tx, [a.uuid for a in attempts])
        now, change = zone.clock.now(), identity.next_change(tx)
        _leave_tombstones(zone, tx, caller, reservation_id, attempts, now)
        inbound.forget_rest(tx, caller.user_id, [a.uuid for a in attempts])
        places = placed(tx, attempt_statuses(tx, caller, reservation_id, attempts))
        open_ = [p for p in places if p.state in (State.HELD, State.INTENDED)]
        in_children = [p for p in open_ if isinstance(p.where, InChild)]
        on_hosts = [p for p in open_ if not isinstance(p.where, InChild)]
        cancelling = advance(tx, change, zone.uuid, in_children, State.CANCELLING, now, reason="cancelled")
        advance(tx, change, zone.uuid, on_hosts, State.GONE, now, reason="cancelled")
        return [*(p for p in places if p.state is State.CANCELLING), *cancelling]

    child_calls.send_cancels(zone, zone.store.write(decide))
    return _answers(zone, caller, reservation_id, attempts, "cancelled")


def _answers(
    zone: Zone, caller: Caller, reservation_id: str, attempts: Sequence[Attempt], unknown_reason: str
) -> list[BuildAnswer]:
    at = zone.store.read(lambda tx: attempt_statuses(tx, caller, reservation_id, attempts))
    return answers(zone, at, attempts, unknown_reason)


def _leave_tombstones(
    zone: Zone,
    tx: Transaction,
    caller: Caller,
    reservation_id: str,
    attempts: Sequence[Attempt],
    now: float,
) -> None:
    known = inbound.read(tx, caller.user_id, [a.uuid for a in attempts])
    retained_until = now + zone.conf.build_plan_ttl + zone.conf.retry_window
    inbound.insert(
        tx,
        [
            InboundBuild(a.uuid, caller.user_id, a.attempt, reservation_id, 0, (), retained_until)
            for a in attempts
            if a not in known
        ],
    )
