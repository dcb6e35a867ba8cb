"""Instances of this zone's own users and of its parents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.observed_state import Power
from zonesched.model.placement import BUILDING_STATUSES, CLAIMING, ENDED_STATUSES, InstanceStatus
from zonesched.model.present_request import AS_REQUESTED, PresentForm
from zonesched.model.request_spec import Flavor, Image, RequestSpec
from zonesched.store import built_times, instance_actions, moves, outcomes
from zonesched.store import tables as t
from zonesched.store.alike_rows import AlikeRows
from zonesched.store.instance_states import PRESENT_FLAVOR, flavor_from_text, image_from_text
from zonesched.store.outcomes import BecameActive, BecameError, InstancesAccepted
from zonesched.store.prepared import Prepared, is_in, one_of

COLUMNS = t.instances.c
# A dict: an enumeration's own look-up takes as long as the rest of a row.
_STATUS_OF = {status.value: status for status in InstanceStatus}
_INSERT = Prepared(sa.insert(t.instances))
_ALIKE = AlikeRows(t.instances, ("uuid", "position", "name"))
_BY_UUID = Prepared(
    sa.select(t.instances)
    .where(one_of(COLUMNS.uuid, "uuids"))
    .order_by(COLUMNS.reservation_id, COLUMNS.position)
)
_CURRENT_STATUSES = Prepared(
    sa.select(COLUMNS.uuid, COLUMNS.status, COLUMNS.attempt).where(one_of(COLUMNS.uuid, "uuids"))
)
_UPDATED_AT = Prepared(sa.select(COLUMNS.uuid, COLUMNS.updated_at).where(one_of(COLUMNS.uuid, "uuids")))
_IN_RESERVATION = (
    COLUMNS.reservation_id == sa.bindparam("reservation"),
    COLUMNS.caller_id == sa.bindparam("caller"),
)
_OF_RESERVATION = Prepared(sa.select(t.instances).where(*_IN_RESERVATION).order_by(COLUMNS.position))
_observed_power = t.instance_states.c.observed_power
_MEMBERS = Prepared(
    sa.select(
        COLUMNS.uuid,
        COLUMNS.status,
        COLUMNS.attempt,
        COLUMNS.reason,
        COLUMNS.failed_builds,
        (sa.func.coalesce(_observed_power, "") == Power.OFFLOADED.value).label("is_unshelving"),
        PRESENT_FLAVOR.label("flavor"),
        sa.func.coalesce(t.instance_states.c.image, "").label("image"),
    )
    .outerjoin_from(t.instances, t.instance_states, t.instance_states.c.uuid == COLUMNS.uuid)
    .where(*_IN_RESERVATION)
    .order_by(COLUMNS.position)
)
# One in ERROR that is deleted has ended before.
_WHEN_ENDED = sa.case((is_in(COLUMNS.status, ENDED_STATUSES), COLUMNS.ended_at))
_STATUS = {
    "status": sa.bindparam("b_status"),
    "updated_at": sa.bindparam("now"),
    "ended_at": sa.func.coalesce(_WHEN_ENDED, sa.bindparam("now")),
    "changed_seq": sa.bindparam("change"),
}
_SET_ATTEMPT = Prepared(
    sa.update(t.instances)
    .where(one_of(COLUMNS.uuid, "uuids"))
    .values(
        attempt=sa.bindparam("b_attempt"),
        # The reason of a failed build stays until a new placement: none may be found.
        reason=sa.case((is_in(COLUMNS.status, BUILDING_STATUSES), COLUMNS.reason), else_=""),
        **_STATUS,
    )
)
_SET_STATUS = (
    sa.update(t.instances)
    .where(one_of(COLUMNS.uuid, "uuids"))
    .values(reason=sa.bindparam("b_reason"), **_STATUS)
)
_SET_ANY_STATUS = Prepared(_SET_STATUS)
_END_ATTEMPT = Prepared(
    sa.update(t.instances)
    .where(COLUMNS.uuid == sa.bindparam("b_uuid"), COLUMNS.attempt == sa.bindparam("b_attempt"))
    .where(is_in(COLUMNS.status, BUILDING_STATUSES))
    .values(reason=sa.bindparam("b_reason"), **_STATUS)
)
_TOUCH = Prepared(
    sa.update(t.instances)
    .where(one_of(COLUMNS.uuid, "uuids"))
    .values(updated_at=sa.bindparam("now"), changed_seq=sa.bindparam("change"))
)
_FROM = _SET_STATUS.where(one_of(COLUMNS.status, "only_from"))
_SET_STATUS_FROM = Prepared(_FROM)
_BECOME_ACTIVE = Prepared(_SET_STATUS.returning(COLUMNS.created_at, COLUMNS.uuid))
_BECOME_ACTIVE_FROM = Prepared(_FROM.returning(COLUMNS.created_at, COLUMNS.uuid))


@dataclass(frozen=True)
class Instance:
    """One row. `attempt` is the number of its present placement, 0 before the first.

    `reason`: the reason code of its end, or of its last failed build until it is placed again.

    `group_id` ("" without a group) comes from its request; `flavor_id`, `vcpus`, `ram_mb` and `image_key`
    are of its present flavor and image. `ended_at`: when one in ERROR or DELETED ended; unused in others.
    """

    uuid: str
    caller_id: str
    project_id: str
    user_id: str
    reservation_id: str
    position: int
    name: str
    passthrough: Mapping[str, Any]
    flavor_id: str
    image_key: str
    group_id: str
    status: InstanceStatus
    reason: str
    attempt: int
    created_at: float
    updated_at: float
    failed_builds: int = 0
    ended_at: float = 0.0
    vcpus: int = 0
    ram_mb: int = 0


def of_request(
    spec: RequestSpec,
    *,
    uuid: str,
    reservation_id: str,
    caller_id: str,
    user_id: str,
    position: int,
    name: str,
    now: float,
    passthrough: Mapping[str, Any] | None = None,
    status: InstanceStatus = InstanceStatus.BUILD,
    attempt: int = 0,
) -> Instance:
    """Make the first row of one instance of a request. `passthrough`: members of the user's own body."""
    return Instance(
        uuid=uuid,
        caller_id=caller_id,
        project_id=spec.project_id,
        user_id=user_id,
        reservation_id=reservation_id,
        position=position,
        name=name,
        passthrough=passthrough or {},
        flavor_id=spec.flavor.id,
        image_key=spec.image_key,
        group_id=spec.group_id,
        status=status,
        reason="",
        attempt=attempt,
        created_at=now,
        updated_at=now,
        ended_at=now,
        vcpus=spec.flavor.vcpus,
        ram_mb=spec.flavor.ram_mb,
    )


