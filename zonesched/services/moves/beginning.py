"""Accept the move of an instance: its row is written with the action that asked for it."""

from __future__ import annotations

from zonesched.errors import BadRequest, Conflict
from zonesched.model.action_table import Illegal
from zonesched.model.move_steps import MoveKind, MoveState
from zonesched.model.placement import LIVING_STATUSES, PlacementState
from zonesched.model.request_spec import GroupPolicy, Policy, RequestSpec, ServerGroup
from zonesched.seams import Clock
from zonesched.services.life import moving
from zonesched.store import host_states, instances, reservations
from zonesched.store.instances import Instance
from zonesched.store.moves import Move
from zonesched.store.placements import ClaimedHost, Placement
from zonesched.store.store import Transaction


def check(tx: Transaction, instance: Instance, place: Placement | None, asked_host: str) -> None:
    """Raise Conflict for a built instance that is not on a host of this zone, or that affinity keeps on it.

    Raises BadRequest for an `asked_host` that does not exist, or that has the instance.
    """
    if place is not None and not isinstance(place.where, ClaimedHost):
        raise Conflict(
            "A child zone has the server: an admin of the zone that has its host moves it there.",
            code="server_in_child",
            field="id",
        )
    if place is None or place.state is not PlacementState.CONFIRMED:
        raise Conflict("The server has no place.", code=Illegal.NOT_BUILT.value, field="id")
    if _has_affinity_group(tx, instance) or must_stay(tx, instance):
        message = "migrate: affinity with other servers keeps the server on its host."
        raise Conflict(message, code="affinity_stays", field="migrate")
    if asked_host and not host_states.read_named(tx, asked_host):
        message = f"migrate.host: there is no host {asked_host!r} in this zone."
        raise BadRequest(message, code="host_not_found", field="migrate.host")
    if asked_host and asked_host == _name_of_host(tx, place):
        message = "migrate.host: the server is on this host."
        raise BadRequest(message, code="host_has_server", field="migrate.host")


def must_stay(tx: Transaction, instance: Instance) -> bool:
    """Tell whether others of its boot live that were asked for on the same host."""
    if _spec(tx, instance).policy is not Policy.AFFINITY:
        return False
    members = instances.members(tx, instance.caller_id, instance.reservation_id)
    return any(one.uuid != instance.uuid and one.status in LIVING_STATUSES for one in members)


def begin(
    clock: Clock,
    tx: Transaction,
    change: int,
    instance: Instance,
    place: Placement | None,
    asked_host: str,
    action: int,
) -> None:
    """Write the move of a locked instance that `check` has passed; a worker looks for its new host.

    `action`: the number of the instance's action that asks for it.
    """
    assert place is not None
    now = clock.now()
    move = Move(
        id=clock.new_uuid(),
        uuid=instance.uuid,
        kind=MoveKind.MIGRATION,
        state=MoveState.PLACING,
        from_number=place.number,
        source_host=_name_of_host(tx, place),
        asked_host=asked_host,
        action=action,
        created_at=now,
        updated_at=now,
        next_step_at=now,
    )
    moving.begin(tx, change, instance, move, now)


def _has_affinity_group(tx: Transaction, instance: Instance) -> bool:
    group = _spec(tx, instance).group
    return isinstance(group, ServerGroup) and group.policy is GroupPolicy.AFFINITY


def _spec(tx: Transaction, instance: Instance) -> RequestSpec:
    return reservations.read_one(tx, instance.caller_id, instance.reservation_id).spec


def _name_of_host(tx: Transaction, place: Placement) -> str:
    """Return the name of a place's host; "" for a host that is gone."""
    assert isinstance(place.where, ClaimedHost)
    host = host_states.read_one(tx, place.where.host_id)
    return "" if host is None else host.name
