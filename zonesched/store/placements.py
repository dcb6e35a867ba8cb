"""Placement rows, each one try to place an instance; they move only as `model.placement_moves` allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import NoResultFound

from zonesched.model.placement import (
    CLAIMING,
    OCCUPYING,
    UNANSWERED,
    UNCONFIRMED,
    UNFINISHED,
    PlacementState,
)
from zonesched.model.placement_moves import CHILD_MOVES, LOCAL_MOVES, IllegalMove, Move
from zonesched.store import claims, group_places
from zonesched.store import tables as t
from zonesched.store.moves import IS_HELD_FOR_A_MOVE
from zonesched.store.prepared import Prepared, is_in, one_of

COLUMNS = t.placements.c
_STATE_OF = {state.value: state for state in PlacementState}
_ONE = Prepared(
    sa.select(t.placements).where(
        COLUMNS.uuid == sa.bindparam("uuid"), COLUMNS.number == sa.bindparam("number")
    )
)
_OF_INSTANCES = Prepared(
    sa.select(t.placements).where(one_of(COLUMNS.uuid, "uuids")).order_by(COLUMNS.uuid, COLUMNS.number)
)
_UNSENT_BLOBS = sa.case((COLUMNS.state == PlacementState.INTENDED.value, COLUMNS.blobs), else_="[]")
# Entries are the longest part of a row and are not needed once they are sent.
WITHOUT_SENT_BLOBS = [_UNSENT_BLOBS.label("blobs") if c is COLUMNS.blobs else c for c in COLUMNS]
_OF_BOOT = Prepared(
    sa.select(*WITHOUT_SENT_BLOBS)
    .where(COLUMNS.reservation_id == sa.bindparam("reservation"), COLUMNS.caller_id == sa.bindparam("caller"))
    .order_by(COLUMNS.uuid, COLUMNS.number)
)
_FAILED_HOSTS = Prepared(
    sa.select(COLUMNS.host_id).where(
        COLUMNS.reservation_id == sa.bindparam("reservation"),
        COLUMNS.caller_id == sa.bindparam("caller"),
        COLUMNS.kind == "host",
        COLUMNS.state == PlacementState.FAILED.value,
        COLUMNS.retained_until > sa.bindparam("now"),
    )
)
_USED_KEYS = Prepared(sa.select(COLUMNS.entry_key).where(one_of(COLUMNS.entry_key, "keys")))
_AT = COLUMNS.number == sa.bindparam("b_number"), COLUMNS.state == sa.bindparam("b_from")
_AS_READ = sa.update(t.placements).where(one_of(COLUMNS.uuid, "uuids"), *_AT)
_MOVE = Prepared(
    _AS_READ.values(
        state=sa.bindparam("b_to"),
        next_call_at=sa.bindparam("due_at"),
        calls=0,
        # "" and 0 keep what is stored.
        reason=sa.func.coalesce(sa.func.nullif(sa.bindparam("why", type_=sa.String), ""), COLUMNS.reason),
        hold_expires_at=sa.func.coalesce(
            sa.func.nullif(sa.bindparam("held_until", type_=sa.Float), 0.0), COLUMNS.hold_expires_at
        ),
    ).returning(COLUMNS.uuid)
)
_SHORTEN = Prepared(
    sa.update(t.placements)
    .where(COLUMNS.uuid == sa.bindparam("b_uuid"), COLUMNS.number == sa.bindparam("b_number"))
    .where(COLUMNS.state == PlacementState.HELD.value, COLUMNS.hold_expires_at > sa.bindparam("b_until"))
    .values(hold_expires_at=sa.bindparam("b_until"))
)
_POSTPONE = Prepared(_AS_READ.values(calls=sa.bindparam("b_calls"), next_call_at=sa.bindparam("due_at")))
_instance, _state = t.instances.c, t.instance_states.c
_PRESENT = Prepared(
    sa.select(COLUMNS.uuid, COLUMNS.number, COLUMNS.state, _instance.status)
    .join(t.instances, sa.and_(_instance.uuid == COLUMNS.uuid, _instance.attempt == COLUMNS.number))
    .where(one_of(COLUMNS.uuid, "uuids"), _instance.reason == "")
    .where(sa.not_(sa.exists().where(_state.uuid == COLUMNS.uuid, _state.moves_begun > 0)))
)


_IN_ORDER = (
    sa.select(*WITHOUT_SENT_BLOBS).order_by(COLUMNS.uuid, COLUMNS.number).limit(sa.bindparam("max_rows"))
)


_DUE_CALLS = Prepared(
    _IN_ORDER.where(
        t.PLACE_IS_IN_MOTION,
        is_in(COLUMNS.state, UNANSWERED),
        COLUMNS.child_id.is_not(None),
        COLUMNS.next_call_at <= sa.bindparam("now"),
        sa.not_(one_of(COLUMNS.child_id, "busy")),
    )
)
_OVERDUE = Prepared(
    _IN_ORDER.where(
        t.PLACE_IS_IN_MOTION,
        is_in(COLUMNS.state, UNCONFIRMED),
        COLUMNS.hold_expires_at <= sa.bindparam("now"),
        sa.not_(IS_HELD_FOR_A_MOVE),
    )
)


@dataclass(frozen=True)
class ClaimedHost:
    """A host of this zone, with the resources that the placement claims there."""

    host_id: str
    resources: Mapping[str, int]


@dataclass(frozen=True)
class AskedChild:
    """A child zone, with the blobs that it is asked to try, in order."""

    child_id: str
    blobs: tuple[str, ...]


Where = ClaimedHost | AskedChild
"""Where a placement is. `model.place.Place` is the same without the resources and blobs of one placement."""


@dataclass(frozen=True)
class Placement:
    """One row. `number` counts per instance; `entry_key` is "" where no sealed entry was used up.

    `is_fetched`: the agent of its host may know of it.
    """

    uuid: str
    number: int
    caller_id: str
    reservation_id: str
    where: Where
    state: PlacementState
    reason: str
    hold_expires_at: float
    retained_until: float
    entry_key: str = ""
    calls: int = 0
    is_fetched: bool = False

    @property
    def key(self) -> tuple[str, int]:
        return (self.uuid, self.number)

    def in_state(self, state: PlacementState, **others: Any) -> Placement:
        """Return the placement in another state, with `others` changed too; faster than `replace`."""
        other = object.__new__(Placement)
        vars(other).update(vars(self), state=state, **others)
        return other


def read(tx: Connection, *conditions: sa.ColumnElement[bool]) -> list[Placement]:
    """Read the placements that meet all conditions, in order of instance and number; for this package."""
    statement = sa.select(t.placements).where(*conditions).order_by(COLUMNS.uuid, COLUMNS.number)
    return [from_row(row) for row in tx.execute(statement)]


def read_one(tx: Connection, uuid: str, number: int) -> Placement:
    """Read one placement. Raises NoResultFound where there is none."""
    row = _ONE.first(tx, uuid=uuid, number=number)
    if row is None:
        raise NoResultFound
    return from_row(row)


def unfinished_in(tx: Connection, child_id: str) -> list[Placement]:
    """Read the placements in a child that are in no final state."""
    return read(tx, COLUMNS.child_id == child_id, is_in(COLUMNS.state, UNFINISHED))


def read_by_uuid(tx: Connection, uuids: Sequence[str]) -> list[Placement]:
    """Read all placements of these instances, in order of instance and number."""
    return [from_row(row) for row in _OF_INSTANCES.all(tx, uuids=uuids)]


def of_boot(tx: Connection, caller_id: str, reservation_id: str) -> list[Placement]:
    """Read all placements of a boot, in order of instance and number; blobs of unsent placements only."""
    rows = _OF_BOOT.all(tx, reservation=reservation_id, caller=caller_id)
    return [from_row(row) for row in rows]


def without_fault(tx: Connection, uuids: Sequence[str]) -> Mapping[tuple[str, int], tuple[str, str]]:
    """Read placement state and status, as stored, of these instances without a reason that never moved.

    The key is (uuid, number of the present placement).
    """
    rows = _PRESENT.all(tx, uuids=uuids)
    return {(uuid, number): (state, status) for uuid, number, state, status in rows}


def due_calls(tx: Connection, now: float, busy: Sequence[str], limit: int) -> list[Placement]:
    """Return at most `limit` placements whose child is to be called now; children in `busy` are left out."""
    return [from_row(row) for row in _DUE_CALLS.all(tx, now=now, busy=busy, max_rows=limit)]


def overdue_holds(tx: Connection, now: float, limit: int) -> list[Placement]:
    """Return at most `limit` placements that were never confirmed and whose hold has expired."""
    return [from_row(row) for row in _OVERDUE.all(tx, now=now, max_rows=limit)]


def failed_hosts(tx: Connection, caller_id: str, reservation_id: str, now: float) -> frozenset[str]:
    """Read the local hosts whose claim or build has failed for this caller's reservation, and is retained."""
    rows = _FAILED_HOSTS.all(tx, reservation=reservation_id, caller=caller_id, now=now)
    return frozenset(row.host_id for row in rows)


