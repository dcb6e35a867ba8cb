"""Decisions of the libvirt driver, pure: from a domain as it is and what is wanted of it to the next step.

Each step follows from the domain alone, so a driver that was killed after any step goes on with the next one.
A reboot or rebuild is counted in the marker once the domain is off and before it starts again: an agent that
dies in between starts it once.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from zonesched.compute.desired_state import Desired, Power, RebootType
from zonesched.compute.libvirt_domain import Domain


class Step(enum.Enum):
    """One change of a domain. DONE: none is left."""

    MAKE_AND_START = "make_and_start"
    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    SAVE = "save"
    DROP_SAVED = "drop_saved"
    SHUT_DOWN = "shut_down"
    POWER_OFF = "power_off"
    COUNT_REBOOT = "count_reboot"
    REBUILD = "rebuild"
    REMOVE = "remove"
    DONE = "done"


_OFF = (Power.STOPPED, Power.SUSPENDED)
_TO_RUN: Mapping[Power, Step] = {
    Power.RUNNING: Step.DONE,
    Power.PAUSED: Step.RESUME,
    Power.STOPPED: Step.START,
    Power.SUSPENDED: Step.START,
}
_TO_PAUSE: Mapping[Power, Step] = {**_TO_RUN, Power.RUNNING: Step.PAUSE, Power.PAUSED: Step.DONE}
# What is off has no memory to save: it starts first.
_TO_SAVE: Mapping[Power, Step] = {
    Power.RUNNING: Step.SAVE,
    Power.PAUSED: Step.SAVE,
    Power.STOPPED: Step.START,
    Power.SUSPENDED: Step.DONE,
}
# A paused guest cannot shut down.
_TO_STOP: Mapping[Power, Step] = {
    Power.RUNNING: Step.SHUT_DOWN,
    Power.PAUSED: Step.POWER_OFF,
    Power.STOPPED: Step.DONE,
    Power.SUSPENDED: Step.DROP_SAVED,
}
_TO_POWER_OFF: Mapping[Power, Step] = {**_TO_STOP, Power.RUNNING: Step.POWER_OFF}


def step_to_build(domain: Domain) -> Step:
    """Choose the next step to a built instance; `domain` is defined. One that runs has its whole disk."""
    if domain.marker.is_built or domain.power not in _OFF:
        return Step.DONE
    return Step.MAKE_AND_START


def step_to_reach(domain: Domain, desired: Desired) -> Step:
    """Choose the next step of a built instance to a desired state."""
    marker, power = domain.marker, domain.power
    if desired.rebuilds > marker.rebuilds:
        return Step.REBUILD if power is Power.STOPPED else _TO_POWER_OFF[power]
    if desired.power is Power.STOPPED:
        return _TO_STOP[power]
    if desired.reboots > marker.reboots:
        if power is Power.STOPPED:
            return Step.COUNT_REBOOT
        return (_TO_POWER_OFF if desired.reboot_type is RebootType.HARD else _TO_STOP)[power]
    match desired.power:
        case Power.PAUSED:
            return _TO_PAUSE[power]
        case Power.SUSPENDED:
            return _TO_SAVE[power]
        case _:
            return _TO_RUN[power]


def step_to_end(domain: Domain) -> Step:
    """Choose the next step to an instance of which nothing is left."""
    return Step.REMOVE if domain.power in _OFF else Step.POWER_OFF
