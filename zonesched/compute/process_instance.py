"""One instance of the process driver, and its steps from one state to the next.

    reading   what an earlier agent has done with it; it stays as it is while a file of that is damaged
    waiting   until no other attempt of the same instance is left on this machine
    fetching  the disk of an instance that comes from another host
    starting  until the launcher has become the instance for the first time, or was found
    resting   in the last state that was asked for, or ended by itself
    reaching  a newer desired state
    leaving   for another host: ended, and copied to the shared folder
    left      until it returns or is ended; also one that the watchdog has ended
    ending    until nothing of it is left

What must outlive the agent is written before the step that relies on it: a reboot or rebuild is counted
after the old process has ended and before the new one starts, so that an agent that dies in between starts
it once. The folder is emptied before its rebuild is counted, so that a rebuild that was cut short empties it
again.
"""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from zonesched.compute import instance_records, instances_root
from zonesched.compute.desired_state import FIRST_DESIRED, Desired, Observed, Power, RebootType
from zonesched.compute.instance_folder import InstanceFolder, Status
from zonesched.compute.instance_records import FolderDamaged, Reached
from zonesched.compute.instance_session import NOT_STARTED, InstanceSession
from zonesched.compute.machine import Built, Changed, Destroyed, DriverEvent, Failed, Fenced, Key, Left
from zonesched.compute.process_surroundings import Arrival, Surroundings

SOON_S, WATCH_S = 0.05, 1.0
LOST, SUSPEND_UNSUPPORTED = "process_lost", "suspend_unsupported"
NOT_SHARED, NOT_COPIED = "folder_not_shared", "folder_not_copied"