def used_entry_keys(tx: Connection, keys: Sequence[str]) -> frozenset[str]:
    """Select the keys of sealed entries that a placement has used up."""
    return frozenset(row.entry_key for row in _USED_KEYS.all(tx, keys=keys))


def move(
    tx: Connection,
    change: int,
    placement: Placement,
    to: PlacementState,
    *,
    reason: str = "",
    hold_expires_at: float = 0.0,
    next_call_at: float = 0.0,
    repair: bool = False,
) -> bool:
    """Move one placement, as `move_all` does; False when it had moved on since it was read."""
    return bool(
        move_all(
            tx,
            change,
            [placement],
            to,
            reason=reason,
            hold_expires_at=hold_expires_at,
            next_call_at=next_call_at,
            repair=repair,
        )
    )


def move_all(
    tx: Connection,
    change: int,
    placements: Iterable[Placement],
    to: PlacementState,
    *,
    reason: str = "",
    hold_expires_at: float = 0.0,
    next_call_at: float = 0.0,
    repair: bool = False,
) -> list[Placement]:
    """Move placements from the state they were read in; return those that had not moved on since.

    A placement that leaves a claiming state releases its resources of a local host in the same transaction;
    the last one of an affinity group releases the group's place. A host that is to release one builds it no
    more, and counts as changed. A `hold_expires_at` of 0 and a reason of "" keep the stored values. Raises
    IllegalMove, with nothing written, for a move that is not in `model.placement_moves`, unless it is a
    `repair`.
    """
    placements = list(placements)
    if not repair:
        _check_legal(placements, to)
    values = {"b_to": to.value, "due_at": next_call_at, "why": reason, "held_until": hold_expires_at}
    grouped: dict[tuple[int, PlacementState], list[Placement]] = {}
    for p in placements:
        grouped.setdefault((p.number, p.state), []).append(p)
    moved: list[Placement] = []
    for (number, state), of_state in grouped.items():
        by_uuid = {p.uuid: p for p in of_state}
        rows = _MOVE.all(tx, uuids=sorted(by_uuid), b_number=number, b_from=state.value, **values)
        moved += [by_uuid[row.uuid] for row in rows]
    if to not in CLAIMING:
        claims.release(
            tx,
            change,
            [
                (p.where.host_id, p.where.resources)
                for p in moved
                if isinstance(p.where, ClaimedHost) and p.state in CLAIMING
            ],
        )
    left = {p.where.host_id for p in moved if isinstance(p.where, ClaimedHost)}
    if to is PlacementState.RELEASING and left:
        claims.touch_uses(tx, change, sorted(left))
    if to not in OCCUPYING:
        group_places.leave(tx, sorted(p.uuid for p in moved if p.state in OCCUPYING))
    return moved


