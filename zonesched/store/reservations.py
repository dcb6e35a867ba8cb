"""Reservations, and their leases: one worker at a time works on a reservation."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.errors import LeaseLost
from zonesched.model.decision_trace import NO_TRACE, DecisionTrace, trace_from_wire, trace_to_wire
from zonesched.model.request_spec import RequestSpec
from zonesched.model.request_wire import spec_from_row, spec_to_row
from zonesched.store import outcomes
from zonesched.store import tables as t
from zonesched.store.outcomes import BootAccepted
from zonesched.store.prepared import Prepared, Sent, one_of
from zonesched.store.sorted_json import sorted_json

COLUMNS = t.reservations.c


class ReservationState(enum.Enum):
    """OPEN: workers have work left. SETTLED: they have none. SERVED: a parent sent the reservation."""

    OPEN = "open"
    SETTLED = "settled"
    SERVED = "served"


_INSERT = Prepared(sa.insert(t.reservations))
_KEY = (COLUMNS.id == sa.bindparam("b_id"), COLUMNS.caller_id == sa.bindparam("b_caller"))
_LEASED = (*_KEY, COLUMNS.lease_number == sa.bindparam("b_number"))
_ONE = Prepared(sa.select(t.reservations).where(*_KEY))
_OF_IDEMPOTENCY_KEY = Prepared(
    sa.select(t.reservations).where(
        COLUMNS.caller_id == sa.bindparam("caller"),
        COLUMNS.project_id == sa.bindparam("project"),
        COLUMNS.idempotency_key == sa.bindparam("idempotency"),
    )
)
_TRACES_OF_OPEN = Prepared(
    sa.select(COLUMNS.caller_id, COLUMNS.id, COLUMNS.why)
    .where(COLUMNS.state == ReservationState.OPEN.value, COLUMNS.reason == sa.bindparam("reason"))
    .order_by(COLUMNS.caller_id, COLUMNS.id)
)
_OF_IDS = Prepared(
    sa.select(t.reservations).where(one_of(COLUMNS.id, "ids")).order_by(COLUMNS.created_at, COLUMNS.id)
)
_OF_PLACES = ("policy", "availability_zone", "hints", "filters", "filter_query")
_SPECS = Prepared(sa.select(COLUMNS.caller_id, COLUMNS.id, COLUMNS.spec).where(one_of(COLUMNS.id, "ids")))
_TRACES = Prepared(sa.select(COLUMNS.caller_id, COLUMNS.id, COLUMNS.why).where(one_of(COLUMNS.id, "ids")))
_LEASE = Prepared(
    sa.update(t.reservations)
    .where(*_KEY)
    .values(lease_number=sa.bindparam("number"), lease_expires_at=sa.bindparam("ends_at"))
)
_WAKE = Prepared(
    sa.update(t.reservations)
    .where(*_KEY, COLUMNS.state != ReservationState.SERVED.value)
    .values(state=ReservationState.OPEN.value, next_work_at=0.0, wakes=COLUMNS.wakes + 1)
)
_DUE = Prepared(
    sa.select(COLUMNS.id, COLUMNS.caller_id, COLUMNS.lease_number, COLUMNS.spec)
    .where(COLUMNS.state == ReservationState.OPEN.value)
    .where(COLUMNS.next_work_at <= sa.bindparam("now"), COLUMNS.lease_expires_at <= sa.bindparam("now"))
    .order_by(COLUMNS.next_work_at, COLUMNS.created_at, COLUMNS.id)
    .limit(1)
    .with_for_update(skip_locked=True)
)
_NEXT_DUE = Prepared(
    sa.select(
        sa.func.min(
            sa.case(
                (COLUMNS.lease_expires_at > COLUMNS.next_work_at, COLUMNS.lease_expires_at),
                else_=COLUMNS.next_work_at,
            )
        ).label("due_at")
    ).where(COLUMNS.state == ReservationState.OPEN.value)
)
_KEEP_LEASE = Prepared(
    sa.update(t.reservations).where(*_LEASED).values(lease_expires_at=sa.bindparam("expires_at"))
)
_NOT_WOKEN = COLUMNS.wakes == sa.bindparam("seen_wakes", type_=sa.Integer)
_GIVEN_BACK = {
    "state": sa.case((_NOT_WOKEN, sa.bindparam("to", type_=sa.String)), else_=ReservationState.OPEN.value),
    "next_work_at": sa.case((_NOT_WOKEN, sa.bindparam("due_at", type_=sa.Float)), else_=0.0),
    "lease_expires_at": 0.0,
    "settled_at": sa.bindparam("settled"),
}
_SELECTED = {
    "selects": COLUMNS.selects + sa.bindparam("counted", type_=sa.Integer),
    "why": sa.bindparam("trace"),
    "spec": sa.bindparam("weighed"),
    "reason": sa.bindparam("code"),
}
_GIVE_BACK = Prepared(sa.update(t.reservations).where(*_LEASED).values(**_GIVEN_BACK))
_NOTE_SELECT = Prepared(sa.update(t.reservations).where(*_LEASED).values(**_SELECTED))
_SETTLE = Prepared(sa.update(t.reservations).where(*_LEASED).values(**_GIVEN_BACK, **_SELECTED))


@dataclass(frozen=True)
class Reservation:
    """One row. `why`: the decision trace of its last select, with names of hosts and children.

    `next_work_at`: when a worker takes it up next (epoch seconds), while it is OPEN and not leased.
    """

    id: str
    caller_id: str
    project_id: str
    user_id: str
    spec: RequestSpec
    num_instances: int
    min_count: int
    state: ReservationState
    reason: str
    why: DecisionTrace
    selects: int
    idempotency_key: str
    fingerprint: str
    created_at: float
    wakes: int = 0
    next_work_at: float = 0.0


def of_request(
    spec: RequestSpec,
    *,
    reservation_id: str,
    caller_id: str,
    user_id: str,
    min_count: int,
    state: ReservationState,
    now: float,
    idempotency_key: str = "",
    fingerprint: str = "",
) -> Reservation:
    """Make the row of a request that no worker has begun yet."""
    return Reservation(
        id=reservation_id,
        caller_id=caller_id,
        project_id=spec.project_id,
        user_id=user_id,
        spec=spec,
        num_instances=spec.num_instances,
        min_count=min_count,
        state=state,
        reason="",
        why=NO_TRACE,
        selects=0,
        idempotency_key=idempotency_key,
        fingerprint=fingerprint,
        created_at=now,
    )


@dataclass(frozen=True)
class Lease:
    """Right of one worker to work on a reservation; a write under an old number is refused.

    `traced_by`: the id of the user's call, for logs.
    """

    reservation_id: str
    caller_id: str
    number: int
    duration_s: float
    traced_by: str = ""


def insert(tx: Connection, r: Reservation) -> None:
    """Add a row; raises IntegrityError for an id or an idempotency key that exists."""
    _INSERT.send(tx, **_to_row(r))
    _note_accepted(tx, r)


def insert_leased(tx: Connection, r: Reservation, now: float, duration_s: float) -> Lease:
    """Add a row as `insert` does, leased to the caller."""
    lease = Lease(r.id, r.caller_id, 1, duration_s, r.spec.traced_by)
    leased = {"lease_number": lease.number, "lease_expires_at": now + duration_s}
    _INSERT.send(tx, **_to_row(r) | leased)
    _note_accepted(tx, r)
    return lease


def _note_accepted(tx: Connection, r: Reservation) -> None:
    outcomes.note(tx, BootAccepted(is_of_parent=r.state is ReservationState.SERVED))


def _to_row(r: Reservation) -> dict[str, Any]:
    return {
        "id": r.id,
        "caller_id": r.caller_id,
        "project_id": r.project_id,
        "user_id": r.user_id,
        "spec": orjson.dumps(spec_to_row(r.spec)).decode(),
        "num_instances": r.num_instances,
        "min_count": r.min_count,
        "state": r.state.value,
        "reason": r.reason,
        "why": _trace_text(r.why),
        "selects": r.selects,
        "idempotency_key": r.idempotency_key or None,
        "fingerprint": r.fingerprint,
        "lease_number": 0,
        "lease_expires_at": 0.0,
        "next_work_at": r.next_work_at,
        "wakes": 0,
        "created_at": r.created_at,
        "settled_at": 0.0,
    }


def of_idempotency_key(
    tx: Connection, caller_id: str, project_id: str, idempotency_key: str
) -> Reservation | None:
    """Read the reservation that a project has made under this key; None where there is none yet."""
    row = _OF_IDEMPOTENCY_KEY.first(tx, caller=caller_id, project=project_id, idempotency=idempotency_key)
    return None if row is None else _from_row(row)


def read_ids(tx: Connection, ids: Sequence[str]) -> dict[tuple[str, str], Reservation]:
    """Read the reservations of these ids, by (caller id, id)."""
    found = map(_from_row, _OF_IDS.all(tx, ids=ids))
    return {(r.caller_id, r.id): r for r in found}


def specs(tx: Connection, ids: Sequence[str]) -> dict[tuple[str, str], RequestSpec]:
    """Read the requests of the reservations of these ids, by (caller id, id)."""
    rows = _SPECS.all(tx, ids=ids)
    return {(row.caller_id, row.id): spec_from_row(orjson.loads(row.spec)) for row in rows}


def asked_places(tx: Connection, ids: Sequence[str]) -> dict[tuple[str, str], str]:
    """Read what the boots of these ids ask of places beyond sizes, as a text for each, by (caller id, id)."""
    found = {(row.caller_id, row.id): orjson.loads(row.spec) for row in _SPECS.all(tx, ids=ids)}
    return {key: sorted_json({name: spec.get(name) for name in _OF_PLACES}) for key, spec in found.items()}


def traces(tx: Connection, ids: Sequence[str]) -> dict[tuple[str, str], DecisionTrace]:
    """Read the last decision traces of the reservations of these ids, by (caller id, id)."""
    rows = _TRACES.all(tx, ids=ids) if ids else []
    return {(row.caller_id, row.id): trace_from_wire(orjson.loads(row.why)) for row in rows}


def read_one(tx: Connection, caller_id: str, reservation_id: str) -> Reservation:
    """Read a caller's reservation, which must exist."""
    return _from_row(_ONE.all(tx, b_id=reservation_id, b_caller=caller_id)[0])


