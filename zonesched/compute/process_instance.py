"""One instance of the process driver, and its steps from one state to the next.

    waiting   until no other attempt of the same instance is left on this machine
    starting  until the launcher has become the instance for the first time, or was found
    resting   in the last state that was asked for, or ended by itself
    reaching  a newer desired state
    ending    until nothing of it is left

What must outlive the agent is written before the step that relies on it: a reboot or rebuild is counted
after the old process has ended and before the new one starts, so that an agent that dies in between starts
it once. The folder is emptied before its rebuild is counted, so that a rebuild that was cut short empties it
again.
"""

from __future__ import annotations

import math
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zonesched.compute import process_table
from zonesched.compute.desired_state import FIRST_DESIRED, Desired, Observed, Power, RebootType
from zonesched.compute.instance_folder import InstanceFolder, Reached, Status
from zonesched.compute.machine import Built, Changed, Destroyed, DriverEvent, Failed, Key

SOON_S, WATCH_S = 0.05, 1.0
NOT_STARTED, ENDED, FAILED, KILLED = (
    "process_not_started",
    "process_ended",
    "process_failed",
    "process_killed",
)
SUSPEND_UNSUPPORTED = "suspend_unsupported"


@dataclass(frozen=True)
class Surroundings:
    """Parts that all instances of a driver share: how one is launched, and how long it may take to end."""

    root: Path
    launch: Callable[[InstanceFolder], subprocess.Popen[bytes]]
    monotonic: Callable[[], float]
    stop_s: float


