"""Launcher that becomes the process of one instance.

The process driver starts it as `python -I -S launcher.py FOLDER TERM`.

It needs nothing of this package, so that it starts in milliseconds, and lives on when the agent dies. If
several are started for an instance, only one runs its command: it writes the record first, and a launcher
that finds a record exits. It holds the lock until the command runs or it exits.

It looks at the agent's lease after it has written the record: the watchdog that ends what is recorded once
the lease has run out either finds the record, or this launcher finds that the lease has run out.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import resource
import signal
import sys
import time
from typing import Any

MB, GB = 2**20, 2**30
LAPSED = 75
"""Exit code of a launcher that came after the end of the lease, or in another term."""


def main(folder: str, term: int) -> None:
    """Replace this process by the command of a prepared folder, unless it was started or cancelled."""
    try:
        lock = os.open(os.path.join(folder, "lock"), os.O_RDWR)
    except FileNotFoundError:
        return
    fcntl.flock(lock, fcntl.LOCK_EX)
    if not _is_still_there(folder, lock) or os.path.exists(os.path.join(folder, "process.json")):
        return
    with open(os.path.join(folder, "wanted.json"), encoding="utf-8") as file:
        wanted = json.load(file)
    identity = _identity()
    _write(folder, "process.json", json.dumps(identity))
    try:
        _hear_signals()
        _redirect(os.path.join(folder, "output.log"))
        os.chdir(os.path.join(folder, "disk"))
        # After all that the folder is asked for: its file system may have kept this one waiting.
        if not _is_lease_held(os.path.dirname(folder), term, identity["boot_id"]):
            os.unlink(os.path.join(folder, "process.json"))
            os._exit(LAPSED)
        _limit(wanted)
        os.execvpe(wanted["command"][0], wanted["command"], wanted["environment"])
    except (OSError, ValueError) as error:
        _write(folder, "error", str(error))


def _is_still_there(folder: str, lock: int) -> bool:
    """Tell whether the folder still exists after the wait for its lock."""
    try:
        return os.stat(os.path.join(folder, "lock")).st_ino == os.fstat(lock).st_ino
    except FileNotFoundError:
        return False


def _is_lease_held(root: str, term: int, boot_id: int | str) -> bool:
    """Tell whether instances may run and the term is still that in which this one was to be started.

    A lease that cannot be read has run out, as for the agent.
    """
    try:
        with open(os.path.join(root, "lease.json"), encoding="utf-8") as file:
            lease = json.load(file)
        if lease["term"] != term or lease["until_s"] == math.inf:
            return bool(lease["term"] == term)
        now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        return bool(lease["boot_id"] == boot_id and now_s < lease["until_s"])
    except FileNotFoundError:
        return term == 0
    except (KeyError, TypeError, ValueError):
        return False


def _identity() -> dict[str, int | str]:
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot_id = file.read().strip()
    return {"pid": os.getpid(), "started": int(fields[19]), "boot_id": boot_id}


def _hear_signals() -> None:
    """Reset the signals: those that the parent has blocked or ignored would be inherited."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def _limit(wanted: dict[str, Any]) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if wanted["cpus"]:
        os.sched_setaffinity(0, wanted["cpus"])
    for kind, limit in (
        (resource.RLIMIT_FSIZE, wanted["disk_gb"] * GB),
        (resource.RLIMIT_AS, wanted["ram_mb"] * MB),
    ):
        if limit:
            resource.setrlimit(kind, (limit, limit))


def _redirect(path: str) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)


def _write(folder: str, name: str, text: str) -> None:
    """Write the file atomically, also when this process dies meanwhile."""
    path = os.path.join(folder, name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
