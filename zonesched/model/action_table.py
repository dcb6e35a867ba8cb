"""The table of actions on instances: which is legal in which status, and the desired state that it makes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import replace

from zonesched.model.desired_state import Desired, InstanceState, RebootType
from zonesched.model.instance_flavor import InstanceFlavor
from zonesched.model.instance_image import AS_BOOTED, InstanceImage
from zonesched.model.observed_state import Power
from zonesched.model.placement import InstanceStatus
from zonesched.model.shown_status import Status, expected_status


class Action(enum.Enum):
    """Actions on an instance, by the keys of their bodies; SOFT and HARD reboots are two of them."""

    __hash__ = object.__hash__

    START = "os-start"
    STOP = "os-stop"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    SUSPEND = "suspend"
    RESUME = "resume"
    SOFT_REBOOT = "reboot SOFT"
    HARD_REBOOT = "reboot HARD"
    REBUILD = "rebuild"
    SHELVE = "shelve"
    UNSHELVE = "unshelve"
    MIGRATE = "migrate"
    RESIZE = "resize"
    CONFIRM_RESIZE = "confirmResize"
    REVERT_RESIZE = "revertResize"
    SOFT_DELETE = "delete"
    """Has no body: the delete of a server asks for it where `reclaim_instance_interval` is set."""
    RESTORE = "restore"

    @property
    def recorded_as(self) -> str:
        """Name of the action in the list of instance actions, as OpenStack has it."""
        return self.value.removeprefix("os-").partition(" ")[0]


class Illegal(enum.Enum):
    """Reasons why an action does not fit a status, as stable codes."""

    WRONG_STATUS = "wrong_status"
    ACTION_UNDER_WAY = "action_under_way"
    NOT_BUILT = "not_built"
    HAS_ENDED = "has_ended"
    STILL_SHELVING = "still_shelving"


_RUNNING = frozenset({Status.ACTIVE, Status.REBOOT, Status.HARD_REBOOT})
_NOT_RUNNING = frozenset({Status.SHUTOFF, Status.PAUSED, Status.SUSPENDED})
LEGAL_IN: Mapping[Action, frozenset[Status]] = {
    Action.START: frozenset({Status.SHUTOFF}),
    Action.STOP: _RUNNING,
    Action.PAUSE: _RUNNING,
    Action.UNPAUSE: frozenset({Status.PAUSED}),
    Action.SUSPEND: _RUNNING,
    Action.RESUME: frozenset({Status.SUSPENDED}),
    Action.SOFT_REBOOT: frozenset({Status.ACTIVE}),
    Action.HARD_REBOOT: _RUNNING | _NOT_RUNNING,
    Action.REBUILD: frozenset({Status.ACTIVE, Status.SHUTOFF}),
    Action.SHELVE: _RUNNING | _NOT_RUNNING,
    Action.UNSHELVE: frozenset({Status.SHELVED_OFFLOADED}),
    Action.MIGRATE: frozenset({Status.ACTIVE, Status.SHUTOFF, Status.SOFT_DELETED}),
    Action.RESIZE: frozenset({Status.ACTIVE, Status.SHUTOFF}),
    Action.CONFIRM_RESIZE: frozenset({Status.VERIFY_RESIZE}),
    Action.REVERT_RESIZE: frozenset({Status.VERIFY_RESIZE}),
    Action.SOFT_DELETE: _RUNNING | _NOT_RUNNING,
    Action.RESTORE: frozenset({Status.SOFT_DELETED}),
}
"""The statuses in which each action is legal."""

_POWER_AFTER: Mapping[Action, Power] = {
    Action.START: Power.RUNNING,
    Action.STOP: Power.STOPPED,
    Action.PAUSE: Power.PAUSED,
    Action.UNPAUSE: Power.RUNNING,
    Action.SUSPEND: Power.SUSPENDED,
    Action.RESUME: Power.RUNNING,
    Action.SOFT_REBOOT: Power.RUNNING,
    Action.HARD_REBOOT: Power.RUNNING,
    Action.SHELVE: Power.OFFLOADED,
    Action.UNSHELVE: Power.RUNNING,
    Action.SOFT_DELETE: Power.STOPPED,
    Action.RESTORE: Power.RUNNING,
}

_ALONE = frozenset({Action.REBUILD, Action.RESIZE, Action.CONFIRM_RESIZE, Action.REVERT_RESIZE})
"""Actions that follow none that is under way: where one is refused, all is as before it."""

_REBOOTS = {Action.SOFT_REBOOT: RebootType.SOFT, Action.HARD_REBOOT: RebootType.HARD}
_NOT_BUILT = frozenset({Status.BUILD, Status.UNKNOWN})
_ENDED = frozenset({Status.ERROR, Status.DELETED})


def power_after(action: Action, status: Status) -> Power:
    """Return the power that an action asks for in a status in which it is legal; not of one that keeps it."""
    if action in (Action.REBUILD, Action.RESIZE):
        return Power.STOPPED if status is Status.SHUTOFF else Power.RUNNING
    return _POWER_AFTER[action]


def why_illegal(action: Action, status: InstanceStatus, state: InstanceState) -> Illegal | None:
    """Return why an action is illegal; None for a legal one.

    It is judged by the status to which the actions accepted before it lead, so that a start may follow a
    stop that is still under way, except those of `_ALONE`. A deleted one does not show that it moves, or
    that it is lost.
    """
    expected = expected_status(status, state)
    if expected in _NOT_BUILT:
        return Illegal.NOT_BUILT
    if expected in _ENDED:
        return Illegal.HAS_ENDED
    if expected not in LEGAL_IN[action]:
        return Illegal.WRONG_STATUS
    if expected is Status.SOFT_DELETED and status is not InstanceStatus.ACTIVE:
        return Illegal.NOT_BUILT
    if expected is Status.SOFT_DELETED and state.is_moving:
        return Illegal.ACTION_UNDER_WAY
    if action is Action.UNSHELVE and status is not InstanceStatus.OFFLOADED:
        return Illegal.STILL_SHELVING
    return Illegal.ACTION_UNDER_WAY if action in _ALONE and state.is_pending else None


def judge(
    action: Action,
    status: InstanceStatus,
    state: InstanceState,
    *,
    image: InstanceImage = AS_BOOTED,
    flavor: InstanceFlavor = AS_BOOTED,
) -> Desired | Illegal:
    """Return the desired state that an action makes, or why it is illegal.

    MIGRATE makes none: it changes the place alone. `image`: of a rebuild; `flavor`: of a resize.
    """
    illegal = why_illegal(action, status, state)
    if illegal is not None:
        return illegal
    if action is Action.UNSHELVE:
        return at_new_place(state, Power.RUNNING)
    before, reboot_type = state.desired, _REBOOTS.get(action)
    done = before.resizes
    match action:
        case Action.CONFIRM_RESIZE:
            done = replace(done, confirmed=done.confirmed + 1)
            return replace(before, generation=before.generation + 1, resizes=done)
        case Action.REVERT_RESIZE:
            done = replace(done, reverted=done.reverted + 1)
            return replace(before, generation=before.generation + 1, resizes=done)
        case Action.RESIZE:
            before = replace(before, resizes=replace(done, begun=done.begun + 1), flavor=flavor)
    is_rebuild, expected = action is Action.REBUILD, expected_status(status, state)
    return replace(
        before,
        generation=before.generation + 1,
        power=power_after(action, expected),
        reboots=before.generation + 1 if reboot_type is not None else before.reboots,
        reboot_type=reboot_type or before.reboot_type,
        rebuilds=before.rebuilds + is_rebuild,
        image=image if is_rebuild else before.image,
    )


def at_new_place(state: InstanceState, power: Power) -> Desired:
    """Return the desired state at a new place, which is asked for with its own flavor and image."""
    return Desired(state.desired.generation + 1, power, image=state.image, flavor=state.present_flavor)