def find(tx: Connection, caller_id: str, reservation_id: str) -> Reservation | None:
    """Read a caller's reservation; None where there is none."""
    row = _ONE.first(tx, b_id=reservation_id, b_caller=caller_id)
    return None if row is None else _from_row(row)


def take_lease(tx: Connection, now: float, duration_s: float) -> Lease | None:
    """Lease the reservation that is due first; None when none is due."""
    row = _DUE.first(tx, now=now)
    if row is None:
        return None
    traced_by = spec_from_row(orjson.loads(row.spec)).traced_by
    lease = Lease(row.id, row.caller_id, row.lease_number + 1, duration_s, traced_by)
    _LEASE.run(tx, b_id=row.id, b_caller=row.caller_id, number=lease.number, ends_at=now + duration_s)
    return lease


def next_due(tx: Connection) -> float:
    """Return when the next open reservation is due (epoch seconds; infinity when there is none)."""
    found = _NEXT_DUE.first(tx).due_at
    return float("inf") if found is None else float(found)


def keep_lease(tx: Connection, lease: Lease, now: float) -> None:
    """Renew the lease: the first statement of every write of a worker. Raises LeaseLost."""
    kept = _KEEP_LEASE.run(tx, **_key(lease), expires_at=now + lease.duration_s)
    if not kept:
        raise LeaseLost(f"Lease {lease.number} of reservation {lease.reservation_id} is over.")


