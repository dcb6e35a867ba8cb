"""Watchdog of the process driver: ends all instances of an agent once its lease has run out.

It is a process in a session of its own, so it acts also while the agent is dead, stopped or stuck in a call,
and while the file system of the folder hangs.
It ends by itself once the lease has run out and nothing runs; the agent starts it with the next lease.
"""

from __future__ import annotations

import fcntl
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from zonesched.compute import instances_root, lease, process_table
from zonesched.compute.lease import Lease
from zonesched.compute.process_table import Process

LOCK = "watchdog.lock"
LOOK_S = 0.5
"""Longest pause between two looks at the lease, which may also become shorter."""
KILL_PAUSE_S = 0.05
ANSWER_S = 1.0
"""Time in which the file system of the folder has to answer."""

IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""Signals for the agent: whoever stops the agent of a machine means that alone."""

Stamp = tuple[int, int]
"""Inode and time of a file: one that is written anew has another."""


def ensure(root: Path) -> Sequence[subprocess.Popen[bytes]]:
    """Start the watchdog of a folder unless it runs; return what was started."""
    lock = os.open(root / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ()
    finally:
        os.close(lock)
    # It inherits what is blocked here, so that none ends it before it ignores them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)
    try:
        started = subprocess.Popen(
            [sys.executable, "-I", "-m", "zonesched.compute.watchdog", str(root)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={},
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return (started,)


class Records:
    """The lease in a folder and the process of each instance, as its file system has last told them.

    A thread asks for them, since whoever looks into a file system that hangs waits for it. What was told
    before counts meanwhile, so that what runs ends with the lease.
    """

    def __init__(self, root: Path) -> None:
        self.lease = Lease()
        self._root = root
        self._asking: threading.Thread | None = None
        self._has_told = False
        self._found: Mapping[str, tuple[Stamp, Process]] = {}
        self._unmarked: dict[str, Process] = {}

    def ask(self) -> bool:
        """Let the file system tell anew; return whether it has, in time."""
        if self._asking is None or not self._asking.is_alive():
            self._has_told = False
            self._asking = threading.Thread(target=self._ask, daemon=True)
            self._asking.start()
            self._asking.join(ANSWER_S)
        return self._has_told

    def _ask(self) -> None:
        with suppress(OSError):
            self.read()

    def read(self) -> None:
        """Wait for the file system. Raises OSError; what it has told of one instance alone may be older."""
        self._mark()
        names = filter(instances_root.FOLDER.fullmatch, os.listdir(self._root))
        found = {name: self._record(name) for name in names}
        self._found = {name: record for name, record in found.items() if record is not None}
        self.lease = lease.read(self._root)
        self._has_told = True

    def _record(self, name: str) -> tuple[Stamp, Process] | None:
        before = self._found.get(name)
        try:
            about = os.stat(f"{self._root}/{name}/process.json")
            stamp = (about.st_ino, about.st_mtime_ns)
            if before is not None and before[0] == stamp:
                return before
            process = instances_root.at(self._root / name).process()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError):
            return before
        return (stamp, process) if process is not None else None

    def running(self) -> Mapping[str, tuple[Process, list[int]]]:
        """Return the process of each instance that runs, by its folder, and the pids of its session."""
        sessions = process_table.sessions()
        known = {name: process for name, (_, process) in self._found.items()}
        if not self._has_told:
            # What was recorded since its file system has last told is seen by where it works.
            known = {**process_table.leaders_in(self._root, sessions), **known}
        all_ = {name: (process, process_table.members(process, sessions)) for name, process in known.items()}
        return {name: (process, pids) for name, (process, pids) in all_.items() if pids}

    def mark(self, processes: Mapping[str, Process]) -> None:
        """Write that these are ended with the lease, at the latest when the file system answers again."""
        self._unmarked |= processes
        self.ask()

    def _mark(self) -> None:
        for name, process in list(self._unmarked.items()):
            folder = instances_root.at(self._root / name)
            # Without room for the mark it counts as one that has ended by itself.
            with suppress(OSError, ValueError):
                if folder.process() == process:
                    folder.note_fenced()
            self._unmarked.pop(name, None)


def end_instances(records: Records) -> bool:
    """Kill what runs of any instance, and mark it as ended so; return whether anything ran.

    Nothing that one instance does holds up the end of another.
    """
    running = records.running()
    if running:
        records.mark({name: process for name, (process, _) in running.items()})
    for _, pids in running.values():
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    return bool(running)


def main(root: Path) -> None:
    """Watch the lease of a folder until nothing is left to watch; return at once where another one does."""
    while _watch(root):
        # A new lease was written after the last look, by an agent that found the lock taken.
        pass


def _watch(root: Path) -> bool:
    """Watch under the lock; return whether to watch again."""
    lock = os.open(root / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    records = Records(root)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        records.read()
        while (pause_s := look(records, records.lease)) < math.inf:
            time.sleep(pause_s)
            records.ask()
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return not records.ask() or look(records, records.lease) < math.inf


def look(records: Records, present: Lease) -> float:
    """End what may no longer run under a lease; return the pause until the next look.

    It is infinite where nothing is left.
    """
    if present.until_s == math.inf:
        return math.inf
    left_s = present.until_s - time.clock_gettime(time.CLOCK_BOOTTIME)
    if left_s > 0:
        return min(left_s, LOOK_S)
    # What was recorded until now; what is recorded later finds that the lease has run out.
    has_told = records.ask()
    if end_instances(records):
        return KILL_PAUSE_S
    return math.inf if has_told else LOOK_S


if __name__ == "__main__":
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    main(Path(sys.argv[1]))
