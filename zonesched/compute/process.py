"""The process driver: an instance is a process of this machine, in a session of its own.

It outlives the agent. The folders of the instances and the machine's processes tell what runs, never this
process's memory, so that a restarted agent finds everything and starts nothing twice.
"""

from __future__ import annotations

import hashlib
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zonesched.compute import instance_folder, launcher, process_table
from zonesched.compute.driver import DriverSettings
from zonesched.compute.instance_folder import InstanceFolder, Standing
from zonesched.compute.machine import Built, Destroyed, DriverEvent, Failed, Key, Wanted
from zonesched.errors import ConfigError
from zonesched.seams import Clock

DEFAULT_COMMAND = ("sleep", "infinity")
SOON_S, WATCH_S = 0.05, 1.0
LOST, NOT_STARTED = "process_lost", "process_not_started"
ENDED, FAILED, KILLED = "process_ended", "process_failed", "process_killed"


@dataclass
class _Instance:
    """Work on one instance; it waits until no other attempt is left."""

    folder: InstanceFolder
    wanted: Wanted | None
    step: Callable[[_Instance], None]
    looked_at: float = -math.inf
    asked_to_end_at: float = math.inf


class ProcessDriver:
    """Runs `settings.command` as the process of each instance, with limits from the flavor."""

    def __init__(self, settings: DriverSettings, clock: Clock) -> None:
        if not settings.state_folder:
            raise ConfigError("The process driver needs a state folder.", field="state_folder")
        self._root = Path(settings.state_folder).resolve() / "instances"
        try:
            self._lock = instance_folder.take_for_this_process(self._root)
        except BlockingIOError:
            raise ConfigError(f"The state folder {self._root} is used by another agent.") from None
        self._settings = settings
        self._clock = clock
        self._instances: dict[Key, _Instance] = {}
        self._launched: dict[Key, subprocess.Popen[bytes]] = {}
        self._happened: list[DriverEvent] = []

    def found(self) -> Sequence[Key]:
        """Find the instances of an earlier agent, running or ended; those that never started are left out."""
        for folder in instance_folder.all_in(self._root):
            if folder.standing() is Standing.PREPARED and folder.remove():
                continue
            self._instances[folder.key] = _Instance(folder, None, self._start)
        return sorted(self._instances)

    def spawn(self, wanted: Wanted) -> None:
        if wanted.key in self._instances:
            return
        folder = InstanceFolder(self._root, wanted.key)
        if wanted.is_active and folder.standing() is Standing.ABSENT:
            # It ran, and its disk is not here: a new process would not be the same instance.
            self._happened.append(Failed(wanted.key, LOST))
            return
        self._instances[wanted.key] = _Instance(folder, wanted, self._await_turn)

    def destroy(self, key: Key) -> None:
        one = self._instances.setdefault(key, _Instance(InstanceFolder(self._root, key), None, self._end))
        one.step = self._end

    def poll(self) -> Sequence[DriverEvent]:
        for one in list(self._instances.values()):
            one.step(one)
        for key in [key for key, launched in self._launched.items() if launched.poll() is not None]:
            if key not in self._instances:
                del self._launched[key]
        happened, self._happened = self._happened, []
        return happened

    def next_event_s(self) -> float:
        if self._happened:
            return 0.0
        steps = {one.step for one in self._instances.values()}
        if steps - {self._watch, self._rest}:
            return SOON_S
        return WATCH_S if self._watch in steps else math.inf

    # -- one instance, step by step ------------------------------------------------------------------------

    def _await_turn(self, one: _Instance) -> None:
        """Prepare its folder once no other attempt of the same instance is left on this machine."""
        others = self._root.glob(f"{one.folder.key.uuid}.*")
        if any(path != one.folder.path for path in others):
            return
        if one.folder.standing() is Standing.ABSENT and one.wanted is not None:
            one.folder.prepare(self._form(one.wanted))
        one.step = self._start
        self._start(one)

    def _start(self, one: _Instance) -> None:
        """Keep a launcher running until it has become the instance."""
        key = one.folder.key
        match one.folder.standing():
            case Standing.PREPARED if key not in self._launched:
                self._launched[key] = self._launch(one.folder)
            case Standing.RUNNING:
                self._happened.append(Built(key))
                one.step = self._watch
            case Standing.ENDED | Standing.ABSENT:
                self._tell_end(one)
            case Standing.PREPARED if self._launched[key].poll() is not None:
                # The launcher died before it ran the command.
                self._tell_end(one)
            case _:
                pass

    def _watch(self, one: _Instance) -> None:
        """Detect that it has ended by itself."""
        now = self._clock.monotonic()
        if now - one.looked_at < WATCH_S:
            return
        one.looked_at = now
        if one.folder.standing() is not Standing.RUNNING:
            self._tell_end(one)

    def _tell_end(self, one: _Instance) -> None:
        one.step = self._rest
        self._happened.append(Failed(one.folder.key, self._why_ended(one)))

    def _rest(self, one: _Instance) -> None:
        """Do nothing: it has ended, and waits to be removed."""

    def _end(self, one: _Instance) -> None:
        """End all processes of its session, then remove its folder."""
        key, process = one.folder.key, one.folder.process()
        if process is not None and one.folder.standing() is not Standing.STARTING:
            now = self._clock.monotonic()
            if one.asked_to_end_at == math.inf and process_table.is_alive(process):
                one.asked_to_end_at = now
                process_table.send(process, signal.SIGTERM)
            elif (
                not process_table.is_alive(process) or now - one.asked_to_end_at > self._settings.stop_seconds
            ):
                process_table.send(process, signal.SIGKILL)
        if one.folder.remove():
            del self._instances[key]
            self._happened.append(Destroyed(key))

    # -- what is started -----------------------------------------------------------------------------------

    def _launch(self, folder: InstanceFolder) -> subprocess.Popen[bytes]:
        # In a session of its own, so that no signal to the agent's reaches it.
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(launcher.__file__), str(folder.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={},
        )

    def _why_ended(self, one: _Instance) -> str:
        if one.folder.was_not_started() or one.folder.process() is None:
            return NOT_STARTED
        launched = self._launched.get(one.folder.key)
        # The exit code of a process that an earlier agent started is unknown.
        code = launched.wait() if launched is not None else 0
        if code < 0:
            return KILLED
        return FAILED if code else ENDED

    def _form(self, wanted: Wanted) -> Mapping[str, Any]:
        """Build the input of the launcher, without the agent's own environment, which may have secrets."""
        flavor = wanted.flavor
        vcpus = int(flavor.get("vcpus", 0))
        return {
            "command": list(self._settings.command or DEFAULT_COMMAND),
            "environment": {
                "PATH": os.environ.get("PATH", os.defpath),
                "ZONESCHED_INSTANCE_UUID": wanted.key.uuid,
                "ZONESCHED_INSTANCE_NAME": wanted.name,
                "ZONESCHED_INSTANCE_ATTEMPT": str(wanted.key.attempt),
                "ZONESCHED_HOST": wanted.host,
                "ZONESCHED_FLAVOR": str(flavor.get("name", "")),
                "ZONESCHED_IMAGE": str(wanted.image.get("name", "")),
            },
            "cpus": cpus_for(wanted.key.uuid, vcpus, sorted(os.sched_getaffinity(0))),
            "ram_mb": int(flavor.get("ram", 0)),
            "disk_gb": int(flavor.get("disk", 0)),
        }


def cpus_for(uuid: str, vcpus: int, cpus: Sequence[int]) -> list[int]:
    """Choose as many of the machine's CPUs as an instance may use, by its uuid.

    Empty where it may use all.
    """
    if not 0 < vcpus < len(cpus):
        return []
    first = int.from_bytes(hashlib.sha256(uuid.encode()).digest()[:4]) % len(cpus)
    return sorted(cpus[(first + n) % len(cpus)] for n in range(vcpus))
