"""Folder of one instance of the process driver: its specification, process identity, disk and output.

lock          held by the launcher until the command runs
wanted.json   command, environment and limits, written before anything is started
process.json  the identity of its process, written by the launcher before the command runs
error         why the command could not be run
disk/         its working directory
output.log    its output
"""

from __future__ import annotations

import enum
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zonesched.compute import process_table
from zonesched.compute.machine import Key
from zonesched.compute.process_table import Process

UNFINISHED = "unfinished."


class Standing(enum.Enum):
    """Status of an instance, by its folder and the machine's processes."""

    ABSENT = "absent"
    PREPARED = "prepared"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


class InstanceFolder:
    """Folder of one instance in `root`; it may not exist."""

    def __init__(self, root: Path, key: Key) -> None:
        self.key = key
        self.path = root / f"{key.uuid}.{key.attempt}"
        self._unfinished = root / f"{UNFINISHED}{self.path.name}"

    def prepare(self, wanted: Mapping[str, Any]) -> None:
        """Create the folder with its contents, atomically."""
        shutil.rmtree(self._unfinished, ignore_errors=True)
        (self._unfinished / "disk").mkdir(parents=True, mode=0o700)
        (self._unfinished / "lock").touch(mode=0o600)
        (self._unfinished / "wanted.json").write_text(json.dumps(wanted), encoding="utf-8")
        self._unfinished.rename(self.path)

    def standing(self) -> Standing:
        """Read the present status."""
        if not self.path.is_dir():
            return Standing.ABSENT
        with self._locked() as is_free:
            return self._standing() if is_free else Standing.STARTING

    def process(self) -> Process | None:
        """Return its process, dead or alive; None before it was started."""
        try:
            found = json.loads((self.path / "process.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return Process(found["pid"], found["started"], found["boot_id"])

    def was_not_started(self) -> bool:
        """Tell whether its command could not be run."""
        return (self.path / "error").exists()

    def remove(self) -> bool:
        """Remove the folder, so that nothing can start; return false if anything of the instance runs."""
        if not self.path.is_dir():
            return True
        with self._locked() as is_free:
            if not is_free:
                return False
            process = self.process()
            if process is not None and process_table.members(process):
                return False
            # A launcher that waits for the lock finds the folder gone, and exits.
            shutil.rmtree(self._unfinished, ignore_errors=True)
            self.path.rename(self._unfinished)
        shutil.rmtree(self._unfinished, ignore_errors=True)
        return True

    def _standing(self) -> Standing:
        process = self.process()
        if process is None:
            return Standing.PREPARED
        return Standing.RUNNING if process_table.is_alive(process) else Standing.ENDED

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        """Hold the lock for the block, unless the launcher has it; yield whether it was taken."""
        with open(self.path / "lock", "r+b") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True


def all_in(root: Path) -> list[InstanceFolder]:
    """List the instances that have a folder; remove folders that an earlier agent left incomplete."""
    found: list[InstanceFolder] = []
    for path in sorted(root.iterdir()):
        if path.name.startswith(UNFINISHED):
            shutil.rmtree(path, ignore_errors=True)
        elif path.is_dir():
            uuid, _, attempt = path.name.rpartition(".")
            found.append(InstanceFolder(root, Key(uuid, int(attempt))))
    return found


def take_for_this_process(root: Path) -> int:
    """Make the root and lock it until this process ends; return the lock. Raises BlockingIOError."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(root / "agent.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise
    return lock