class Member(NamedTuple):
    """Progress of one instance of a boot, read by the worker after each step; fields as in `Instance`.

    `is_unshelving`: it was built once, is offloaded, and where its status is BUILD it is to be placed again.
    `form`: the flavor and the image that it has by now.
    """

    uuid: str
    status: InstanceStatus
    attempt: int
    reason: str
    failed_builds: int
    is_unshelving: bool = False
    form: PresentForm = AS_REQUESTED


class CurrentStatus(NamedTuple):
    """Status of an instance, and the number of its present placement."""

    status: InstanceStatus
    attempt: int


def insert(tx: Connection, change: int, instances: Sequence[Instance]) -> None:
    """Add rows."""
    _INSERT.send_many(tx, [_to_row(i) for i in instances], changed_seq=change)
    outcomes.note(tx, InstancesAccepted(len(instances)))


def insert_alike(tx: Connection, change: int, like: Instance, names: Mapping[str, str]) -> None:
    """Add the instances of one boot: by uuid their names, in the order of their positions.

    In all else they are as `like`.
    """
    shared = _to_row(like) | {"changed_seq": change}
    _ALIKE.insert(tx, shared, [(uuid, at, name) for at, (uuid, name) in enumerate(names.items())])
    outcomes.note(tx, InstancesAccepted(len(names)))


