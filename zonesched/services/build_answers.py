"""Where a parent's attempts stand, by what is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zonesched.errors import BlobRefused
from zonesched.model.caller import Caller
from zonesched.model.placement import (
    BUILD_STATE_OF,
    Attempt,
    BuildAnswer,
    BuildState,
    PlacementState,
)
from zonesched.services.zone import Zone
from zonesched.store import inbound, placements
from zonesched.store.inbound import InboundBuild
from zonesched.store.placements import Placement
from zonesched.store.store import Transaction

State = PlacementState
REFUSED = BlobRefused.code


def placed(
    tx: Transaction, caller: Caller, reservation_id: str, attempts: Sequence[Attempt]
) -> list[Placement]:
    """The placements that stand for these attempts now."""
    known = inbound.read(tx, caller.user_id, [a.uuid for a in attempts])
    rows = [known[a] for a in attempts if a in known and known[a].reservation_id == reservation_id]
    wanted = {(row.uuid, row.number) for row in rows}
    return [p for p in placements.read_by_uuid(tx, [row.uuid for row in rows]) if p.key in wanted]


def answers(
    zone: Zone, caller: Caller, reservation_id: str, attempts: Sequence[Attempt], unknown_reason: str
) -> list[BuildAnswer]:
    """One answer for each attempt, in order; `unknown_reason` is given for one that was never heard of."""

    def read(tx: Transaction) -> tuple[Mapping[Attempt, InboundBuild], list[Placement]]:
        known = inbound.read(tx, caller.user_id, [a.uuid for a in attempts])
        return known, placed(tx, caller, reservation_id, attempts)

    known, places = zone.store.read(read)
    by_key = {p.key: p for p in places}
    now = zone.clock.now()
    unknown_state = BuildState.FAILED if unknown_reason == REFUSED else BuildState.GONE
    found: list[BuildAnswer] = []
    for a in attempts:
        row = known.get(a)
        p = by_key.get((row.uuid, row.number)) if row is not None else None
        if p is None:
            state = unknown_state if row is None else BuildState.GONE
            found.append(BuildAnswer(a.uuid, a.attempt, state, reason=unknown_reason))
            continue
        state = BUILD_STATE_OF[p.state]
        hold_s = max(0.0, p.hold_expires_at - now) if state is BuildState.HELD else 0.0
        found.append(BuildAnswer(a.uuid, a.attempt, state, hold_s, p.reason))
    return found
