"""Builds that a parent sent, by its own key (uuid, attempt): which placement stands for each here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.placement import Attempt
from zonesched.store import claims
from zonesched.store import tables as t

COLUMNS = t.inbound_builds.c
_OF_INSTANCES = sa.select(t.inbound_builds).where(
    COLUMNS.caller_id == sa.bindparam("caller"), COLUMNS.uuid.in_(sa.bindparam("uuids", expanding=True))
)


@dataclass(frozen=True)
class RestEntry:
    """An opened entry that has not been tried yet: a host here, or a child and its blob ("" for a host)."""

    host_id: str
    child_id: str
    blob: str
    key: str
    expires_at: float


@dataclass(frozen=True)
class InboundBuild:
    """One row. `number` 0: a cancel came first, nothing was ever placed. `rest`: entries still to try."""

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


def insert(tx: Connection, builds: Sequence[InboundBuild]) -> None:
    """Add rows; raises IntegrityError for a key that exists."""
    if builds:
        tx.execute(sa.insert(t.inbound_builds), [_to_row(b) for b in builds])


def update(tx: Connection, builds: Sequence[InboundBuild]) -> None:
    """Store the present placement and the rest of each build."""
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


def read(tx: Connection, caller_id: str, uuids: Sequence[str]) -> Mapping[Attempt, InboundBuild]:
    """All builds that this caller sent for these instances, by attempt."""
    found: dict[Attempt, InboundBuild] = {}
    for some in claims.chunks(uuids):
        rows = tx.execute(_OF_INSTANCES, {"caller": caller_id, "uuids": some})
        found |= {build.key: build for build in map(_from_row, rows)}
    return found


def present_attempts(tx: Connection, caller_id: str, uuids: Sequence[str]) -> Mapping[str, int]:
    """Which of the caller's attempts each of these instances is at; those it never sent are left out."""
    build, instance = COLUMNS, t.instances.c
    statement = (
        sa.select(build.uuid, sa.func.max(build.attempt))
        .join(t.instances, sa.and_(instance.uuid == build.uuid, instance.attempt == build.number))
        .group_by(build.uuid)
    )
    found: dict[str, int] = {}
    for some in claims.chunks(uuids):
        rows = tx.execute(statement.where(build.caller_id == caller_id, build.uuid.in_(some)))
        found |= {row[0]: row[1] for row in rows}
    return found


def prune(tx: Connection, now: float) -> None:
    """Forget builds that never were placed, or whose instance has ended, once nobody can repeat them."""
    tx.execute(sa.delete(t.inbound_builds).where(COLUMNS.retained_until < now, COLUMNS.number == 0))


def _rest_text(rest: Sequence[RestEntry]) -> str:
    return orjson.dumps([[r.host_id, r.child_id, r.blob, r.key, r.expires_at] for r in rest]).decode()


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
        rest=tuple(RestEntry(*fields) for fields in orjson.loads(row.rest)),
        retained_until=row.retained_until,
    )
