"""Whether an action on an instance may be taken now, and the desired state that it makes."""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.conf import Conf
from zonesched.errors import Conflict, Forbidden, ZoneschedError
from zonesched.model.action_table import LEGAL_IN, Action, Illegal, why_illegal
from zonesched.model.action_table import judge as judge_desired
from zonesched.model.caller import Caller, Role
from zonesched.model.desired_state import NEW, Desired
from zonesched.model.instance_action import LockServer, MigrateServer, UnlockServer, UnsupportedAction
from zonesched.model.instance_flavor import InstanceFlavor
from zonesched.model.instance_image import AS_BOOTED, InstanceImage
from zonesched.model.placement import TO_BUILD
from zonesched.model.shown_status import Status, expected_status
from zonesched.model.unsupported_action import ADMINS_ACTIONS, LACK_OF
from zonesched.services.moves import beginning
from zonesched.services.owners.rebuilds import Rebuild
from zonesched.services.owners.resizes import Resize
from zonesched.services.zone import Zone
from zonesched.store.instance_actions import Count, Lock
from zonesched.store.instance_states import StoredState
from zonesched.store.instances import Instance
from zonesched.store.placements import AskedChild, Placement
from zonesched.store.store import Transaction

MAX_OPEN = 20
"""Limit of an instance's actions that have not ended."""

Asked = Action | LockServer | UnlockServer | Rebuild | Resize | MigrateServer | UnsupportedAction
"""An action whose image or flavor was looked up."""


@dataclass(frozen=True)
class Subject:
    """An instance with the rows by which an action on it is judged."""

    instance: Instance
    place: Placement | None
    stored: StoredState | None
    lock: Lock | None
    count: Count


def judge(zone: Zone, tx: Transaction, caller: Caller, subject: Subject, asked: Asked) -> Desired | None:
    """Return the desired state that an action makes, None for a lock and a move.

    Raises Conflict, Forbidden and BadRequest.
    """
    instance, lock = subject.instance, subject.lock
    if isinstance(asked, MigrateServer):
        _check_move(tx, caller, subject, asked)
        return None
    if instance.caller_id != zone.uuid:
        raise Conflict(
            "The server belongs to a parent zone: act on it there.", code="server_of_parent", field="id"
        )
    if asked is not Action.SOFT_DELETE:
        # However much is under way, an owner can delete it.
        _check_count(subject)
    match asked:
        case LockServer() | UnlockServer():
            # A lock replaces the one before it, so it would also remove it.
            if lock is not None and lock.by_admin and caller.role is not Role.ADMIN:
                field = "lock" if isinstance(asked, LockServer) else "unlock"
                raise Forbidden("An admin has locked the server.", code="locked_by_admin", field=field)
            return None
        case _ if lock is not None and caller.role is not Role.ADMIN:
            raise locked(instance.uuid)
        case UnsupportedAction(name):
            raise _unsupported(caller, name)
        case Rebuild():
            asked.check(instance.uuid, subject.stored)
            return _desired(zone.conf, subject, Action.REBUILD, image=asked.image.image)
        case Resize():
            desired = _desired(zone.conf, subject, Action.RESIZE, flavor=asked.flavor)
            asked.check(instance.uuid, subject.stored)
            return desired
        case _:
            return _desired(zone.conf, subject, asked)


def _check_move(tx: Transaction, caller: Caller, subject: Subject, asked: MigrateServer) -> None:
    """Raise Forbidden, Conflict or BadRequest where this caller may not move this instance now."""
    if caller.role is not Role.ADMIN:
        raise Forbidden("Only an admin of the zone that has the server may move it.", field="migrate")
    _check_count(subject)
    state = subject.stored.state if subject.stored is not None else NEW
    illegal = why_illegal(Action.MIGRATE, subject.instance.status, state)
    if illegal is not None:
        raise _illegal(Action.MIGRATE, illegal, subject)
    beginning.check(tx, subject.instance, subject.place, asked.host)


def _check_count(subject: Subject) -> None:
    if subject.count.open >= MAX_OPEN:
        raise Conflict(
            f"{MAX_OPEN} actions on the server have not ended yet.", code="too_many_open_actions", field="id"
        )


def _unsupported(caller: Caller, name: str) -> ZoneschedError:
    if name in ADMINS_ACTIONS and caller.role is not Role.ADMIN:
        return Forbidden(f"{name}: only an admin may do this.", code="role_forbidden", field=name)
    lack = LACK_OF[name]
    return lack.error(f"{name}: {lack.message}", code=lack.code, field=name)


def _desired(
    conf: Conf,
    subject: Subject,
    action: Action,
    *,
    image: InstanceImage = AS_BOOTED,
    flavor: InstanceFlavor = AS_BOOTED,
) -> Desired:
    instance, place = subject.instance, subject.place
    state = subject.stored.state if subject.stored is not None else NEW
    found = judge_desired(action, instance.status, state, image=image, flavor=flavor)
    if found is Illegal.STILL_SHELVING:
        raise Conflict(
            "The server is not offloaded yet: unshelve it once its status is SHELVED_OFFLOADED.",
            code=found.value,
            field=action.value,
        )
    if isinstance(found, Illegal):
        raise _illegal(action, found, subject)
    if action is Action.UNSHELVE:
        return found
    if place is None or place.state not in TO_BUILD:
        raise Conflict("The server has no place.", code=Illegal.NOT_BUILT.value, field="id")
    if isinstance(place.where, AskedChild) and not conf.enable_zone_routing:
        raise Conflict("This zone passes no calls on to its child zones.", code="zone_routing_disabled")
    return found


def _illegal(action: Action, why: Illegal, subject: Subject) -> Conflict:
    if why is Illegal.ACTION_UNDER_WAY:
        message = f"{action.value}: another action on the server has not ended yet."
        return Conflict(message, code=why.value, field=action.value)
    state = subject.stored.state if subject.stored is not None else NEW
    status = expected_status(subject.instance.status, state).value
    if why is Illegal.NOT_BUILT and status == Status.SOFT_DELETED.value:
        return Conflict(f"{action.value}: nothing is left of the server.", code=why.value, field=action.value)
    accepted = ", ".join(sorted(one.value for one in LEGAL_IN[action]))
    return Conflict(
        f"{action.value}: the server's status is {status}, accepted: {accepted}.",
        code=why.value,
        field=action.value.partition(" ")[0],
    )


def locked(uuid: str) -> Conflict:
    """Make the refusal of an action on a locked instance."""
    return Conflict(f"The server {uuid} is locked.", code="server_locked", field="id")
