"""An agent and a zone that was restored from a copy, pure: what the agent has counts, and it says so first.

A zone of another incarnation has forgotten a part of what it wanted. Before the agent ends or builds anything
for it, it tells all that it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from zonesched.compute.desired_state import Observed
from zonesched.compute.machine import Key, Local, Phase, Report, ReportState, State

_ENDS = (Phase.DESTROYING, Phase.FAILED)


class Listed(NamedTuple):
    """Host and flavor of an instance by the zone's last list that had it; "" and None where none has."""

    host: str
    flavor: Mapping[str, Any] | None


UNLISTED = Listed("", None)


@dataclass(frozen=True)
class Running:
    """An instance that the agent has; `host`, `flavor`: as in `Listed`."""

    key: Key
    host: str
    is_built: bool
    observed: Observed
    flavor: Mapping[str, Any] | None = None


def running(state: State, listed: Mapping[Key, Listed]) -> list[Running]:
    """List what the agent has, but for what it is ending and what it could not build."""
    return [
        Running(
            key,
            listed.get(key, UNLISTED).host,
            local.phase is not Phase.BUILDING or local.is_found,
            local.observed,
            listed.get(key, UNLISTED).flavor,
        )
        for key, local in sorted(state.instances.items())
        if local.phase not in _ENDS
    ]


def reported_again(state: State) -> State:
    """Report every instance again that is built or was stopped for a move: the zone has forgotten that."""
    again = {
        key: report for key, local in state.instances.items() if (report := _report(key, local)) is not None
    }
    return State(state.instances, {**again, **state.unreported})


def _report(key: Key, local: Local) -> Report | None:
    match local.phase:
        case Phase.BUILT:
            return Report(key, ReportState.ACTIVE, local.observed.reason, local.observed)
        case Phase.LEFT:
            return Report(key, ReportState.LEFT, local.reason, left_for=local.leaves_for)
        case _:
            return None
