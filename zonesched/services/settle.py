"""A parent's second step: build what is held, or let go of it.

Each attempt moves by one conditional write; what was passed on is confirmed only by the child's own answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from zonesched.model.caller import Caller
from zonesched.model.placement import (
    Attempt,
    BuildAnswer,
    PlacementState,
)
from zonesched.services import child_calls
from zonesched.services.build_answers import answers, placed
from zonesched.services.placement_moves import advance
from zonesched.services.zone import Zone
from zonesched.store import identity, inbound
from zonesched.store.inbound import InboundBuild
from zonesched.store.placements import InChild, Placement
from zonesched.store.store import Transaction

State = PlacementState


def confirm(
    zone: Zone, caller: Caller, reservation_id: str, attempts: Sequence[Attempt]
) -> list[BuildAnswer]:
    """Build what is held; a child's is CONFIRMED here only once that child has said so itself."""

    def decide(tx: Transaction) -> list[Placement]:
        now, change = zone.clock.now(), identity.next_change(tx)
        for p in placed(tx, caller, reservation_id, attempts):
            if p.state is State.HELD:
                if p.hold_expires_at <= now:
                    to = State.CANCELLING if isinstance(p.where, InChild) else State.GONE
                else:
                    to = State.CONFIRMING if isinstance(p.where, InChild) else State.CONFIRMED
                advance(tx, change, zone.uuid, p, to, now, reason="hold_expired" if to in _LOST else "")
        return placed(tx, caller, reservation_id, attempts)

    decided = zone.store.write(decide)
    child_calls.send_confirms(zone, [p for p in decided if p.state is State.CONFIRMING])
    child_calls.send_cancels(zone, [p for p in decided if p.state is State.CANCELLING])
    return answers(zone, caller, reservation_id, attempts, "hold_gone")


_LOST = (State.GONE, State.CANCELLING)


def cancel(zone: Zone, caller: Caller, reservation_id: str, attempts: Sequence[Attempt]) -> list[BuildAnswer]:
    """Let go of what is held. An attempt never heard of is remembered, so that it is not built afterwards."""

    def decide(tx: Transaction) -> list[Placement]:
        now, change = zone.clock.now(), identity.next_change(tx)
        _leave_tombstones(zone, tx, caller, reservation_id, attempts, now)
        for p in placed(tx, caller, reservation_id, attempts):
            if p.state in (State.HELD, State.INTENDED):
                to = State.CANCELLING if isinstance(p.where, InChild) else State.GONE
                advance(tx, change, zone.uuid, p, to, now, reason="cancelled")
        return placed(tx, caller, reservation_id, attempts)

    decided = zone.store.write(decide)
    child_calls.send_cancels(zone, [p for p in decided if p.state is State.CANCELLING])
    return answers(zone, caller, reservation_id, attempts, "cancelled")


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
