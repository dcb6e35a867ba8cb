"""The work of an agent's service: confirmed and parked placements of living instances on its hosts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.agent_instances import DesiredInstance
from zonesched.model.instance_flavor import flavor_of
from zonesched.model.instance_image import image_of
from zonesched.model.move_steps import MoveKind, MoveState
from zonesched.model.observed_state import Observed, Power
from zonesched.model.placement import LIVING_STATUSES, Attempt, InstanceStatus, PlacementState
from zonesched.model.request_spec import RequestSpec
from zonesched.model.request_wire import spec_from_row
from zonesched.store import identity, instance_states, placements
from zonesched.store import tables as t
from zonesched.store.placements import Placement
from zonesched.store.prepared import Prepared, is_in, one_of, unindexed

_host, _place, _instance, _move = t.hosts.c, t.placements.c, t.instances.c, t.moves.c
_IS_PRESENT = sa.and_(_place.state == PlacementState.CONFIRMED.value, _instance.attempt == _place.number)
_DESIRED = Prepared(
    sa.select(
        _place.uuid,
        _place.number,
        _host.name,
        _instance.name.label("instance_name"),
        _place.caller_id,
        _place.reservation_id,
        _instance.status,
        _place.is_fetched,
        _place.state.label("place"),
        _move.state.label("move"),
        _move.kind.label("move_kind"),
        _move.from_number,
        _move.to_number,
        *[c for c in t.instance_states.c if c.name != "uuid"],
    )
    .join(t.hosts, _host.id == _place.host_id)
    .join(t.instances, _instance.uuid == _place.uuid)
    .outerjoin(t.instance_states, t.instance_states.c.uuid == _place.uuid)
    .outerjoin(t.moves, sa.and_(_move.uuid == _place.uuid, t.MOVE_IS_LIVING))
    .where(_host.service_id == sa.bindparam("service"))
    .where(sa.or_(_IS_PRESENT, _place.state == PlacementState.PARKED.value))
    .where(is_in(_instance.status, LIVING_STATUSES))
    .order_by(_host.name, _place.uuid)
)
_reservation = t.reservations.c
_SPECS = Prepared(
    sa.select(_reservation.caller_id, _reservation.id, _reservation.spec).where(
        one_of(_reservation.id, "ids")
    )
)
_NOTE_FETCHED = Prepared(
    sa.update(t.placements)
    .where(one_of(_place.uuid, "uuids"), _place.state == PlacementState.CONFIRMED.value)
    .values(is_fetched=sa.true())
)
_UNFETCHED = Prepared(
    sa.select(_place.uuid)
    .join(t.hosts, _host.id == unindexed(_place.host_id))
    .where(one_of(_place.uuid, "uuids"), _host.service_id == sa.bindparam("service"))
    .where(_place.state == PlacementState.CONFIRMED.value, sa.not_(_place.is_fetched))
)
_RELEASING = Prepared(
    sa.select(_place.uuid, _place.number)
    .join(t.hosts, _host.id == _place.host_id)
    .where(_host.service_id == sa.bindparam("service"))
    .where(_place.state == PlacementState.RELEASING.value)
    .order_by(_place.uuid, _place.number)
)
_OF_SERVICE = Prepared(
    sa.select(_host.id).where(_host.service_id == sa.bindparam("service"), one_of(_host.id, "ids"))
)

NOT_YET = Observed()
"""The observed state of an instance that is not built at its place: that of an earlier one is none of it."""


TAG_BYTES = 12


@dataclass(frozen=True)
class Work:
    """Instances that should run on a service's hosts, by host and instance, without those of known parts.

    `tags`: of each part, by the first digit of its instances' uuids. A part that changes gets another tag.
    """

    instances: Sequence[DesiredInstance]
    tags: Mapping[str, str]


def read(tx: Connection, service_id: str) -> list[Any]:
    """Read the rows of what should run on the service's hosts."""
    return _DESIRED.all(tx, service=service_id)


def unfetched(rows: Sequence[Any]) -> list[str]:
    """Return the uuids of the instances that the service's agent must not have before that is noted."""
    return sorted(row.uuid for row in rows if not _may_be_listed(row))


