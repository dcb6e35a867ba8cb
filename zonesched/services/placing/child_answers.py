"""Answers of children about placements, and the moves that they make, recorded in one transaction.

A row moves only from the state in which it was read. One whose child did not answer stays as it is, and its
call is due again after a growing pause.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from zonesched.conf import Conf
from zonesched.model.placement import NOT_KEPT, UNBUILT, BuildAnswer, BuildState, PlacementState
from zonesched.model.placement_moves import next_state
from zonesched.services.placing import build_retry
from zonesched.services.placing.placement_moves import advance, advance_together
from zonesched.services.zone import Zone
from zonesched.store import identity, placements, reservations
from zonesched.store.placements import Placement
from zonesched.store.reservations import Lease
from zonesched.store.store import Transaction

State = PlacementState

NO_HOLD = 0.0
"""The end of a hold that is of no use."""

Expiry = Callable[[Placement, BuildAnswer, float], float]
"""Returns when a hold that was answered ends, looked at now (epoch seconds); NO_HOLD for one of no use."""

End = Callable[[Transaction, float], None]
"""Ends the work of a boot in a transaction, at this time (epoch seconds)."""


def _no_hold(_placement: Placement, _answer: BuildAnswer, _now: float) -> float:
    return NO_HOLD


@dataclass(frozen=True)
class Recording:
    """How the answers of a call are recorded.

    `lease`: of the boot's worker, whose writes end with it. `end`: runs in the same transaction, unless a
    place was lost. `confirm_all`: if all are held, and for long enough, their confirm is decided as well.
    """

    lease: Lease | None = None
    expiry: Expiry = _no_hold
    end: End | None = None
    confirm_all: bool = False


@dataclass(frozen=True)
class Recorded:
    """The result of recording answers: placements that none moved, and the others as they are now.

    A confirmed one whose build failed is in neither. `ended`: the work of the boot is over.
    """

    unanswered: Sequence[Placement]
    moved: Sequence[Placement]
    ended: bool


@dataclass(frozen=True)
class _Answered:
    """A placement, the state that its child's answer leads to, and that answer."""

    placement: Placement
    to: PlacementState
    answer: BuildAnswer


@dataclass(frozen=True)
class _Sorted:
    """Placements by whether an answer moves them, and when the holds of the call end (epoch seconds)."""

    unanswered: Sequence[Placement]
    answered: Sequence[_Answered]
    held_until: float

    def all_held_until(self, until: float) -> bool:
        """Tell whether children hold all of them until then."""
        is_held = not self.unanswered and all(one.to is State.HELD for one in self.answered)
        return is_held and self.held_until >= until


def record(
    zone: Zone,
    sent: Sequence[Placement],
    answers: Mapping[tuple[str, int], BuildAnswer],
    recording: Recording,
    tx: Transaction,
) -> Recorded:
    """Move the placements that were sent by the answers to them, by (uuid, attempt). Raises LeaseLost."""
    now = zone.clock.now()
    if recording.lease is not None:
        reservations.keep_lease(tx, recording.lease, now)
    failed = [a.uuid for a in answers.values() if a.state is BuildState.FAILED]
    build_retry.lock_with_alternates(tx, [p.uuid for p in sent], failed)
    change = identity.next_change(tx)
    found = _sort(sent, answers, recording.expiry, now)
    if recording.confirm_all and found.all_held_until(now + zone.conf.hold_margin):
        confirming = advance_together(
            tx,
            change,
            zone.uuid,
            sent,
            State.CONFIRMING,
            now,
            hold_expires_at=found.held_until,
            repeat_in_s=zone.conf.retry_pause,
        )
        if confirming:
            return Recorded((), confirming, ended=False)
    moved = _move(zone, tx, change, found, now)
    placements.postpone(tx, found.unanswered, lambda calls: now + pause_s(zone.conf, calls))
    end = recording.end
    if end is None or any(one.to in UNBUILT for one in found.answered):
        return Recorded(found.unanswered, moved, ended=False)
    end(tx, now)
    return Recorded(found.unanswered, moved, ended=True)


def _sort(
    sent: Sequence[Placement],
    answers: Mapping[tuple[str, int], BuildAnswer],
    expiry: Expiry,
    now: float,
) -> _Sorted:
    unanswered: list[Placement] = []
    answered: list[_Answered] = []
    ends: list[float] = []
    for p in sent:
        answer = answers.get(p.key)
        to = p.state if answer is None else next_state(p.state, answer.state)
        end_at = expiry(p, answer, now) if answer is not None and to is State.HELD else math.inf
        if answer is None or to is p.state or end_at == NO_HOLD:
            unanswered.append(p)
            continue
        answered.append(_Answered(p, to, answer))
        ends.append(end_at)
    # All holds of a call end together, as a parent must not tell by their ends which child has them.
    return _Sorted(unanswered, answered, min(ends, default=math.inf))


def _move(zone: Zone, tx: Transaction, change: int, found: _Sorted, now: float) -> list[Placement]:
    """Move what was answered; return the moved placements as they are now, without failed builds."""
    moves: defaultdict[tuple[PlacementState, str], list[Placement]] = defaultdict(list)
    for one in found.answered:
        p, answer = one.placement, one.answer
        if p.state is State.CONFIRMING and one.to is State.FAILED:
            build_retry.build_failed(zone, tx, change, p, now, answer.reason or "build_failed")
        else:
            moves[one.to, _reason_of(p, one.to, answer)].append(p)
    moved: list[Placement] = []
    for (to, reason), some in moves.items():
        # A refused placement keeps its end: until then its build may have its next entry.
        until = found.held_until if to is State.HELD else 0.0
        moved += advance(tx, change, zone.uuid, some, to, now, reason=reason, hold_expires_at=until)
    return moved


def _reason_of(placement: Placement, to: PlacementState, answer: BuildAnswer) -> str:
    """Return why a placement moves: a cancelled one ends for the reason for which it was cancelled.

    A child that ends a hold by itself cannot excuse it with a reason of this zone's own.
    """
    if placement.state is State.CANCELLING and placement.reason:
        return placement.reason
    return "hold_gone" if to is State.GONE and answer.reason in NOT_KEPT else answer.reason


def pause_s(conf: Conf, calls: int) -> float:
    """Return the seconds until the next repeat after `calls` unanswered calls: doubled up to a limit."""
    return float(min(conf.retry_pause_max, conf.retry_pause * 2 ** min(calls, 30)))
