"""Actions on an instance as its owner sees them, its creation first.

No zone below is named, and hosts of this zone to its admin alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zonesched.errors import NotFound
from zonesched.model.caller import Caller, Role
from zonesched.model.desired_state import Result
from zonesched.model.instance_action import ActionView, own_request_id
from zonesched.model.placement import BUILDING_STATUSES, InstanceStatus
from zonesched.services.owners.scopes import scope_of
from zonesched.services.select import faults
from zonesched.services.zone import Zone
from zonesched.store import instance_actions, instance_states, moves, reservations, server_list
from zonesched.store.instance_actions import InstanceAction
from zonesched.store.instance_states import StoredState
from zonesched.store.instances import Instance
from zonesched.store.moves import Move
from zonesched.store.store import Transaction


def list_actions(zone: Zone, caller: Caller, uuid: str) -> list[ActionView]:
    """List the actions on an instance, newest first; on a deleted one until its rows are pruned.

    Raises NotFound.
    """
    scope = scope_of(zone.uuid, caller, all_tenants=True)

    def fn(tx: Transaction) -> list[ActionView]:
        found = server_list.find(tx, scope, uuid)
        if not found:
            raise NotFound("There is no such instance.", code="instance_not_found")
        (instance,) = found
        stored = instance_actions.of_instance(tx, uuid)
        details: dict[tuple[int, int], str] = {}
        if caller.role is Role.ADMIN:
            details = {(m.action, m.generation): _details(m) for m in moves.of_instance(tx, uuid)}
        views = [replace(_view(action), details=details.get(_key(action), "")) for action in stored]
        numbers = [action.number for action in stored]
        if 0 in numbers:
            return _told_apart(views, numbers)
        key = instance.caller_id, instance.reservation_id
        spec = reservations.read_ids(tx, [instance.reservation_id])[key].spec
        state = instance_states.read(tx, [uuid]).get(uuid)
        views.append(_creation(instance, spec.traced_by or spec.request_id, state))
        return _told_apart(views, [*numbers, 0])

    return zone.store.read(fn)


def show_action(zone: Zone, caller: Caller, uuid: str, request_id: str) -> ActionView:
    """Show the action that a request asked for. Raises NotFound."""
    for action in list_actions(zone, caller, uuid):
        if action.request_id == request_id:
            return action
    raise NotFound("There is no such action.", code="action_not_found", field="request_id")


def _told_apart(views: Sequence[ActionView], numbers: Sequence[int]) -> list[ActionView]:
    """Give an id to each action without one, and to all but the newest of those that share one.

    A caller may send several requests with one id. Clients page through a list by these ids, and ask for one
    action by them.
    """
    found: list[ActionView] = []
    known = {""}
    for view, number in zip(views, numbers, strict=True):
        if view.request_id in known:
            view = replace(view, request_id=own_request_id(view.uuid, number))
        known.add(view.request_id)
        found.append(view)
    return found


def _creation(instance: Instance, request_id: str, state: StoredState | None) -> ActionView:
    """Make the creation of an instance, which needs no row of its own."""
    ended = instance.status in (InstanceStatus.ERROR, InstanceStatus.DELETED)
    if state is not None:
        finished_at, result = state.built_at, Result.DONE
    elif instance.status in BUILDING_STATUSES:
        finished_at, result = 0.0, None
    elif ended:
        finished_at, result = instance.ended_at, Result.ERROR
    else:
        finished_at, result = instance.updated_at, Result.DONE
    return ActionView(
        uuid=instance.uuid,
        action="create",
        request_id=request_id,
        user_id=instance.user_id,
        project_id=instance.project_id,
        started_at=instance.created_at,
        finished_at=finished_at,
        result=result,
        reason=instance.reason if result is Result.ERROR else "",
    )


def _details(move: Move) -> str:
    """Tell between which hosts a server has moved, or how many hosts each filter left."""
    if move.to_number:
        return f"From host {move.source_host} to host {move.dest_host}."
    return faults.hosts_left(move.why)


def _key(action: InstanceAction) -> tuple[int, int]:
    """Return number and generation as a move has them: a generation stands for itself."""
    return (0, action.generation) if action.generation else (action.number, 0)


def _view(action: InstanceAction) -> ActionView:
    return ActionView(
        uuid=action.uuid,
        action=action.action,
        request_id=action.request_id,
        user_id=action.user_id,
        project_id=action.project_id,
        started_at=action.started_at,
        finished_at=action.finished_at,
        result=action.result,
        reason=action.reason,
    )
