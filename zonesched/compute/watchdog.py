"""Watchdog of the process driver: ends all instances of an agent once its lease has run out.

It is a process in a session of its own, so it acts also while the agent is dead, stopped or stuck in a call.
It ends by itself once the lease has run out and nothing runs; the agent starts it with the next lease.
"""

from __future__ import annotations

import fcntl
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from zonesched.compute import instance_folder, lease, process_table
from zonesched.compute.instance_folder import InstanceFolder
from zonesched.compute.lease import Lease

LOCK = "watchdog.lock"
LOOK_S = 0.5
"""Longest pause between two looks at the lease, which may also become shorter."""
KILL_PAUSE_S = 0.05


def ensure(root: Path) -> Sequence[subprocess.Popen[bytes]]:
    """Start the watchdog of a folder unless it runs; return what was started."""
    lock = os.open(root / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ()
    finally:
        os.close(lock)
    started = subprocess.Popen(
        [sys.executable, "-I", "-m", "zonesched.compute.watchdog", str(root)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={},
    )
    return (started,)


def end_instances(root: Path) -> bool:
    """Kill what runs of any instance, and mark it as ended so; return whether anything ran.

    Nothing that one instance does holds up the end of another.
    """
    sessions = process_table.sessions()
    found = False
    for folder in instance_folder.complete_in(root):
        if members := _members(folder, sessions):
            found = True
            with suppress(OSError):
                # Without room for the mark it counts as one that has ended by itself.
                folder.note_fenced()
            for pid in members:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
    return found


def _members(folder: InstanceFolder, sessions: Mapping[int, list[int]]) -> list[int]:
    try:
        process = folder.process()
    except (OSError, ValueError):
        # Nothing names its process any more.
        return []
    return [] if process is None else process_table.members(process, sessions)


def main(root: Path) -> None:
    """Watch the lease of a folder until nothing is left to watch; return at once where another one does."""
    while _watch(root):
        # A new lease was written after the last look, by an agent that found the lock taken.
        pass


def _watch(root: Path) -> bool:
    """Watch under the lock; return whether to watch again."""
    lock = os.open(root / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        while (pause_s := look(root, lease.read(root))) < math.inf:
            time.sleep(pause_s)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return look(root, lease.read(root)) < math.inf


def look(root: Path, present: Lease) -> float:
    """End what may no longer run under a lease; return the pause until the next look.

    It is infinite where nothing is left.
    """
    if present.until_s == math.inf:
        return math.inf
    left_s = present.until_s - time.clock_gettime(time.CLOCK_BOOTTIME)
    if left_s > 0:
        return min(left_s, LOOK_S)
    return KILL_PAUSE_S if end_instances(root) else math.inf


if __name__ == "__main__":
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        # Whoever stops the agent of a machine means the agent.
        signal.signal(number, signal.SIG_IGN)
    main(Path(sys.argv[1]))
