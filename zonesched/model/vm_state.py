"""OpenStack's `vm_state` and `power_state` of an instance."""

from __future__ import annotations

from zonesched.model.desired_state import InstanceState
from zonesched.model.observed_state import Power
from zonesched.model.placement import InstanceStatus
from zonesched.model.shown_status import is_soft_deleted, is_unshelving

NO_STATE = 0

VM_STATE_OF_STATUS = {
    InstanceStatus.BUILD: "building",
    InstanceStatus.ERROR: "error",
    InstanceStatus.DELETED: "deleted",
    InstanceStatus.UNKNOWN: "unknown",
    InstanceStatus.OFFLOADED: "shelved_offloaded",
}
"""The states of instances that are not built."""

RESIZED = "resized"
SOFT_DELETED = "soft-delete"
VM_STATE_OF_POWER = {
    Power.RUNNING: "active",
    Power.STOPPED: "stopped",
    Power.PAUSED: "paused",
    Power.SUSPENDED: "suspended",
    Power.OFFLOADED: "shelved_offloaded",
}
"""The states of built ones that are not resized."""

POWER_STATE = {
    Power.RUNNING: 1,
    Power.PAUSED: 3,
    Power.STOPPED: 4,
    Power.SUSPENDED: 7,
    Power.OFFLOADED: NO_STATE,
}
"""OpenStack's numbers of power states."""


def vm_state(status: InstanceStatus, state: InstanceState) -> str:
    """Return OpenStack's state of an instance, from the stored status and the instance's state."""
    if is_soft_deleted(status, state):
        return SOFT_DELETED
    if not is_built(status, state):
        return VM_STATE_OF_STATUS[status]
    return RESIZED if state.observed.resizes.is_open else VM_STATE_OF_POWER[state.observed.power]


def is_built(status: InstanceStatus, state: InstanceState) -> bool:
    """Tell whether its observed state says what an instance is."""
    return status is InstanceStatus.ACTIVE or is_unshelving(status, state)