def read_reservation(tx: Connection, caller_id: str, reservation_id: str) -> list[Instance]:
    """Return the instances of a caller's reservation, in order of their position."""
    return [from_row(row) for row in _OF_RESERVATION.all(tx, reservation=reservation_id, caller=caller_id)]


def members(tx: Connection, caller_id: str, reservation_id: str) -> list[Member]:
    """Return the progress of each instance of a caller's reservation, in order of their position."""
    rows = _MEMBERS.all(tx, reservation=reservation_id, caller=caller_id)
    return [
        Member(uuid, _STATUS_OF[status], attempt, reason, failed, bool(offloaded), _form(flavor, image))
        for uuid, status, attempt, reason, failed, offloaded, flavor, image in rows
    ]


def _form(flavor: str, image: str) -> PresentForm:
    if not (flavor or image):
        return AS_REQUESTED
    return PresentForm(flavor_from_text(flavor), image_from_text(image))


def read_by_uuid(tx: Connection, uuids: Sequence[str]) -> Mapping[str, Instance]:
    """Read the instances of these uuids that exist, by uuid."""
    return {i.uuid: i for i in map(from_row, _BY_UUID.all(tx, uuids=uuids))}


def set_details(
    tx: Connection, change: int, uuid: str, name: str, passthrough: Mapping[str, Any], now: float
) -> None:
    """Set the name and the passthrough of an instance."""
    text = orjson.dumps(dict(passthrough)).decode()
    values = {"name": name, "passthrough": text, "updated_at": now, "changed_seq": change}
    tx.execute(sa.update(t.instances).where(COLUMNS.uuid == uuid).values(**values))


def set_image(tx: Connection, change: int, uuid: str, image: Image) -> None:
    """Note the image of a rebuilt instance, by whose properties the instances of its host are counted."""
    tx.execute(sa.update(t.instances).where(COLUMNS.uuid == uuid).values(image_key=image.key))
    _touch_hosts(tx, change, uuid)


def set_flavor(tx: Connection, change: int, uuid: str, flavor: Flavor) -> None:
    """Note the flavor of a resized instance, by which those of its host and its project are counted."""
    values = {"flavor_id": flavor.id, "vcpus": flavor.vcpus, "ram_mb": flavor.ram_mb}
    tx.execute(sa.update(t.instances).where(COLUMNS.uuid == uuid).values(**values))
    _touch_hosts(tx, change, uuid)


def _touch_hosts(tx: Connection, change: int, uuid: str) -> None:
    on_host = sa.select(t.placements.c.host_id).where(
        t.placements.c.uuid == uuid, is_in(t.placements.c.state, CLAIMING)
    )
    tx.execute(sa.update(t.hosts).where(t.hosts.c.id.in_(on_host)).values(changed_seq=change))


def updated_at(tx: Connection, uuids: Sequence[str]) -> Mapping[str, float]:
    """Read when the instances of these uuids were last changed (epoch seconds), by uuid."""
    return {row.uuid: row.updated_at for row in _UPDATED_AT.all(tx, uuids=uuids)}


def current_statuses(tx: Connection, uuids: Sequence[str]) -> Mapping[str, CurrentStatus]:
    """Read the current status of the instances of these uuids that exist, by uuid."""
    rows = _CURRENT_STATUSES.all(tx, uuids=uuids)
    return {row.uuid: CurrentStatus(_STATUS_OF[row.status], row.attempt) for row in rows}


def set_attempts(
    tx: Connection, change: int, attempts: Mapping[str, int], status: InstanceStatus, now: float
) -> None:
    """Set the present placement of each instance, and its status.

    An ended instance loses its reason; an instance whose build has failed keeps it.
    """
    grouped: defaultdict[int, list[str]] = defaultdict(list)
    for uuid, number in attempts.items():
        grouped[number].append(uuid)
    for number, uuids in grouped.items():
        _SET_ATTEMPT.send(tx, uuids=uuids, b_attempt=number, b_status=status.value, now=now, change=change)


