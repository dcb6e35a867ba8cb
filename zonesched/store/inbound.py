"""Builds that parents sent, by the parent's key (uuid, attempt), and the placement of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.build_plan import ChildBlob, EntryPlace
from zonesched.model.place import LocalPlace
from zonesched.model.placement import Attempt
from zonesched.store import claims, placements
from zonesched.store import tables as t
from zonesched.store.placements import Placement
from zonesched.store.prepared import Prepared, one_of

COLUMNS = t.inbound_builds.c
_INSERT = Prepared(sa.insert(t.inbound_builds))
_OF_INSTANCES = Prepared(
    sa.select(t.inbound_builds).where(
        COLUMNS.caller_id == sa.bindparam("caller"), one_of(COLUMNS.uuid, "uuids")
    )
)
_place, _instance = placements.COLUMNS, t.instances.c
_OF_PLACE = Prepared(
    sa.select(t.inbound_builds).where(
        COLUMNS.uuid == sa.bindparam("uuid"),
        COLUMNS.caller_id == sa.bindparam("caller"),
        COLUMNS.number == sa.bindparam("number"),
    )
)
_NUMBERS = Prepared(
    sa.select(COLUMNS.uuid, COLUMNS.caller_id, COLUMNS.number, COLUMNS.attempt).where(
        one_of(COLUMNS.uuid, "uuids")
    )
)
_PLACES = Prepared(
    sa.select(
        COLUMNS.uuid.label("build_uuid"),
        COLUMNS.attempt,
        COLUMNS.reservation_id.label("build_reservation_id"),
        *placements.WITHOUT_SENT_BLOBS,
    )
    .join_from(
        t.inbound_builds,
        t.placements,
        sa.and_(_place.uuid == COLUMNS.uuid, _place.number == COLUMNS.number),
        isouter=True,
    )
    .where(COLUMNS.caller_id == sa.bindparam("caller"), one_of(COLUMNS.uuid, "uuids"))
)
_FORGET_REST = Prepared(
    sa.update(t.inbound_builds)
    .where(COLUMNS.caller_id == sa.bindparam("caller"), one_of(COLUMNS.uuid, "uuids"))
    .where(COLUMNS.attempt == sa.bindparam("b_attempt"), COLUMNS.rest != "[]")
    .values(rest="[]")
)

NOTHING_LEFT = "[]"
"""The column `rest` of a build that has no entry left to try."""

_PRUNE = Prepared(
    sa.delete(t.inbound_builds).where(COLUMNS.retained_until < sa.bindparam("now"), t.IS_TOMBSTONE)
)


@dataclass(frozen=True)
class RestEntry:
    """Opened entry that has not been tried yet. `key`: its key of single use; `expires_at`: epoch seconds."""

    place: EntryPlace
    key: str
    expires_at: float


@dataclass(frozen=True)
class InboundBuild:
    """One row. `number`: of its placement, 0 where a cancel came first. `rest`: entries still to try."""

    uuid: str
    caller_id: str
    attempt: int
    reservation_id: str
    number: int
    rest: tuple[RestEntry, ...]
    retained_until: float

    @property
    def key(self) -> Attempt:
        return Attempt(self.uuid, self.attempt)

    def placed(self, number: int, rest: tuple[RestEntry, ...]) -> InboundBuild:
        """Return the build with a placement; `dataclasses.replace` takes several times as long."""
        other = object.__new__(InboundBuild)
        vars(other).update(vars(self), number=number, rest=rest)
        return other


class KnownAttempt(NamedTuple):
    """Attempt with its placement, whose blobs are left out once they are sent.

    One that was cancelled before it arrived has none.
    """

    reservation_id: str
    place: Placement | None


def insert(tx: Connection, builds: Sequence[InboundBuild]) -> None:
    """Add rows; raises IntegrityError for a key that exists."""
    _INSERT.run_many(tx, [_to_row(b) for b in builds])


def update(tx: Connection, builds: Sequence[InboundBuild]) -> None:
    """Store the present placement and the untried entries of each build."""
    rows = [
        {
            "b_uuid": b.uuid,
            "b_caller": b.caller_id,
            "b_attempt": b.attempt,
            "b_number": b.number,
            "b_rest": _rest_text(b.rest),
        }
        for b in builds
    ]
    if rows:
        tx.execute(
            sa.update(t.inbound_builds)
            .where(COLUMNS.uuid == sa.bindparam("b_uuid"))
            .where(COLUMNS.caller_id == sa.bindparam("b_caller"))
            .where(COLUMNS.attempt == sa.bindparam("b_attempt"))
            .values(number=sa.bindparam("b_number"), rest=sa.bindparam("b_rest")),
            rows,
        )


def give_place(tx: Connection, build: InboundBuild) -> None:
    """Store a build with its placement. Another build that had this placement is gone: no place is of two."""
    this = sa.and_(COLUMNS.uuid == build.uuid, COLUMNS.caller_id == build.caller_id)
    others = sa.and_(this, COLUMNS.number == build.number, COLUMNS.attempt != build.attempt)
    tx.execute(sa.update(t.inbound_builds).where(others).values(number=0, rest=NOTHING_LEFT))
    if build.key in read(tx, build.caller_id, [build.uuid]):
        update(tx, [build])
    else:
        insert(tx, [build])


def forget_rest(tx: Connection, caller_id: str, attempts: Iterable[Attempt]) -> None:
    """Delete the untried entries of these attempts; those of other attempts of the instances stay."""
    uuids: defaultdict[int, list[str]] = defaultdict(list)
    for uuid, attempt in attempts:
        uuids[attempt].append(uuid)
    for attempt, some in sorted(uuids.items()):
        _FORGET_REST.run(tx, caller=caller_id, b_attempt=attempt, uuids=some)


def read(tx: Connection, caller_id: str, uuids: Sequence[str]) -> Mapping[Attempt, InboundBuild]:
    """Return all builds that this caller sent for these instances, by attempt."""
    rows = _OF_INSTANCES.all(tx, caller=caller_id, uuids=uuids)
    return {build.key: build for build in map(_from_row, rows)}


def known_attempts(tx: Connection, caller_id: str, uuids: Sequence[str]) -> Mapping[Attempt, KnownAttempt]:
    """Return all attempts that this caller sent for these instances."""
    return {
        Attempt(row.build_uuid, row.attempt): KnownAttempt(
            row.build_reservation_id, None if row.uuid is None else placements.from_row(row)
        )
        for row in _PLACES.all(tx, caller=caller_id, uuids=uuids)
    }


def rest_hosts(tx: Connection, uuids: Sequence[str]) -> list[str]:
    """Return the local hosts among the untried entries of these instances."""
    found: set[str] = set()
    for some in claims.chunks(uuids):
        statement = sa.select(COLUMNS.rest).where(COLUMNS.uuid.in_(some), COLUMNS.rest != NOTHING_LEFT)
        for text in tx.execute(statement).scalars():
            found.update(fields[0] for fields in orjson.loads(text) if fields[0])
    return sorted(found)


def of_place(tx: Connection, caller_id: str, uuid: str, number: int) -> InboundBuild | None:
    """Return the build that has this placement, None where there is none."""
    row = _OF_PLACE.first(tx, uuid=uuid, caller=caller_id, number=number)
    return None if row is None else _from_row(row)


def attempts_of_places(tx: Connection, uuids: Sequence[str]) -> Mapping[tuple[str, str, int], int]:
    """Return the attempts that have a placement of these instances, by caller, uuid and number."""
    rows = _NUMBERS.all(tx, uuids=uuids)
    return {(row.caller_id, row.uuid, row.number): row.attempt for row in rows if row.number}


def prune(tx: Connection, now: float) -> None:
    """Delete tombstones of builds that were never placed, once their parent cannot repeat them."""
    _PRUNE.run(tx, now=now)


def _rest_text(rest: Sequence[RestEntry]) -> str:
    return orjson.dumps([[*_place_fields(r.place), r.key, r.expires_at] for r in rest]).decode()


def _place_fields(place: EntryPlace) -> tuple[str, str, str]:
    """Split a place into host id, child id and blob; "" for a part that it does not have."""
    match place:
        case LocalPlace(host_id):
            return (host_id, "", "")
        case ChildBlob(child_id, blob):
            return ("", child_id, blob)


def _rest_entry(host_id: str, child_id: str, blob: str, key: str, expires_at: float) -> RestEntry:
    place = LocalPlace(host_id) if host_id else ChildBlob(child_id, blob)
    return RestEntry(place, key, expires_at)


def _to_row(b: InboundBuild) -> dict[str, Any]:
    return {
        "uuid": b.uuid,
        "caller_id": b.caller_id,
        "attempt": b.attempt,
        "reservation_id": b.reservation_id,
        "number": b.number,
        "rest": _rest_text(b.rest),
        "retained_until": b.retained_until,
    }


def _from_row(row: Any) -> InboundBuild:
    return InboundBuild(
        uuid=row.uuid,
        caller_id=row.caller_id,
        attempt=row.attempt,
        reservation_id=row.reservation_id,
        number=row.number,
        rest=tuple(_rest_entry(*fields) for fields in orjson.loads(row.rest)),
        retained_until=row.retained_until,
    )


def ids_of_caller(tx: Connection, caller_id: str, ids: Sequence[str]) -> frozenset[str]:
    """Return the ids that name an instance, a reservation or a group of this caller's instances."""
    found: set[str] = set()
    for column in (_instance.uuid, _instance.reservation_id, _instance.group_id):
        for some in claims.chunks(ids):
            statement = sa.select(column).where(_instance.caller_id == caller_id, column.in_(some)).distinct()
            found.update(tx.execute(statement).scalars())
    return frozenset(found)
