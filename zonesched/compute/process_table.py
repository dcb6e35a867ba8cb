"""Processes of this machine, read from /proc and identified beyond the pid, which is reused."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
DEAD = ("Z", "X")
_STATE, _SESSION, _TERMINAL, _STARTED = 0, 3, 4, 19
"""Positions in /proc/PID/stat after the name of the command: see proc_pid_stat(5)."""


@dataclass(frozen=True)
class Process:
    """A session leader: its pid, and its start time in ticks since that boot."""

    pid: int
    started: int
    boot_id: str


def boot_id() -> str:
    """Identify this boot of the machine."""
    return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def is_alive(process: Process) -> bool:
    """Tell whether this process still runs; a zombie does not."""
    fields = _stat(process.pid) if process.boot_id == boot_id() else []
    return bool(fields) and fields[_STATE] not in DEAD and int(fields[_STARTED]) == process.started


def members(process: Process, by_session: Mapping[int, list[int]] | None = None) -> list[int]:
    """List the pids that still run in the session of a process, with its own.

    `by_session`: what `sessions` has returned, for whoever asks about many.
    """
    leader = _stat(process.pid)
    given_out_again = bool(leader) and int(leader[_STARTED]) != process.started
    if given_out_again or process.boot_id != boot_id():
        return []
    return _members_now(process.pid) if by_session is None else by_session.get(process.pid, [])


def _members_now(session: int) -> list[int]:
    """List the pids that run now in a session; of other processes no file is read."""
    return [
        pid
        for pid in _pids()
        if _session(pid) == session and (fields := _stat(pid)) and fields[_STATE] not in DEAD
    ]


def sessions() -> Mapping[int, list[int]]:
    """List the pids that run now by their session."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for pid in _pids():
        fields = _stat(pid)
        if fields and fields[_STATE] not in DEAD:
            found[int(fields[_SESSION])].append(pid)
    return found


def _pids() -> list[int]:
    return [int(name) for name in os.listdir(PROC) if name.isdigit()]


def _session(pid: int) -> int:
    """Return the session of a process; 0, which is none, where it has ended."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0
    except PermissionError:
        # A security module may hide it from this call alone.
        fields = _stat(pid)
        return int(fields[_SESSION]) if fields else 0


def leaders_in(root: Path, by_session: Mapping[int, list[int]]) -> Mapping[str, Process]:
    """Find the session leaders that work in a folder of `root`, or write to a file there, by its name.

    Their links tell, so that no file system is asked. Whoever sits there at a terminal is left out.
    """
    found: dict[str, Process] = {}
    for pid in by_session:
        fields = _stat(pid)
        names = {_name_in(root, pid, link) for link in ("cwd", "fd/1")} - {""}
        if fields and names and fields[_TERMINAL] == "0":
            found[min(names)] = Process(pid, int(fields[_STARTED]), boot_id())
    return found


def _name_in(root: Path, pid: int, link: str) -> str:
    try:
        path = Path(os.readlink(PROC / str(pid) / link))
    except OSError:
        return ""
    return path.relative_to(root).parts[0] if root in path.parents else ""


def are_paused(process: Process) -> bool:
    """Tell whether the session of a process has processes, all stopped by a signal."""
    states = [fields[_STATE] for pid in members(process) if (fields := _stat(pid))]
    return bool(states) and all(state == "T" for state in states)


def send(process: Process, *numbers: signal.Signals) -> None:
    """Send signals, one after the other, to all processes in the session of a process."""
    pids = members(process)
    for number in numbers:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _stat(pid: int) -> list[str]:
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()