def set_status(
    tx: Connection,
    change: int,
    uuids: Sequence[str],
    status: InstanceStatus,
    now: float,
    *,
    reason: str = "",
    only_from: Collection[InstanceStatus] = (),
) -> int:
    """Set the status of instances, from those in `only_from` if given; return how many changed.

    The open actions and the moves of instances that end so end with them.
    """
    if not uuids:
        return 0
    values = {"b_status": status.value, "b_reason": reason, "now": now, "change": change}
    allowed = {"only_from": [s.value for s in only_from]} if only_from else {}
    if status is InstanceStatus.ACTIVE:
        active = _BECOME_ACTIVE_FROM if only_from else _BECOME_ACTIVE
        rows = active.all(tx, uuids=uuids, **allowed, **values)
        ages_s = tuple(max(0.0, now - row.created_at) for row in rows)
        outcomes.note(tx, BecameActive(ages_s, tuple(row.uuid for row in rows), now))
        return len(rows)
    if status in ENDED_STATUSES:
        built_times.note(tx, uuids)
    statement = _SET_STATUS_FROM if only_from else _SET_ANY_STATUS
    changed = statement.run(tx, uuids=uuids, **allowed, **values)
    if changed and status is InstanceStatus.ERROR:
        outcomes.note(tx, BecameError(reason, changed, tuple(uuids), now))
    if changed and status in ENDED_STATUSES:
        why = instance_actions.reason_of_end(status, reason)
        instance_actions.end_with_instances(tx, uuids, status, why, now)
        moves.end_with_instances(tx, uuids, status, why, now)
    return changed


def touch(tx: Connection, change: int, uuids: Sequence[str], now: float) -> None:
    """Mark instances as changed."""
    _TOUCH.send(tx, uuids=uuids, now=now, change=change)


def end_attempts(
    tx: Connection,
    change: int,
    attempts: Mapping[str, int],
    status: InstanceStatus,
    now: float,
    *,
    reason: str,
) -> None:
    """Set the status of unbuilt instances whose present placement still has the number in `attempts`."""
    rows = [{"b_uuid": uuid, "b_attempt": number} for uuid, number in sorted(attempts.items())]
    _END_ATTEMPT.run_many(tx, rows, b_status=status.value, b_reason=reason, now=now, change=change)


def begin_unshelve(tx: Connection, change: int, uuids: Sequence[str], now: float) -> None:
    """Let offloaded instances be placed again."""
    set_status(tx, change, uuids, InstanceStatus.BUILD, now, only_from=[InstanceStatus.OFFLOADED])


def forget_failed_builds(tx: Connection, uuids: Sequence[str]) -> None:
    """Give instances the builds of new ones."""
    if not uuids:
        return
    tx.execute(sa.update(t.instances).where(COLUMNS.uuid.in_(uuids)).values(failed_builds=0))


def note_failed_build(tx: Connection, uuid: str) -> int:
    """Count one more failed build of an instance; return the new count."""
    statement = (
        sa.update(t.instances)
        .where(COLUMNS.uuid == uuid)
        .values(failed_builds=COLUMNS.failed_builds + 1)
        .returning(COLUMNS.failed_builds)
    )
    return int(tx.execute(statement).scalar_one())


def _to_row(i: Instance) -> dict[str, Any]:
    return {
        **vars(i),
        "passthrough": orjson.dumps(dict(i.passthrough)).decode(),
        "status": i.status.value,
    }


def from_row(row: Any) -> Instance:
    """Make the instance of a row of the table."""
    return Instance(
        uuid=row.uuid,
        caller_id=row.caller_id,
        project_id=row.project_id,
        user_id=row.user_id,
        reservation_id=row.reservation_id,
        position=row.position,
        name=row.name,
        passthrough=orjson.loads(row.passthrough),
        flavor_id=row.flavor_id,
        image_key=row.image_key,
        group_id=row.group_id,
        status=_STATUS_OF[row.status],
        reason=row.reason,
        attempt=row.attempt,
        created_at=row.created_at,
        updated_at=row.updated_at,
        failed_builds=row.failed_builds,
        ended_at=row.ended_at,
        vcpus=row.vcpus,
        ram_mb=row.ram_mb,
    )