class ProcessInstance:
    """An instance of this agent or, without `form` (the launcher's input), of an earlier one."""

    def __init__(
        self,
        around: Surroundings,
        key: Key,
        form: Mapping[str, Any] | None = None,
        arrival: Arrival | None = None,
    ) -> None:
        self._around = around
        self._form = form
        self._folder = InstanceFolder(around.root, key)
        self._session = InstanceSession(around, self._folder)
        self._step: Callable[[], Sequence[DriverEvent]] = self._read if form is None else self._await_turn
        self._reached = instance_records.first_state(form or {})
        self._desired = FIRST_DESIRED
        self._launched_for = 0
        self._looked_at = -math.inf
        self._is_ending = False  # It was asked to end for an earlier state than the desired one.
        self._arrival = arrival
        self._leaves_for = 0
        self._copying: subprocess.Popen[bytes] | None = None
        self._is_read = form is not None
        if not self._is_read:
            with suppress(FolderDamaged, OSError):
                self._read()

    @property
    def is_gone(self) -> bool:
        return self._step == self._gone

    def advance(self) -> Sequence[DriverEvent]:
        """Take one step; return its events."""
        if self._step in (self._start, self._rest, self._reach) and self._folder.was_fenced():
            return self._await_fence()
        if self._step in (self._rest, self._reach, self._return) and not self._folder.path.is_dir():
            return self.fail(LOST)
        if self._step in (self._start, self._reach, self._return) and not self._around.may_launch():
            return ()
        return self._step()

    def _read(self) -> Sequence[DriverEvent]:
        """Read what an earlier agent has done with it. Raises FolderDamaged where that is unknown.

        Until the file is mended nothing is reported: a zone that hears of a failure lets the folder go.
        """
        self._reached, self._leaves_for = self._folder.reached(), self._folder.leaves_for()
        self._is_read = True
        self._step = self._leave if self._leaves_for else self._start
        return ()

    def put_off(self) -> Sequence[DriverEvent]:
        """Give up a build whose step was refused by the machine; any other step is taken again."""
        reason = {self._await_turn: NOT_STARTED, self._fetch: NOT_COPIED}.get(self._step, "")
        return self.fail(reason) if reason else ()

    def next_step_s(self) -> float:
        """Seconds until a step may have events; infinity where only a call can change anything."""
        if self._step in (self._failed, self._left):
            return math.inf
        if self._step not in (self._rest, self._read):
            return SOON_S
        return math.inf if self._reached.power is Power.STOPPED else WATCH_S

    def apply(self, desired: Desired) -> None:
        """Go on to a desired state that is newer than the last one."""
        if self._step == self._rest and desired.generation > self._reached.generation:
            # What was asked to end until now had been left behind by one that ended by itself.
            self._session.withdraw_end()
            self._step = self._reach
        if self._step == self._reach and desired.generation > self._desired.generation:
            self._is_ending = self._is_ending or self._session.is_asked_to_end
            self._desired = desired
            self._session.withdraw_end()

    def leave(self, leaves_for: int) -> None:
        """End it for its move to another host, in whatever state it is."""
        is_begun = leaves_for == self._leaves_for and self._step == self._leave
        if is_begun or self._step == self._end:
            return
        self._stop_copying()
        self._session.withdraw_end()
        self._leaves_for = leaves_for
        self._step = self._leave

    def come_back(self) -> None:
        """Run it again as before it left."""
        if self._step in (self._leave, self._left):
            self._stop_copying()
            self._around.remove_copies_of(self._folder)
            self._session.withdraw_end()
            self._leaves_for = 0
            self._step = self._return
            if not self._is_read:
                self._folder.note_return()
                self._step = self._read

    def end(self) -> None:
        """End it, in whatever state it is."""
        if self._step != self._end:
            self._stop_copying()
            self._session.withdraw_end()
            self._step = self._end

    # -- building ------------------------------------------------------------------------------------------

    def _await_turn(self) -> Sequence[DriverEvent]:
        uuid, kept = self._folder.key.uuid, {self._folder.path.name}
        if self._arrival is not None:
            kept.add(f"{uuid}.{self._arrival.attempt}")
        if any(name.startswith(f"{uuid}.") and name not in kept for name in os.listdir(self._around.root)):
            return ()
        if self._arrival is not None and self._folder.status() is Status.ABSENT:
            self._step = self._fetch
            return self._fetch()
        if self._folder.status() is Status.ABSENT and self._form is not None:
            self._folder.prepare(self._form)
        self._step = self._start
        return self.advance()

    def _fetch(self) -> Sequence[DriverEvent]:
        """Copy its disk from the folder where its last host has left it, unless it is to be rebuilt."""
        assert self._arrival is not None and self._form is not None
        desired = self._arrival.desired
        if self._copying is None:
            source = self._around.source_of(self._folder.key.uuid, self._arrival)
            if source is None:
                return self.fail(NOT_SHARED)
            is_kept = instances_root.at(source).reached().rebuilds == desired.rebuilds
            self._copying = self._folder.start_copy_of(source, with_disk=is_kept)
        if (code := self._copying.poll()) is None:
            return ()
        self._copying = None
        if code:
            return self.fail(NOT_COPIED)
        self._reached = Reached(desired.generation, desired.power, desired.reboots, desired.rebuilds)
        if desired.power not in (Power.RUNNING, Power.STOPPED):
            # It starts running; that state is asked for once it does.
            self._reached = replace(self._reached, generation=desired.generation - 1, power=Power.RUNNING)
        is_stopped = desired.power is Power.STOPPED
        self._folder.finish_copy(self._form, self._reached if is_stopped else None)
        self._step = self._start
        return self.advance()

    def fail(self, reason: str) -> Sequence[DriverEvent]:
        """Leave it as it is until it is ended."""
        self._step = self._failed
        return (Failed(self._folder.key, reason),)

    def _start(self) -> Sequence[DriverEvent]:
        key, status = self._folder.key, self._folder.status()
        if status is Status.PREPARED and self._folder.was_built() and self._reached.power is Power.STOPPED:
            # It was stopped when it came from another host, and was not started since.
            self._step = self._rest
            return (Built(key, self._observed()),)
        if status is Status.PREPARED and not self._session.was_launched:
            self._session.launch()
            return ()
        if self._session.was_refused:
            self._session.forget_launch()
            return ()
        if self._session.is_starting(status):
            return ()
        if status is Status.RUNNING:
            return self._found_running()
        if self._folder.was_built():
            self._step = self._rest
            return (Built(key, self._ended_by_itself()),)
        return self.fail(self._session.why_ended())

    def _found_running(self) -> Sequence[DriverEvent]:
        self._note(replace(self._reached, power=self._folder.power()))
        self._step = self._rest
        return (Built(self._folder.key, self._observed()),)

    def _failed(self) -> Sequence[DriverEvent]:
        return ()

    # -- built ---------------------------------------------------------------------------------------------

    def _rest(self) -> Sequence[DriverEvent]:
        """Detect that it has ended by itself."""
        now = self._around.monotonic()
        if now - self._looked_at < WATCH_S or self._reached.power is Power.STOPPED:
            return ()
        # A launcher that came late may look at it. What it has started must not outlive it.
        status = self._folder.status()
        if status in (Status.RUNNING, Status.STARTING) or not self._session.has_ended(is_hard=True):
            self._looked_at = now
            return ()
        return (Changed(self._folder.key, self._ended_by_itself()),)

    def _ended_by_itself(self) -> Observed:
        if self._reached.power is not Power.STOPPED:
            self._note(replace(self._reached, power=Power.STOPPED, reason=self._session.why_ended()))
        return self._observed()

    def _observed(self) -> Observed:
        at = self._reached
        return Observed(at.generation, at.power, at.reason, at.rebuilds)

    def _reach(self) -> Sequence[DriverEvent]:
        desired, status = self._desired, self._folder.status()
        stopped = replace(self._reached, power=Power.STOPPED, reason="")
        if self._session.is_starting(status):
            return ()
        if desired.rebuilds > self._reached.rebuilds:
            return self._rebuild()
        match desired.power:
            case Power.SUSPENDED if not self._is_ending:
                return self._done(self._folder.power(), SUSPEND_UNSUPPORTED)
            case Power.STOPPED:
                return self._done(Power.STOPPED) if self._session.has_ended() else ()
            case _ if desired.reboots > self._reached.reboots:
                # What cannot be started again is not ended for that.
                self._folder.wanted()
                if self._session.has_ended(is_hard=desired.reboot_type is RebootType.HARD):
                    self._note(replace(stopped, reboots=desired.reboots))
                return ()
            case power:
                return self._run(power, status)

    def _rebuild(self) -> Sequence[DriverEvent]:
        """End it and empty its folder; the next steps start it again, unless it is to be stopped."""
        desired = self._desired
        self._folder.wanted()
        if self._session.has_ended() and self._folder.empty(str(desired.image.get("name", ""))):
            self._note(replace(self._reached, power=Power.STOPPED, rebuilds=desired.rebuilds, reason=""))
        return ()

    def _run(self, power: Power, status: Status) -> Sequence[DriverEvent]:
        """Start it where it has ended, then pause it or let it go on."""
        if status is Status.RUNNING:
            return self._signal(power)
        if self._launched_for == self._desired.generation and not self._session.was_refused:
            return self._done(Power.STOPPED, self._session.why_ended())
        self._folder.wanted()
        if self._session.has_ended(is_hard=True):
            self._folder.make_startable()
            self._session.launch()
            self._launched_for = self._desired.generation
        return ()

    def _signal(self, power: Power) -> Sequence[DriverEvent]:
        if power is Power.SUSPENDED:
            # It runs again after the reboot that the suspend has met.
            return self._done(self._folder.power(), SUSPEND_UNSUPPORTED)
        if self._folder.power() is power:
            return self._done(power)
        self._session.pause_or_resume(power)
        return ()

    def _done(self, power: Power, reason: str = "") -> Sequence[DriverEvent]:
        desired = self._desired
        # A reboot that was not done is passed over: a later state must not bring it about.
        self._note(Reached(desired.generation, power, desired.reboots, self._reached.rebuilds, reason))
        self._looked_at = self._around.monotonic()
        self._session.withdraw_end()
        self._is_ending = False
        self._step = self._rest
        return (Changed(self._folder.key, self._observed()),)

    def _note(self, reached: Reached) -> None:
        if reached != self._reached or not self._folder.was_built():
            self._folder.note_reached(reached)
            self._reached = reached

    # -- leaving -------------------------------------------------------------------------------------------

    def _leave(self) -> Sequence[DriverEvent]:
        """End its processes, then copy its folder to where other machines reach it."""
        if self._folder.leaves_for() != self._leaves_for:
            self._folder.note_leaving(self._leaves_for)
        if self._folder.status() is Status.STARTING or not self._session.has_ended():
            return ()
        if self._around.shared is None:
            return self._has_left("")
        try:
            if self._copying is None:
                self._copying = self._folder.start_copy_to(self._around.reached_shared())
            if (code := self._copying.poll()) is None:
                return ()
            self._copying = None
            if code == 0:
                self._folder.finish_copy_to(self._around.reached_shared())
        except OSError:
            # The shared folder may be full or away.
            code = 1
        return self._has_left(NOT_COPIED if code else "")

    def _has_left(self, reason: str) -> Sequence[DriverEvent]:
        self._step = self._left
        return (Left(self._folder.key, self._leaves_for, reason),)

    def _left(self) -> Sequence[DriverEvent]:
        return ()

    def _await_fence(self) -> Sequence[DriverEvent]:
        if not self._session.has_ended(is_hard=True):
            return ()
        self._step = self._left
        return (Fenced(self._folder.key),)

    def _return(self) -> Sequence[DriverEvent]:
        """Start what ran before it left."""
        if self._reached.power is Power.STOPPED:
            self._folder.make_startable()
            self._step = self._rest
            return (Built(self._folder.key, self._observed()),)
        if self._folder.status() is Status.STARTING or not self._session.has_ended(is_hard=True):
            return ()
        self._folder.wanted()
        self._folder.make_startable()
        self._session.launch()
        self._step = self._start
        return ()

    def _stop_copying(self) -> None:
        if self._copying is not None:
            self._copying.kill()
            self._copying.wait()
            self._copying = None

    # -- ending --------------------------------------------------------------------------------------------

    def _end(self) -> Sequence[DriverEvent]:
        """End all processes of its session, then remove its folder."""
        is_starting = self._folder.status() is Status.STARTING
        if not is_starting and self._session.has_ended() and self._folder.path.is_dir():
            # Before the folder, by which alone the next agent would know of them.
            self._around.remove_copies_of(self._folder)
        if not self._folder.remove():
            return ()
        self._step = self._gone
        return (Destroyed(self._folder.key),)

    def _gone(self) -> Sequence[DriverEvent]:
        return ()
