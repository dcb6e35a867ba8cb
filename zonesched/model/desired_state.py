"""Desired and observed state of a built instance, and the table of actions.

Actions do not travel; desired states do. Each accepted action makes a desired state of the next generation,
and status and task state follow from the newest desired and the last observed state: nobody clears a flag.
An instance that never had an action has no row: its state is `NEW`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from zonesched.model.instance_flavor import InstanceFlavor
from zonesched.model.instance_image import AS_BOOTED, InstanceImage
from zonesched.model.observed_state import NO_MOVES, NO_RESIZES, MoveCounts, Observed, Power, Resizes
from zonesched.model.placement import BUILDING_STATUSES, InstanceStatus


class RebootType(enum.Enum):
    SOFT = "SOFT"
    HARD = "HARD"


@dataclass(frozen=True)
class Desired:
    """The state that an instance should have. A later generation replaces an earlier one whole.

    `reboots`: the generation of the last reboot, later than that of any which rows put back from a copy lack.
    `rebuilds` counts all that were asked for at its place. So a repeated message is no second one.
    `image`: the one of the last rebuild; `flavor`: the one of the last resize that was not reverted.
    """

    generation: int = 0
    power: Power = Power.RUNNING
    reboots: int = 0
    reboot_type: RebootType = RebootType.SOFT
    rebuilds: int = 0
    image: InstanceImage = AS_BOOTED
    resizes: Resizes = NO_RESIZES
    flavor: InstanceFlavor = AS_BOOTED


@dataclass(frozen=True)
class InstanceState:
    """Desired and observed state.

    `rebooted_by`, `rebuilt_by`: generation of the last reboot and rebuild, 0 without one. `image`: the one
    that it has; the desired one while it is not being rebuilt. `flavor`: the one that it has or, while a
    resize is done and not confirmed, the one that a revert gives back.
    """

    desired: Desired = field(default_factory=Desired)
    observed: Observed = field(default_factory=Observed)
    rebooted_by: int = 0
    rebuilt_by: int = 0
    image: InstanceImage = AS_BOOTED
    moves: MoveCounts = NO_MOVES
    flavor: InstanceFlavor = AS_BOOTED

    @property
    def is_pending(self) -> bool:
        """Tell whether the desired state is newer than the observed one."""
        return self.desired.generation > self.observed.generation

    @property
    def is_moving(self) -> bool:
        """Tell whether a move is under way."""
        return self.moves.begun > self.moves.ended

    @property
    def is_rebooting(self) -> bool:
        return self.rebooted_by > self.observed.generation

    @property
    def is_rebuilding(self) -> bool:
        return self.rebuilt_by > self.observed.generation

    @property
    def is_resizing(self) -> bool:
        """Tell whether a resize was asked for and has not ended."""
        return self.desired.resizes.begun > self.observed.resizes.begun

    @property
    def is_reverting(self) -> bool:
        return self.desired.resizes.reverted > self.observed.resizes.reverted

    @property
    def present_flavor(self) -> InstanceFlavor:
        """The flavor that it has."""
        return self.desired.flavor if self.observed.resizes.is_open else self.flavor

    def refused(self, reason: str) -> Observed:
        """Return the observed state where the desired one is refused: all is as it was."""
        return replace(self.observed, generation=self.desired.generation, reason=reason)

    def wanting(self, desired: Desired) -> InstanceState:
        """Return this state with a later desired state."""
        has_reboot = desired.reboots > self.desired.reboots
        has_rebuild = desired.rebuilds > self.desired.rebuilds
        return replace(
            self,
            desired=desired,
            rebooted_by=desired.generation if has_reboot else self.rebooted_by,
            rebuilt_by=desired.generation if has_rebuild else self.rebuilt_by,
        )

    def observing(self, observed: Observed) -> InstanceState:
        """Return this state with a later observed state.

        A power, rebuild or resize that was not done is no longer desired: nothing later must bring it about.
        """
        desired, resizes = self.desired, observed.resizes
        is_confirmed = resizes.confirmed > self.observed.resizes.confirmed
        # Rows put back from a copy may lack a whole resize before the last one.
        is_confirmed &= not resizes.is_open and resizes.begun == desired.resizes.begun
        flavor = desired.flavor if is_confirmed else self.flavor
        if observed.power is Power.OFFLOADED:
            flavor, resizes = self.present_flavor, NO_RESIZES
            observed = replace(observed, resizes=resizes)
        is_rebuilt = observed.rebuilds >= desired.rebuilds
        image = desired.image if is_rebuilt else self.image
        if observed.generation == desired.generation:
            desired = replace(desired, rebuilds=observed.rebuilds, image=image, resizes=resizes)
            desired = replace(desired, flavor=desired.flavor if resizes.is_open else flavor)
            if observed.reason and observed.power is not Power.OFFLOADED:
                desired = replace(desired, power=observed.power)
            if not is_rebuilt and not observed.reason:
                # A driver that knows no rebuilds has acted on the rest.
                observed = replace(observed, reason="rebuild_unsupported")
        # The moves of a later place are counted anew, in whatever zone it is.
        moves = NO_MOVES if observed.power is Power.OFFLOADED else self.moves
        return replace(self, desired=desired, observed=observed, image=image, moves=moves, flavor=flavor)


NEW = InstanceState()


class Status(enum.Enum):
    """The statuses of an instance that its owner sees, by the names of OpenStack."""

    __hash__ = object.__hash__

    BUILD = "BUILD"
    ACTIVE = "ACTIVE"
    SHUTOFF = "SHUTOFF"
    PAUSED = "PAUSED"
    SUSPENDED = "SUSPENDED"
    REBOOT = "REBOOT"
    HARD_REBOOT = "HARD_REBOOT"
    REBUILD = "REBUILD"
    RESIZE = "RESIZE"
    VERIFY_RESIZE = "VERIFY_RESIZE"
    REVERT_RESIZE = "REVERT_RESIZE"
    ERROR = "ERROR"
    DELETED = "DELETED"
    UNKNOWN = "UNKNOWN"
    SHELVED_OFFLOADED = "SHELVED_OFFLOADED"


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


STATUS_OF_POWER: Mapping[Power, Status] = {
    Power.RUNNING: Status.ACTIVE,
    Power.STOPPED: Status.SHUTOFF,
    Power.PAUSED: Status.PAUSED,
    Power.SUSPENDED: Status.SUSPENDED,
    Power.OFFLOADED: Status.SHELVED_OFFLOADED,
}

STATUS_WITHOUT_POWER: Mapping[InstanceStatus, Status] = {
    InstanceStatus.BUILD: Status.BUILD,
    InstanceStatus.ACTIVE: Status.ACTIVE,
    InstanceStatus.ERROR: Status.ERROR,
    InstanceStatus.DELETED: Status.DELETED,
    InstanceStatus.UNKNOWN: Status.UNKNOWN,
    InstanceStatus.OFFLOADED: Status.SHELVED_OFFLOADED,
}
"""Statuses by the stored status, of instances whose power was not reported or does not matter."""

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
    Action.MIGRATE: frozenset({Status.ACTIVE, Status.SHUTOFF}),
    Action.RESIZE: frozenset({Status.ACTIVE, Status.SHUTOFF}),
    Action.CONFIRM_RESIZE: frozenset({Status.VERIFY_RESIZE}),
    Action.REVERT_RESIZE: frozenset({Status.VERIFY_RESIZE}),
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
    stop that is still under way, except those of `_ALONE`.
    """
    expected = expected_status(status, state)
    if expected in _NOT_BUILT:
        return Illegal.NOT_BUILT
    if expected in _ENDED:
        return Illegal.HAS_ENDED
    if expected not in LEGAL_IN[action]:
        return Illegal.WRONG_STATUS
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