class ProcessInstance:
    """An instance of this agent or, without `form` (the launcher's input), of an earlier one."""

    def __init__(self, around: Surroundings, key: Key, form: Mapping[str, Any] | None = None) -> None:
        self._around = around
        self._form = form
        self._folder = InstanceFolder(around.root, key)
        self._step: Callable[[], Sequence[DriverEvent]] = self._start if form is None else self._await_turn
        self._reached = (
            self._folder.reached()
            if form is None
            else Reached(reboots=form["reboots"], rebuilds=form["rebuilds"])
        )
        self._desired = FIRST_DESIRED
        self._launched: subprocess.Popen[bytes] | None = None
        self._launched_for = 0
        self._looked_at = -math.inf
        self._asked_to_end_at = math.inf

    @property
    def is_gone(self) -> bool:
        return self._step == self._gone

    def advance(self) -> Sequence[DriverEvent]:
        """Take one step; return its events."""
        return self._step()

    def next_step_s(self) -> float:
        """Seconds until a step may have events; infinity where only a call can change anything."""
        if self._step == self._failed:
            return math.inf
        if self._step != self._rest:
            return SOON_S
        return math.inf if self._reached.power is Power.STOPPED else WATCH_S

    def apply(self, desired: Desired) -> None:
        """Go on to a desired state that is newer than the last one."""
        if self._step == self._rest and desired.generation > self._reached.generation:
            self._step = self._reach
        if self._step == self._reach and desired.generation > self._desired.generation:
            self._desired = desired
            self._asked_to_end_at = math.inf

    def end(self) -> None:
        """End it, in whatever state it is."""
        if self._step != self._end:
            self._asked_to_end_at = math.inf
            self._step = self._end

    # -- building ------------------------------------------------------------------------------------------

    def _await_turn(self) -> Sequence[DriverEvent]:
        others = self._around.root.glob(f"{self._folder.key.uuid}.*")
        if any(path != self._folder.path for path in others):
            return ()
        if self._folder.status() is Status.ABSENT and self._form is not None:
            self._folder.prepare(self._form)
        self._step = self._start
        return self._start()

    def _start(self) -> Sequence[DriverEvent]:
        key, status = self._folder.key, self._folder.status()
        if status is Status.PREPARED and self._launched is None:
            self._launched = self._around.launch(self._folder)
            return ()
        if self._is_starting(status):
            return ()
        if status is Status.RUNNING:
            return self._found_running()
        if self._folder.was_built():
            self._step = self._rest
            return (Built(key, self._ended_by_itself()),)
        self._step = self._failed
        return (Failed(key, self._why_ended()),)

    def _is_starting(self, status: Status) -> bool:
        """Tell whether a launcher may still become the instance."""
        if status is Status.PREPARED:
            return self._launched is not None and self._launched.poll() is None
        return status is Status.STARTING

    def _found_running(self) -> Sequence[DriverEvent]:
        power = self._present_power()
        self._note(replace(self._reached, power=power))
        self._step = self._rest
        return (Built(self._folder.key, self._observed(power)),)

    def _failed(self) -> Sequence[DriverEvent]:
        return ()

    # -- built ---------------------------------------------------------------------------------------------

    def _rest(self) -> Sequence[DriverEvent]:
        """Detect that it has ended by itself."""
        now = self._around.monotonic()
        if now - self._looked_at < WATCH_S or self._reached.power is Power.STOPPED:
            return ()
        # Processes that it has started must not outlive it: a stopped instance runs nothing.
        if self._folder.status() is Status.RUNNING or not self._has_ended(is_hard=True):
            self._looked_at = now
            return ()
        return (Changed(self._folder.key, self._ended_by_itself()),)

    def _ended_by_itself(self) -> Observed:
        if self._reached.power is Power.STOPPED:
            return self._observed(Power.STOPPED)
        self._note(replace(self._reached, power=Power.STOPPED))
        return self._observed(Power.STOPPED, self._why_ended())

    def _observed(self, power: Power, reason: str = "") -> Observed:
        return Observed(self._reached.generation, power, reason, self._reached.rebuilds)

    def _reach(self) -> Sequence[DriverEvent]:
        desired, status = self._desired, self._folder.status()
        if self._is_starting(status):
            return ()
        if desired.rebuilds > self._reached.rebuilds:
            return self._rebuild()
        match desired.power:
            case Power.SUSPENDED:
                return self._done(self._present_power(), SUSPEND_UNSUPPORTED)
            case Power.STOPPED:
                return self._done(Power.STOPPED) if self._has_ended() else ()
            case _ if desired.reboots != self._reached.reboots:
                if self._has_ended(is_hard=desired.reboot_type is RebootType.HARD):
                    self._note(replace(self._reached, power=Power.STOPPED, reboots=desired.reboots))
                return ()
            case power:
                return self._run(power, status)

    def _rebuild(self) -> Sequence[DriverEvent]:
        """End it and empty its folder; the next steps start it again, unless it is to be stopped."""
        desired = self._desired
        if self._has_ended() and self._folder.empty(str(desired.image.get("name", ""))):
            self._note(replace(self._reached, power=Power.STOPPED, rebuilds=desired.rebuilds))
        return ()

    def _run(self, power: Power, status: Status) -> Sequence[DriverEvent]:
        """Start it where it has ended, then pause it or let it go on."""
        if status is Status.RUNNING:
            return self._signal(power)
        if self._launched_for == self._desired.generation:
            return self._done(Power.STOPPED, self._why_ended())
        if self._has_ended(is_hard=True):
            self._folder.make_startable()
            self._launched, self._launched_for = self._around.launch(self._folder), self._desired.generation
        return ()

    def _signal(self, power: Power) -> Sequence[DriverEvent]:
        if self._present_power() is power:
            return self._done(power)
        process = self._folder.process()
        if process is not None:
            process_table.send(process, signal.SIGSTOP if power is Power.PAUSED else signal.SIGCONT)
        return ()

    def _done(self, power: Power, reason: str = "") -> Sequence[DriverEvent]:
        generation = self._desired.generation
        reboots = self._reached.reboots if reason else self._desired.reboots
        self._note(Reached(generation, power, reboots, self._reached.rebuilds))
        self._looked_at = self._around.monotonic()
        self._asked_to_end_at = math.inf
        self._step = self._rest
        return (Changed(self._folder.key, self._observed(power, reason)),)

    def _note(self, reached: Reached) -> None:
        if reached != self._reached or not self._folder.was_built():
            self._folder.note_reached(reached)
            self._reached = reached

    def _present_power(self) -> Power:
        process = self._folder.process()
        if process is None or not process_table.is_alive(process):
            return Power.STOPPED
        return Power.PAUSED if process_table.are_paused(process) else Power.RUNNING

    # -- ending --------------------------------------------------------------------------------------------

    def _end(self) -> Sequence[DriverEvent]:
        """End all processes of its session, then remove its folder."""
        if self._folder.status() is not Status.STARTING:
            self._has_ended()
        if not self._folder.remove():
            return ()
        self._step = self._gone
        return (Destroyed(self._folder.key),)

    def _gone(self) -> Sequence[DriverEvent]:
        return ()

    def _has_ended(self, *, is_hard: bool = False) -> bool:
        """Tell whether nothing of its session runs; otherwise ask for its end, and enforce it in time."""
        process = self._folder.process()
        if process is None or not process_table.members(process):
            return True
        now = self._around.monotonic()
        is_led = process_table.is_alive(process)
        if is_hard or not is_led or now - self._asked_to_end_at > self._around.stop_s:
            process_table.send(process, signal.SIGKILL)
        elif self._asked_to_end_at == math.inf:
            self._asked_to_end_at = now
            process_table.send(process, signal.SIGTERM)
            # A paused process receives the signal once it goes on.
            process_table.send(process, signal.SIGCONT)
        return False

    def _why_ended(self) -> str:
        if self._folder.was_not_started() or self._folder.process() is None:
            return NOT_STARTED
        # The exit code of a process that an earlier agent started is unknown.
        code = self._launched.wait() if self._launched is not None else 0
        if code < 0:
            return KILLED
        return FAILED if code else ENDED