def listed(tx: Connection, rows: Sequence[Any], known: Collection[str] = ()) -> Work:
    """List what the rows say, without instances that are not noted as fetched; `known`: tags of parts."""
    parts: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        if _may_be_listed(row):
            parts[row.uuid[0]].append(row)
    # A zone that was started anew may be of another version, and answer otherwise from the same rows.
    start = identity.newest_start(tx).encode()
    tags = {digit: _tag(start, part) for digit, part in sorted(parts.items())}
    wanted = [row for row in rows if _may_be_listed(row) and tags[row.uuid[0]] not in known]
    specs = _specs(tx, sorted({row.reservation_id for row in wanted}))
    keys = [(row.caller_id, row.reservation_id) for row in wanted]
    # A part that lacks one may be completed by a repair, which changes none of these rows.
    incomplete = {row.uuid[0] for row, key in zip(wanted, keys, strict=True) if key not in specs}
    return Work(
        [_instance_of(row, specs[key]) for row, key in zip(wanted, keys, strict=True) if key in specs],
        {digit: tag for digit, tag in tags.items() if digit not in incomplete},
    )


def _may_be_listed(row: Any) -> bool:
    return bool(row.is_fetched) or row.place != PlacementState.CONFIRMED.value


def _tag(start: bytes, rows: Sequence[Any]) -> str:
    """Return the tag of a part; its rows and the zone's version tell all that its instances have."""
    content = orjson.dumps([tuple(row) for row in rows])
    return blake2b(content, digest_size=TAG_BYTES, key=start).hexdigest()


def _instance_of(row: Any, spec: RequestSpec) -> DesiredInstance:
    is_arriving = row.move == MoveState.ARRIVING.value and row.number == row.to_number
    # While no new place is claimed, it runs on.
    is_leaving = row.move == MoveState.LEAVING.value or row.place == PlacementState.PARKED.value
    state = instance_states.state_of(row)
    desired = state.desired
    if is_arriving and not state.is_pending:
        # One that ended by itself is not started by its move.
        desired = replace(desired, power=state.observed.power)
    if state.is_resizing and not is_arriving:
        # The agent of its new place is the one that can reach that generation.
        observed = state.observed
        desired = replace(desired, generation=observed.generation, power=observed.power)
    status = InstanceStatus.BUILD if is_arriving else InstanceStatus(row.status)
    is_resized = row.move_kind == MoveKind.RESIZE.value and row.number == row.to_number
    is_left = row.move is not None and row.number == row.from_number
    flavor = state.desired.flavor if is_resized else state.flavor if is_left else state.present_flavor
    return DesiredInstance(
        row.uuid,
        row.number,
        row.name,
        row.instance_name,
        flavor_of(flavor, spec.flavor),
        image_of(desired.image, spec.image),
        status,
        request_id=spec.traced_by,
        reservation_id=row.reservation_id,
        desired=desired,
        observed=_observed_here(state.observed, status),
        # A parked one runs nowhere, also where its move is lost.
        leaves_for=(row.to_number or row.number) if is_leaving else 0,
        moved_from=row.from_number if is_arriving else 0,
    )


def still_unfetched(tx: Connection, service_id: str, uuids: Sequence[str]) -> list[str]:
    """Select those of these instances that are confirmed on the service's hosts and not noted as fetched."""
    return [row.uuid for row in _UNFETCHED.all(tx, service=service_id, uuids=uuids)]


def note_fetched(tx: Connection, uuids: Sequence[str]) -> None:
    """Note that agents may know of these instances' confirmed places."""
    _NOTE_FETCHED.run(tx, uuids=uuids)


def releasing(tx: Connection, service_id: str) -> list[Attempt]:
    """Read the attempts that keep their claim on the service's hosts until its agent reports them gone."""
    return [Attempt(row.uuid, row.number) for row in _RELEASING.all(tx, service=service_id)]


def _observed_here(observed: Observed, status: InstanceStatus) -> Observed:
    """Return the observed state of an instance at this place, where no report may have told it yet."""
    is_built = status is InstanceStatus.ACTIVE and observed.power is not Power.OFFLOADED
    return observed if is_built else NOT_YET


def places_on(tx: Connection, host_id: str, states: Collection[PlacementState]) -> list[Placement]:
    """Read the placements on a local host that are in one of these states, in order of instance.

    One statement sees one moment: a place that changes from one of these states to another is there.
    """
    return placements.read(tx, _place.host_id == host_id, is_in(_place.state, states))


def hosts_of(tx: Connection, service_id: str, host_ids: Sequence[str]) -> frozenset[str]:
    """Select the hosts that belong to the service, by id."""
    return frozenset(row.id for row in _OF_SERVICE.all(tx, service=service_id, ids=host_ids))


def _specs(tx: Connection, reservation_ids: Sequence[str]) -> dict[tuple[str, str], RequestSpec]:
    if not reservation_ids:
        return {}
    rows = _SPECS.all(tx, ids=reservation_ids)
    return {(row.caller_id, row.id): spec_from_row(orjson.loads(row.spec)) for row in rows}
