"""Decisions of the agent, pure: from its state and events to instructions.

Each round compares the wanted instances with the existing ones, so that a lost message delays an instance and
never loses it. No I/O, clocks or threads: `zonesched.compute.agent` executes the instructions.

    wanted, not there        -> Spawn            BUILDING, also one that comes from another host
    Built                    -> report active    BUILT
    Failed                   -> report error     FAILED, until the zone no longer wants it: Destroy
    desired state is newer   -> Apply            BUILT
    Changed                  -> report active    BUILT
    Found, by a new agent    ->                  BUILDING, until the driver reports its status
    Left, by an earlier one  -> report left      LEFT, stopped and kept here
    there, not wanted        -> Destroy          DESTROYING
    Destroyed                -> report gone      forgotten
    releasing, not there     -> report gone
    leaves for another host  -> Leave            LEAVING
    Left                     -> report left      LEFT, stopped and kept here
    leaves no more           -> Return           BUILDING, until the driver reports its status
    Fenced                   ->                  FENCED, until the zone says whether it is still wanted
    wanted, was fenced       -> Return           BUILDING, until the driver reports its status
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from zonesched.compute.desired_state import FIRST_DESIRED, FIRST_OBSERVED, Desired, Observed
from zonesched.tracing import UNTRACED, Trace


@dataclass(frozen=True, order=True)
class Key:
    """One attempt to build one instance; a later attempt of the same uuid has another key."""

    uuid: str
    attempt: int


@dataclass(frozen=True)
class Wanted:
    """An instance that should be on `host` (the host's name); `is_active`: the zone knows that it was built.

    `observed`: its state as far as the zone knows, without the reason of a failed action.
    `leaves_for`: it is to be stopped and kept, since it moves to its attempt of that number; 0 for none.
    `moved_from`: its attempt on another host, whose disk it goes on with; 0 for none.
    `name`: given by its owner. `trace`: context of the request that it comes from, for logs.
    """

    key: Key
    host: str
    name: str = ""
    flavor: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, Any] = field(default_factory=dict)
    is_active: bool = False
    desired: Desired = FIRST_DESIRED
    observed: Observed = FIRST_OBSERVED
    trace: Trace = UNTRACED
    leaves_for: int = 0
    moved_from: int = 0


class Phase(enum.Enum):
    """Phase of an instance on this agent. BUILT: it exists, whatever its power state.

    LEAVING: it is being stopped for a move. LEFT: it was, or could not be. FENCED: it ended with the lease.
    """

    BUILDING = "building"
    BUILT = "built"
    FAILED = "failed"
    LEAVING = "leaving"
    LEFT = "left"
    FENCED = "fenced"
    DESTROYING = "destroying"


@dataclass(frozen=True)
class Local:
    """An instance on this agent; `reason` is a stable code when FAILED or not stopped for a move, else "".

    `zone_has_it`: the zone had it as active before this agent built it. `observed`: its state when BUILT;
    `desired`: the one it is built for. `leaves_for`: as in `Wanted`. `is_found`: as in `Found`.
    """

    phase: Phase
    reason: str = ""
    zone_has_it: bool = False
    observed: Observed = FIRST_OBSERVED
    leaves_for: int = 0
    is_found: bool = False
    desired: Desired = FIRST_DESIRED


class ReportState(enum.Enum):
    """Report of an instance to the zone."""

    ACTIVE = "active"
    LEFT = "left"
    ERROR = "error"
    GONE = "gone"


@dataclass(frozen=True)
class Report:
    """One line of POST /hosts/reports; `observed`: state of an active instance.

    `left_for`: the attempt for which an instance was stopped, in a report of LEFT.
    """

    key: Key
    state: ReportState
    reason: str = ""
    observed: Observed = FIRST_OBSERVED
    left_for: int = 0


@dataclass(frozen=True)
class Spawn:
    """Build and run it; no effect on one that runs."""

    wanted: Wanted


@dataclass(frozen=True)
class Destroy:
    """End it, whether built or still being built."""

    key: Key


@dataclass(frozen=True)
class Apply:
    """Bring a built instance into this state; no effect where that was done or refused."""

    key: Key
    desired: Desired


@dataclass(frozen=True)
class Leave:
    """Stop it and keep it, so that another host can go on with it; no effect on one that was stopped so."""

    wanted: Wanted


@dataclass(frozen=True)
class Return:
    """Let an instance that was stopped for a move run again as before it."""

    wanted: Wanted


Instruction = Spawn | Destroy | Apply | Leave | Return


@dataclass(frozen=True)
class ConsoleAsk:
    """A console output that somebody waits for; `id` is that of the ask."""

    id: str
    key: Key


@dataclass(frozen=True)
class Fetched:
    """Answer of the zone: all instances that should run on this agent's hosts.

    `releasing`: attempts that were not reported in time. The zone keeps their claims until it hears that
    nothing of them is here, also from an agent that has never had them. `kept`: stay as they are, whatever
    they are. For the agent itself: `consoles` to send now, the zone's `incarnation`, and its last `start`.
    """

    wanted: tuple[Wanted, ...]
    releasing: tuple[Key, ...] = ()
    consoles: tuple[ConsoleAsk, ...] = ()
    kept: tuple[Key, ...] = ()
    incarnation: str = ""
    start: str = ""


@dataclass(frozen=True)
class Found:
    """Instances of an earlier agent; the driver will report which of them run."""

    keys: tuple[Key, ...]


@dataclass(frozen=True)
class Built:
    """The driver has built it, or has found it built; `observed`: its state."""

    key: Key
    observed: Observed = FIRST_OBSERVED


@dataclass(frozen=True)
class Changed:
    """The driver has acted on a desired state of a built instance, or the instance ended by itself."""

    key: Key
    observed: Observed


@dataclass(frozen=True)
class Failed:
    """The driver could not build it, or has lost it; `reason` is a stable code."""

    key: Key
    reason: str


@dataclass(frozen=True)
class Left:
    """The driver has stopped an instance for its move to this attempt; `reason`: why it could not, a code."""

    key: Key
    leaves_for: int
    reason: str = ""


@dataclass(frozen=True)
class Fenced:
    """An instance was ended because the agent's lease had run out; it can be started again as it was."""

    key: Key


@dataclass(frozen=True)
class Destroyed:
    """The driver has removed it."""

    key: Key


@dataclass(frozen=True)
class Reported:
    """The zone has accepted these reports."""

    reports: tuple[Report, ...]


DriverEvent = Found | Built | Changed | Failed | Left | Fenced | Destroyed
Event = Fetched | DriverEvent | Reported


@dataclass(frozen=True)
class State:
    """State of the agent: its instances, and at most one unaccepted report for each."""

    instances: Mapping[Key, Local] = field(default_factory=dict)
    unreported: Mapping[Key, Report] = field(default_factory=dict)


def handle(state: State, events: Sequence[Event]) -> tuple[State, tuple[Instruction, ...]]:
    """Return the state after `events`, in their order, and the instructions."""
    if not events:
        return state, ()
    draft = _Draft(dict(state.instances), dict(state.unreported), [])
    for event in events:
        draft.take(event)
    return State(draft.instances, draft.unreported), tuple(draft.instructions)


@dataclass
class _Draft:
    """Mutable next state inside `handle`."""

    instances: dict[Key, Local]
    unreported: dict[Key, Report]
    instructions: list[Instruction]

    def take(self, event: Event) -> None:
        match event:
            case Found(keys):
                found = {key: Local(Phase.BUILDING, is_found=True) for key in keys}
                self.instances = found | self.instances
            case Fetched(wanted, releasing, kept=kept):
                self._converge(wanted, kept)
                self._report_gone(releasing)
            case Built(key, observed):
                self._built(key, observed)
            case Changed(key, observed):
                if self._phase(key) is Phase.BUILT:
                    self._report_active(key, replace(self.instances[key], observed=observed))
            case Failed(key, reason):
                if self._phase(key) in (Phase.BUILDING, Phase.BUILT, Phase.LEAVING):
                    self._move(key, Local(Phase.FAILED, reason), ReportState.ERROR)
            case Left(key, leaves_for, reason):
                self._left(key, leaves_for, reason)
            case Fenced(key):
                if self._phase(key) in (Phase.BUILDING, Phase.BUILT):
                    # What it did before is old news, and it may run elsewhere by now.
                    self.unreported.pop(key, None)
                    self.instances[key] = Local(Phase.FENCED)
            case Destroyed(key):
                if self.instances.pop(key, None) is not None:
                    self.unreported[key] = Report(key, ReportState.GONE)
            case Reported(reports):
                self._forget(reports)

    def _phase(self, key: Key) -> Phase | None:
        local = self.instances.get(key)
        return None if local is None else local.phase

    def _built(self, key: Key, observed: Observed) -> None:
        local = self.instances.get(key)
        if local is None or local.phase is not Phase.BUILDING:
            return
        built = Local(Phase.BUILT, zone_has_it=local.zone_has_it, observed=observed)
        if local.zone_has_it and observed == FIRST_OBSERVED:
            self.instances[key] = built
        else:
            # Also where an earlier agent reported it: that report may be lost, and a second one is harmless.
            self._report_active(key, built)
        if local.desired.generation > observed.generation:
            self.instructions.append(Apply(key, local.desired))

    def _left(self, key: Key, leaves_for: int, reason: str) -> None:
        local = self.instances.get(key)
        if local is None:
            return
        is_asked = local.phase is Phase.LEAVING and local.leaves_for == leaves_for
        # One that an earlier agent has stopped: the next poll says whether its move goes on.
        if is_asked or (local.phase is Phase.BUILDING and local.is_found):
            self.instances[key] = Local(Phase.LEFT, reason, local.zone_has_it, leaves_for=leaves_for)
            self.unreported[key] = Report(key, ReportState.LEFT, reason, left_for=leaves_for)

    def _report_active(self, key: Key, local: Local) -> None:
        self.instances[key] = local
        self.unreported[key] = Report(key, ReportState.ACTIVE, local.observed.reason, local.observed)

    def _move(self, key: Key, local: Local, state: ReportState) -> None:
        self.instances[key] = local
        self.unreported[key] = Report(key, state, local.reason)

    def _converge(self, wanted: Sequence[Wanted], kept: Sequence[Key]) -> None:
        keys = {each.key for each in wanted}.union(kept)
        for key in [key for key in self.instances if key not in keys]:
            self._let_go(key)
        for each in wanted:
            match self.instances.get(each.key):
                case Local(Phase.FAILED, reason):
                    self.unreported[each.key] = Report(each.key, ReportState.ERROR, reason)
                case Local(Phase.DESTROYING):
                    # Wanted again: it is spawned in the round after it is gone.
                    self.instructions.append(Destroy(each.key))
                case local:
                    (self._make_leave if each.leaves_for else self._make_run)(each, local)

    def _report_gone(self, releasing: Sequence[Key]) -> None:
        for key in releasing:
            if key not in self.instances:
                self.unreported[key] = Report(key, ReportState.GONE)

    def _let_go(self, key: Key) -> None:
        if self.instances[key].phase is not Phase.DESTROYING:
            self.instances[key] = Local(Phase.DESTROYING)
            self.unreported.pop(key, None)
        self.instructions.append(Destroy(key))

    def _build(self, wanted: Wanted) -> None:
        key, desired = wanted.key, wanted.desired
        self.instances[key] = Local(Phase.BUILDING, zone_has_it=wanted.is_active, desired=desired)

    def _make_run(self, wanted: Wanted, local: Local | None) -> None:
        match local:
            case None:
                self._build(wanted)
                self.instructions.append(Spawn(wanted))
            case Local(Phase.BUILT):
                if not wanted.is_active:
                    self._report_active(wanted.key, local)
                if wanted.desired.generation > local.observed.generation:
                    self.instructions.append(Apply(wanted.key, wanted.desired))
            case Local(Phase.LEAVING | Phase.LEFT | Phase.FENCED):
                self._build(wanted)
                self.unreported.pop(wanted.key, None)
                self.instructions.append(Return(wanted))

    def _make_leave(self, wanted: Wanted, local: Local | None) -> None:
        match local:
            case None | Local(Phase.BUILDING | Phase.BUILT | Phase.FENCED):
                self._begin_to_leave(wanted)
            case Local(Phase.LEAVING | Phase.LEFT, leaves_for=leaves_for) if leaves_for != wanted.leaves_for:
                self._begin_to_leave(wanted)

    def _begin_to_leave(self, wanted: Wanted) -> None:
        # What it did before is old news: the zone waits for its stop alone.
        self.unreported.pop(wanted.key, None)
        self.instances[wanted.key] = Local(Phase.LEAVING, leaves_for=wanted.leaves_for)
        self.instructions.append(Leave(wanted))

    def _forget(self, reports: Sequence[Report]) -> None:
        for report in reports:
            if self.unreported.get(report.key) == report:
                del self.unreported[report.key]