def _check_legal(placements: Sequence[Placement], to: PlacementState) -> None:
    for kind, state in {(type(p.where), p.state) for p in placements}:
        moves = LOCAL_MOVES if kind is ClaimedHost else CHILD_MOVES
        if Move(state, to) not in moves:
            raise IllegalMove(f"A placement ({kind.__name__}) was to move from {state.value} to {to.value}.")


def shorten_holds(tx: Connection, keys: Sequence[tuple[str, int]], until: float) -> None:
    """Shorten the holds of HELD placements among `keys` to `until` (epoch seconds) at the latest."""
    rows = [{"b_uuid": uuid, "b_number": number, "b_until": until} for uuid, number in keys]
    _SHORTEN.run_many(tx, rows)


def postpone(tx: Connection, placements: Sequence[Placement], due_after: Callable[[int], float]) -> None:
    """Count one more unanswered call of each; `due_after` maps the count to the time of the next call."""
    grouped: dict[tuple[int, PlacementState, int], list[str]] = {}
    for p in placements:
        grouped.setdefault((p.number, p.state, p.calls + 1), []).append(p.uuid)
    for (number, state, calls), uuids in grouped.items():
        which = {"uuids": uuids, "b_number": number, "b_from": state.value}
        _POSTPONE.run(tx, **which, b_calls=calls, due_at=due_after(calls))


def from_row(row: Any) -> Placement:
    """Make the placement of a row that has its columns."""
    where: Where
    if row.kind == "host":
        where = ClaimedHost(row.host_id, orjson.loads(row.resources))
    else:
        where = AskedChild(row.child_id, tuple(orjson.loads(row.blobs)))
    return Placement(
        uuid=row.uuid,
        number=row.number,
        caller_id=row.caller_id,
        reservation_id=row.reservation_id,
        where=where,
        state=_STATE_OF[row.state],
        reason=row.reason,
        hold_expires_at=row.hold_expires_at,
        retained_until=row.retained_until,
        entry_key=row.entry_key or "",
        calls=row.calls,
        is_fetched=bool(row.is_fetched),
    )