def expected_status(status: InstanceStatus, state: InstanceState) -> Status:
    """Return the status once all accepted actions have ended well.

    REBOOT, HARD_REBOOT or REBUILD while one is due; RESIZE while it moves, and VERIFY_RESIZE until that is
    settled.
    """
    if status is not InstanceStatus.ACTIVE:
        return STATUS_WITHOUT_POWER[status]
    if (moving := _changing_place(state)) is not None:
        return moving
    if state.is_rebuilding:
        return Status.REBUILD
    power = state.desired.power if state.is_pending else state.observed.power
    return _rebooting(state) if power is Power.RUNNING and state.is_rebooting else STATUS_OF_POWER[power]


def shown_status(status: InstanceStatus, state: InstanceState) -> Status:
    """Return the status for an instance's owner, from the stored status and the instance's state."""
    if status is InstanceStatus.BUILD and is_unshelving(status, state):
        return Status.SHELVED_OFFLOADED
    if status is not InstanceStatus.ACTIVE:
        return STATUS_WITHOUT_POWER[status]
    if (moving := _changing_place(state)) is not None:
        return moving
    if state.is_rebuilding:
        return Status.REBUILD
    power = state.observed.power
    return _rebooting(state) if power is Power.RUNNING and state.is_rebooting else STATUS_OF_POWER[power]


def is_unshelving(status: InstanceStatus, state: InstanceState) -> bool:
    """Tell whether an offloaded instance is being placed or built again."""
    return status in BUILDING_STATUSES and state.observed.power is Power.OFFLOADED


def _changing_place(state: InstanceState) -> Status | None:
    if state.observed.resizes.is_open:
        return Status.REVERT_RESIZE if state.is_reverting else Status.VERIFY_RESIZE
    return Status.RESIZE if state.is_moving or state.is_resizing else None


def _rebooting(state: InstanceState) -> Status:
    return Status.HARD_REBOOT if state.desired.reboot_type is RebootType.HARD else Status.REBOOT


def is_news(state: InstanceState, observed: Observed) -> bool:
    """Tell whether a report says more than the last one; an old, repeated or impossible one does not.

    Within one generation only a server that ended or has no place is news: nothing but a later generation
    starts it again, so a late copy of an earlier report cannot bring it back.
    """
    known = state.observed
    if observed.generation != known.generation:
        return known.generation < observed.generation <= state.desired.generation
    if known.power is Power.OFFLOADED or observed.power is known.power:
        return False
    return observed.power is Power.OFFLOADED or (observed.power is Power.STOPPED and observed.reason != "")


class Result(enum.Enum):
    """Result of an action. SUPERSEDED: a later action's state was reached first."""

    DONE = "done"
    ERROR = "error"
    SUPERSEDED = "superseded"