def give_back(
    tx: Connection, lease: Lease, state: ReservationState, now: float, next_work_at: float, seen_wakes: int
) -> None:
    """End the lease; does nothing when it is already over.

    A wake-up since the worker last read the rows (the count is not `seen_wakes`) makes the boot due at once.
    """
    settled_at = now if state is ReservationState.SETTLED else 0.0
    _GIVE_BACK.run(
        tx, **_key(lease), seen_wakes=seen_wakes, to=state.value, due_at=next_work_at, settled=settled_at
    )


def wake(tx: Connection, caller_id: str, reservation_id: str) -> None:
    """Make a reservation due now, after an event that it waits for."""
    _WAKE.run(tx, b_id=reservation_id, b_caller=caller_id)


def traces_of_open(tx: Connection, reason: str) -> list[tuple[str, str, DecisionTrace]]:
    """Return caller id, id and last decision trace of each OPEN reservation with this reason code."""
    found = _TRACES_OF_OPEN.all(tx, reason=reason)
    return [(row.caller_id, row.id, trace_from_wire(orjson.loads(row.why))) for row in found]


def place_again(tx: Connection, caller_id: str, reservation_id: str) -> None:
    """Make a reservation due now after a failed build, with the select count of a new boot."""
    wake(tx, caller_id, reservation_id)
    tx.execute(
        sa.update(t.reservations)
        .where(COLUMNS.id == reservation_id, COLUMNS.caller_id == caller_id)
        .values(selects=0)
    )


