"""Answers to a parent about its attempts, from the stored rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zonesched.errors import BlobRefused
from zonesched.model.caller import Caller
from zonesched.model.placement import (
    BUILD_STATE_OF,
    Attempt,
    BuildAnswer,
    BuildState,
)
from zonesched.seams import Clock
from zonesched.services.select.faults import for_parent
from zonesched.store import aliases, inbound
from zonesched.store.placements import Placement
from zonesched.store.store import Store, Transaction

REFUSED = BlobRefused.code

Places = Mapping[Attempt, Placement | None]
"""Places of attempts; None for one that was cancelled before it arrived."""


def attempts_here(tx: Transaction, caller: Caller, called: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts of a call by the uuids that their instances have in this zone."""
    here = aliases.instance_uuids(tx, caller.user_id, [a.uuid for a in called])
    return [Attempt(here.get(a.uuid, a.uuid), a.attempt) for a in called]


def named_by_caller(called: Sequence[Attempt], found: Sequence[BuildAnswer]) -> list[BuildAnswer]:
    """Return the answers, in the order of the call, by the caller's own uuids."""
    return [
        a if a.uuid == own.uuid else a._replace(uuid=own.uuid) for own, a in zip(called, found, strict=True)
    ]


def places_here_and_elsewhere(
    tx: Transaction, caller: Caller, reservation_id: str, attempts: Sequence[Attempt]
) -> tuple[Places, Places]:
    """Return the places of known attempts: those of this reservation, and those of the caller's others."""
    known = inbound.known_attempts(tx, caller.user_id, [a.uuid for a in attempts])
    found = {a: known[a] for a in attempts if a in known}
    here = {a: one.place for a, one in found.items() if one.reservation_id == reservation_id}
    return here, {a: one.place for a, one in found.items() if a not in here}


def places_of(tx: Transaction, caller: Caller, reservation_id: str, attempts: Sequence[Attempt]) -> Places:
    """Return the place of each attempt that is known in this reservation, in order."""
    return places_here_and_elsewhere(tx, caller, reservation_id, attempts)[0]


def reservation_of(store: Store, caller: Caller, attempt: Attempt) -> str:
    """Return the reservation that a known attempt was sent with; "" for an unknown one."""

    def fn(tx: Transaction) -> str:
        (here,) = attempts_here(tx, caller, [attempt])
        known = inbound.known_attempts(tx, caller.user_id, [here.uuid])
        return known[here].reservation_id if here in known else ""

    return store.read(fn)


def moved(at: Places, places: Iterable[Placement]) -> Places:
    """Return the attempts with these of their places, as they are now."""
    now = {p.key: p for p in places}
    return {a: p and now.get(p.key, p) for a, p in at.items()}


def answers(clock: Clock, at: Places, attempts: Sequence[Attempt], unknown_reason: str) -> list[BuildAnswer]:
    """Return one answer for each attempt, in order; `unknown_reason` for one that was never placed."""
    now = clock.now()
    unknown = BuildState.FAILED if unknown_reason == REFUSED else BuildState.GONE
    return [
        _answer(a, at[a], now, unknown_reason) if a in at else BuildAnswer(*a, unknown, reason=unknown_reason)
        for a in attempts
    ]


def _answer(attempt: Attempt, at: Placement | None, now: float, unknown_reason: str) -> BuildAnswer:
    if at is None:
        return BuildAnswer(*attempt, BuildState.GONE, reason=unknown_reason)
    state = BUILD_STATE_OF[at.state]
    hold_s = max(0.0, at.hold_expires_at - now) if state is BuildState.HELD else 0.0
    # What ends a place that was confirmed is why the instance has ended, and no failure of its build.
    reason = for_parent(at.reason) if at.reason and state is not BuildState.CONFIRMED else ""
    return BuildAnswer(*attempt, state, hold_s, reason)
