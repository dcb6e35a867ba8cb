"""The status of an instance, derived from its stored status and its state: the present and the next one."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from zonesched.model.desired_state import InstanceState, RebootType
from zonesched.model.observed_state import Power
from zonesched.model.placement import BUILDING_STATUSES, InstanceStatus


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
    SOFT_DELETED = "SOFT_DELETED"


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


MAY_BE_SOFT_DELETED = (InstanceStatus.ACTIVE, InstanceStatus.OFFLOADED, InstanceStatus.ERROR)
"""The stored statuses of instances that show SOFT_DELETED where their owners have deleted them."""


def expected_status(status: InstanceStatus, state: InstanceState) -> Status:
    """Return the status once all accepted actions have ended well.

    REBOOT, HARD_REBOOT or REBUILD while one is due; RESIZE while it moves, and VERIFY_RESIZE until that is
    settled.
    """
    return _status(status, state, state.desired.power if state.is_pending else state.observed.power)


def shown_status(status: InstanceStatus, state: InstanceState) -> Status:
    """Return the status for an instance's owner, from the stored status and the instance's state."""
    if status is InstanceStatus.BUILD and is_unshelving(status, state):
        return Status.SHELVED_OFFLOADED
    return _status(status, state, state.observed.power)


def _status(status: InstanceStatus, state: InstanceState, power: Power) -> Status:
    if is_soft_deleted(status, state):
        return Status.SOFT_DELETED
    if status is not InstanceStatus.ACTIVE:
        return STATUS_WITHOUT_POWER[status]
    if (moving := _changing_place(state)) is not None:
        return moving
    if state.is_rebuilding:
        return Status.REBUILD
    return _rebooting(state) if power is Power.RUNNING and state.is_rebooting else STATUS_OF_POWER[power]


def is_soft_deleted(status: InstanceStatus, state: InstanceState) -> bool:
    """Tell whether an instance was deleted by its owner, and is deleted for good later."""
    return state.reclaim_at > 0 and status in MAY_BE_SOFT_DELETED


def is_unshelving(status: InstanceStatus, state: InstanceState) -> bool:
    """Tell whether an offloaded instance is being placed or built again."""
    return status in BUILDING_STATUSES and state.observed.power is Power.OFFLOADED


def _changing_place(state: InstanceState) -> Status | None:
    if state.observed.resizes.is_open:
        return Status.REVERT_RESIZE if state.is_reverting else Status.VERIFY_RESIZE
    return Status.RESIZE if state.is_moving or state.is_resizing else None


def _rebooting(state: InstanceState) -> Status:
    return Status.HARD_REBOOT if state.desired.reboot_type is RebootType.HARD else Status.REBOOT
