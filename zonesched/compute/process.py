"""The process driver: an instance is a process of this machine, in a session of its own.

It outlives the agent. The driver reads what runs from the folders of the instances and the machine's
processes, never from memory, so that a restarted agent finds everything and starts nothing twice.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zonesched.compute import copied_folder, instances_root, launcher, lease, removal, watchdog
from zonesched.compute.desired_state import Desired
from zonesched.compute.driver import DriverSettings
from zonesched.compute.instance_folder import (
    IMAGE_VARIABLE,
    NAME_VARIABLE,
    InstanceFolder,
    Status,
)
from zonesched.compute.lease import Lease
from zonesched.compute.machine import DriverEvent, Key, Wanted
from zonesched.compute.missing_instance import MissingInstance
from zonesched.compute.process_instance import ProcessInstance
from zonesched.compute.process_surroundings import Arrival, Surroundings
from zonesched.errors import ConfigError
from zonesched.model.console import CONSOLE_TRAIT, MAX_CONSOLE_BYTES
from zonesched.seams import Clock

DEFAULT_COMMAND = ("sleep", "infinity")
POLL_S = 1.0
"""Longest time for the steps of one poll; the next one begins with the instances that had none."""

log = logging.getLogger(__name__)


class ProcessDriver:
    """Runs `settings.command` as the process of each instance, with limits from the flavor."""

    traits = frozenset({CONSOLE_TRAIT, "COMPUTE_PAUSE"})
    workers = 1

    def __init__(self, settings: DriverSettings, clock: Clock) -> None:
        if not settings.state_folder:
            raise ConfigError(
                "The process driver needs a state folder: --state-folder.", field="state_folder"
            )
        self._root = Path(settings.state_folder).resolve() / "instances"
        try:
            self._lock = instances_root.take_for_this_process(self._root)
        except BlockingIOError:
            raise ConfigError(f"The state folder {self._root} is used by another agent.") from None
        copied_folder.refuse(self._root, self._lock)
        self._settings = settings
        # Not looked into: its server may be gone.
        shared = Path(os.path.abspath(settings.shared_folder)) if settings.shared_folder else None
        self._around = Surroundings(
            self._root,
            shared,
            self._launch,
            self._may_launch,
            self._remove,
            clock.monotonic,
            settings.stop_seconds,
        )
        self._lease = lease.read(self._root)
        self._records = watchdog.Records(self._root)
        self._instances: dict[Key, ProcessInstance | MissingInstance] = {}
        self._launched: list[subprocess.Popen[bytes]] = []
        self._happened: list[DriverEvent] = []
        self._put_off: dict[Key, str] = {}

    def lease(self) -> Lease:
        return self._lease

    def hold(self, lease_: Lease) -> None:
        lease.write(self._root, lease_)
        if lease_.until_s < math.inf:
            self._launched += watchdog.ensure(self._root)
        self._lease = lease_

    def work(self) -> float:
        """End all instances once the lease has ended; return the pause until the next look at it.

        The watchdog does so as well, but may have been killed on a machine that cannot start another one. The
        lease is the one that the driver holds: a later one may be written that nobody keeps.
        """
        if self._lease.until_s < math.inf:
            self._records.ask()
        return min(watchdog.look(self._records, self._lease), watchdog.LOOK_S)

    def found(self) -> Sequence[Key]:
        """Find the instances of an earlier agent, running or ended; those that never started are left out."""
        for folder in instances_root.complete_in(self._root):
            try:
                if folder.status() is Status.PREPARED and not folder.was_built() and folder.put_aside():
                    continue
            except (OSError, ValueError):
                # It says so once it is read.
                pass
            self._earlier(folder.key)
        self._remove(instances_root.put_unfinished_aside(self._root))
        return sorted(self._instances)

    def _earlier(self, key: Key) -> ProcessInstance | MissingInstance:
        """Return an instance that an earlier agent has left, where it is not known yet."""
        if key not in self._instances:
            self._instances[key] = ProcessInstance(self._around, key)
        return self._instances[key]

    def spawn(self, wanted: Wanted) -> None:
        if wanted.key in self._instances:
            return
        if wanted.is_active and InstanceFolder(self._root, wanted.key).status() is Status.ABSENT:
            # It ran, and its disk is not here: a new process would not be the same instance.
            self._miss(wanted)
            return
        arrival = Arrival(wanted.moved_from, wanted.desired) if wanted.moved_from else None
        self._instances[wanted.key] = ProcessInstance(self._around, wanted.key, self._form(wanted), arrival)

    def apply(self, key: Key, desired: Desired) -> None:
        if key in self._instances:
            self._instances[key].apply(desired)

    def leave(self, wanted: Wanted) -> None:
        key = wanted.key
        if key not in self._instances and InstanceFolder(self._root, key).status() is Status.ABSENT:
            self._miss(wanted)
        self._earlier(key).leave(wanted.leaves_for)

    def _miss(self, wanted: Wanted) -> None:
        log.error(
            "instance %s, attempt %d, is not in %s: if that is not mounted, mount it and restart the agent;"
            " if it is lost, delete the server",
            wanted.key.uuid,
            wanted.key.attempt,
            self._root,
        )
        self._instances[wanted.key] = MissingInstance(wanted)

    def come_back(self, wanted: Wanted) -> None:
        self._instances[wanted.key].come_back()

    def read_console(self, key: Key) -> bytes:
        return InstanceFolder(self._root, key).newest_output(MAX_CONSOLE_BYTES)

    def destroy(self, key: Key) -> None:
        self._earlier(key).end()

    def poll(self) -> Sequence[DriverEvent]:
        """Take a step with each instance in turn, until the agent has to call its zone again."""
        happened, self._happened = self._happened, []
        ends_at = self._around.monotonic() + POLL_S
        for key in list(self._instances):
            instance = self._instances[key] = self._instances.pop(key)
            happened += self._advance(key, instance)
            if instance.is_gone:
                del self._instances[key]
            if self._around.monotonic() >= ends_at:
                break
        self._launched = [launched for launched in self._launched if launched.poll() is None]
        return happened

    def _advance(self, key: Key, instance: ProcessInstance | MissingInstance) -> Sequence[DriverEvent]:
        """Take one step with an instance; where the machine refuses that, only this instance waits for it."""
        try:
            events = instance.advance()
        except (OSError, ValueError) as error:
            # Mostly a full disk, or a file that a power cut has left empty. Said once, and the step is taken
            # again at each poll.
            if self._put_off.get(key) != str(error):
                log.error("instance %s, attempt %d, waits: %s", key.uuid, key.attempt, error)
            self._put_off[key] = str(error)
            return instance.put_off()
        self._put_off.pop(key, None)
        return events

    def next_event_s(self) -> float:
        if self._happened:
            return 0.0
        return min((instance.next_step_s() for instance in self._instances.values()), default=math.inf)

    def _may_launch(self) -> bool:
        return self._lease.is_held(self._around.monotonic())

    def _mend_lease(self) -> None:
        """Write the lease of an agent that does not fence anew where its file is damaged.

        Launchers start nothing without it, and such an agent has no renewals. Raises OSError.
        """
        if self._lease.until_s < math.inf or lease.read(self._root) == self._lease:
            return
        log.error("%s is damaged, and is written anew", self._root / lease.FILE)
        lease.write(self._root, self._lease)

    def _launch(self, folder: InstanceFolder) -> subprocess.Popen[bytes]:
        self._mend_lease()
        # In a session of its own, so that no signal to the agent's reaches it.
        launched = subprocess.Popen(
            [sys.executable, "-I", "-S", str(launcher.__file__), str(folder.path), str(self._lease.term)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={},
        )
        self._launched.append(launched)
        return launched

    def _remove(self, paths: Sequence[Path]) -> None:
        if paths:
            self._launched.append(removal.start(paths))

    def _form(self, wanted: Wanted) -> Mapping[str, Any]:
        """Build the input of the launcher, without the agent's own environment, which may have secrets."""
        flavor = wanted.flavor
        vcpus = int(flavor.get("vcpus", 0))
        return {
            "command": list(self._settings.command or DEFAULT_COMMAND),
            "environment": {
                "PATH": os.environ.get("PATH", os.defpath),
                "ZONESCHED_INSTANCE_UUID": wanted.key.uuid,
                NAME_VARIABLE: wanted.name,
                "ZONESCHED_INSTANCE_ATTEMPT": str(wanted.key.attempt),
                "ZONESCHED_HOST": wanted.host,
                "ZONESCHED_FLAVOR": str(flavor.get("name", "")),
                IMAGE_VARIABLE: str(wanted.image.get("name", "")),
            },
            "reboots": wanted.desired.reboots,
            "rebuilds": wanted.desired.rebuilds,
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
