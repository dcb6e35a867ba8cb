"""The task state of an instance, derived: what is under way between the desired and the observed state."""

from __future__ import annotations

from zonesched.model.desired_state import InstanceState, RebootType
from zonesched.model.observed_state import Power
from zonesched.model.placement import InstanceStatus
from zonesched.model.shown_status import is_unshelving

MOVING = "resize_migrating"

_TASK_TO = {
    Power.STOPPED: "powering-off",
    Power.PAUSED: "pausing",
    Power.SUSPENDED: "suspending",
    Power.OFFLOADED: "shelving",
}
_TASK_TO_RUN_FROM = {
    Power.PAUSED: "unpausing",
    Power.SUSPENDED: "resuming",
    Power.OFFLOADED: "unshelving",
}


def task_state(status: InstanceStatus, state: InstanceState) -> str:
    """Return OpenStack's name of the work under way on a built instance; "" for none."""
    if is_unshelving(status, state):
        return "unshelving"
    if status is not InstanceStatus.ACTIVE:
        return ""
    if state.observed.resizes.is_open:
        return "resize_reverting" if state.is_reverting else ""
    if state.is_moving:
        return MOVING
    if not state.is_pending:
        return ""
    if state.is_resizing:
        return "resize_prep"
    if state.is_rebuilding:
        return "rebuilding"
    if state.reclaim_at:
        return "soft-deleting"
    desired = state.desired
    if desired.power is not Power.RUNNING:
        return _TASK_TO[desired.power]
    if state.is_rebooting:
        return "rebooting_hard" if desired.reboot_type is RebootType.HARD else "rebooting"
    return _TASK_TO_RUN_FROM.get(state.observed.power, "powering-on")
