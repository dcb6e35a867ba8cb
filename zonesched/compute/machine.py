"""Decisions of the agent: its view of the instances and events in, instructions out.

It compares what the zone wants to run with what is there, each time anew, so a lost message costs a round and
never an instance. It does no I/O, reads no time and starts nothing: `zonesched.compute.agent` carries out.

    wanted, not there        -> Spawn            BUILDING
    Built                    -> report active    RUNNING
    Failed                   -> report error     FAILED, until the zone no longer wants it: Destroy
    Found, by a new agent    ->                  BUILDING, until the driver says how it stands
    there, not wanted        -> Destroy          DESTROYING
    Destroyed                -> report gone      forgotten
    releasing, not there     -> report gone
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from zonesched.tracing import UNTRACED, Trace


@dataclass(frozen=True, order=True)
class Key:
    """One attempt to build one instance: a later attempt of the same uuid is another thing."""

    uuid: str
    attempt: int


@dataclass(frozen=True)
class Wanted:
    """An instance that should run on `host` (the host's name); `is_active`: the zone has it as running.

    `name`: what its owner calls it. `trace`: whose request it comes from, for logs.
    """

    key: Key
    host: str
    name: str = ""
    flavor: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, Any] = field(default_factory=dict)
    is_active: bool = False
    trace: Trace = UNTRACED


class Phase(enum.Enum):
    """Phase of an instance on this agent."""

    BUILDING = "building"
    RUNNING = "running"
    FAILED = "failed"
    DESTROYING = "destroying"


@dataclass(frozen=True)
class Local:
    """An instance on this agent; `reason` is a stable code when FAILED, else "".

    `zone_has_it`: the zone said that it runs before this agent (perhaps started since) made it run.
    """

    phase: Phase
    reason: str = ""
    zone_has_it: bool = False


class ReportState(enum.Enum):
    """Report of an instance to the zone."""

    ACTIVE = "active"
    ERROR = "error"
    GONE = "gone"


@dataclass(frozen=True)
class Report:
    """One line of POST /hosts/reports."""

    key: Key
    state: ReportState
    reason: str = ""


@dataclass(frozen=True)
class Spawn:
    """Make it run; for one that runs already this changes nothing."""

    wanted: Wanted


@dataclass(frozen=True)
class Destroy:
    """Make it not run, whether it is built or still being built."""

    key: Key


Instruction = Spawn | Destroy


@dataclass(frozen=True)
class Fetched:
    """All that should run on this agent's hosts, as the zone said just now.

    `releasing`: attempts that were not reported in time. The zone keeps their claims until it hears that
    nothing of them is here, also from an agent that has never had them.
    """

    wanted: tuple[Wanted, ...]
    releasing: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Found:
    """These were here before this agent was: the driver will say which of them run."""

    keys: tuple[Key, ...]


@dataclass(frozen=True)
class Built:
    """The driver made it run."""

    key: Key


@dataclass(frozen=True)
class Failed:
    """The driver could not make it run, or it stopped by itself; `reason` is a stable code."""

    key: Key
    reason: str


@dataclass(frozen=True)
class Destroyed:
    """Nothing is left of it."""

    key: Key


@dataclass(frozen=True)
class Reported:
    """The zone took these reports."""

    reports: tuple[Report, ...]


DriverEvent = Built | Failed | Destroyed
Event = Found | Fetched | DriverEvent | Reported


@dataclass(frozen=True)
class State:
    """The agent's instances, and the reports that the zone has not taken yet: at most one for each."""

    instances: Mapping[Key, Local] = field(default_factory=dict)
    unreported: Mapping[Key, Report] = field(default_factory=dict)


def handle(state: State, events: Sequence[Event]) -> tuple[State, tuple[Instruction, ...]]:
    """The state after `events`, in their order, and what is to be done now."""
    if not events:
        return state, ()
    draft = _Draft(dict(state.instances), dict(state.unreported), [])
    for event in events:
        draft.take(event)
    return State(draft.instances, draft.unreported), tuple(draft.instructions)


@dataclass
class _Draft:
    """The next state while `handle` makes it; it never leaves this module."""

    instances: dict[Key, Local]
    unreported: dict[Key, Report]
    instructions: list[Instruction]

    def take(self, event: Event) -> None:
        match event:
            case Found(keys):
                self.instances.update({key: Local(Phase.BUILDING) for key in keys})
            case Fetched(wanted, releasing):
                self._converge(wanted)
                self._report_gone(releasing)
            case Built(key):
                self._built(key)
            case Failed(key, reason):
                if self._phase(key) in (Phase.BUILDING, Phase.RUNNING):
                    self._move(key, Local(Phase.FAILED, reason), ReportState.ERROR)
            case Destroyed(key):
                if self.instances.pop(key, None) is not None:
                    self.unreported[key] = Report(key, ReportState.GONE)
            case Reported(reports):
                self._forget(reports)

    def _phase(self, key: Key) -> Phase | None:
        local = self.instances.get(key)
        return None if local is None else local.phase

    def _built(self, key: Key) -> None:
        local = self.instances.get(key)
        if local is None or local.phase is not Phase.BUILDING:
            return
        if local.zone_has_it:
            self.instances[key] = replace(local, phase=Phase.RUNNING)
        else:
            self._move(key, Local(Phase.RUNNING), ReportState.ACTIVE)

    def _move(self, key: Key, local: Local, told: ReportState) -> None:
        self.instances[key] = local
        self.unreported[key] = Report(key, told, local.reason)

    def _converge(self, wanted: Sequence[Wanted]) -> None:
        keys = {each.key for each in wanted}
        for key in [key for key in self.instances if key not in keys]:
            self._let_go(key)
        for each in wanted:
            self._make_run(each)

    def _report_gone(self, releasing: Sequence[Key]) -> None:
        for key in releasing:
            if key not in self.instances:
                self.unreported[key] = Report(key, ReportState.GONE)

    def _let_go(self, key: Key) -> None:
        match self.instances[key].phase:
            case Phase.BUILDING | Phase.RUNNING | Phase.FAILED:
                self.instances[key] = Local(Phase.DESTROYING)
                self.unreported.pop(key, None)
                self.instructions.append(Destroy(key))
            case Phase.DESTROYING:
                self.instructions.append(Destroy(key))

    def _make_run(self, wanted: Wanted) -> None:
        local = self.instances.get(wanted.key)
        match local:
            case None:
                self.instances[wanted.key] = Local(Phase.BUILDING, zone_has_it=wanted.is_active)
                self.instructions.append(Spawn(wanted))
            case Local(Phase.RUNNING) if not wanted.is_active:
                self.unreported[wanted.key] = Report(wanted.key, ReportState.ACTIVE)
            case Local(Phase.FAILED, reason):
                self.unreported[wanted.key] = Report(wanted.key, ReportState.ERROR, reason)
            case Local(Phase.DESTROYING):
                # Wanted again: it is spawned in the round after it is gone.
                self.instructions.append(Destroy(wanted.key))
            case _:
                pass

    def _forget(self, reports: Sequence[Report]) -> None:
        for report in reports:
            if self.unreported.get(report.key) == report:
                del self.unreported[report.key]