def note_select(
    tx: Connection, lease: Lease, why: DecisionTrace, spec: RequestSpec, reason: str, *, counts: bool = True
) -> None:
    """Count one more select if it `counts`; store its weighing, decision trace and reason code.

    Does nothing when the lease is over.
    """
    _NOTE_SELECT.run(tx, **_key(lease), **_selected(why, spec, reason, counted=int(counts)))


def settle(
    tx: Connection,
    lease: Lease,
    why: DecisionTrace,
    spec: RequestSpec,
    reason: str,
    now: float,
    seen_wakes: int,
) -> Sent:
    """Note a select and end the lease as SETTLED, in one; writes no row if it is over."""
    done = {"to": ReservationState.SETTLED.value, "due_at": now, "settled": now, "seen_wakes": seen_wakes}
    return _SETTLE.send(tx, **_key(lease), **_selected(why, spec, reason), **done)


def _selected(why: DecisionTrace, spec: RequestSpec, reason: str, counted: int = 1) -> dict[str, Any]:
    weighed = orjson.dumps(spec_to_row(spec)).decode()
    return {"trace": _trace_text(why), "weighed": weighed, "code": reason, "counted": counted}


def note_reason(tx: Connection, lease: Lease, reason: str) -> None:
    """Replace the reason code of the last select; does nothing when the lease is over."""
    tx.execute(
        sa.update(t.reservations)
        .where(COLUMNS.id == lease.reservation_id, COLUMNS.caller_id == lease.caller_id)
        .where(COLUMNS.lease_number == lease.number)
        .values(reason=reason)
    )


def _key(lease: Lease) -> dict[str, Any]:
    return {"b_id": lease.reservation_id, "b_caller": lease.caller_id, "b_number": lease.number}


def _trace_text(trace: DecisionTrace) -> str:
    return orjson.dumps(trace_to_wire(trace)).decode()


def _from_row(row: Any) -> Reservation:
    return Reservation(
        id=row.id,
        caller_id=row.caller_id,
        project_id=row.project_id,
        user_id=row.user_id,
        spec=spec_from_row(orjson.loads(row.spec)),
        num_instances=row.num_instances,
        min_count=row.min_count,
        state=ReservationState(row.state),
        reason=row.reason,
        why=trace_from_wire(orjson.loads(row.why)),
        selects=row.selects,
        idempotency_key=row.idempotency_key or "",
        fingerprint=row.fingerprint,
        created_at=row.created_at,
        wakes=row.wakes,
        next_work_at=row.next_work_at,
    )


def postpone(tx: Connection, lease: Lease, next_work_at: float) -> None:
    """End the lease with its work undone, due again at `next_work_at`; does nothing when it is already over.

    Later writes under this lease are refused.
    """
    tx.execute(
        sa.update(t.reservations)
        .where(COLUMNS.id == lease.reservation_id, COLUMNS.caller_id == lease.caller_id)
        .where(COLUMNS.lease_number == lease.number)
        .values(lease_number=lease.number + 1, lease_expires_at=0.0, next_work_at=next_work_at)
    )
