"""P8: the processes of instances on this machine, looked at all the time; no instance runs twice."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LOOK_EVERY_S = 0.1
UUID, HOST = b"ZONESCHED_INSTANCE_UUID=", b"ZONESCHED_HOST="
_STATE, _STARTED = 0, 19
"""Positions in /proc/PID/stat after the name of the command: see proc_pid_stat(5)."""


@dataclass(frozen=True)
class Process:
    """The process of an instance; `started` tells it from a later one with its pid."""

    pid: int
    started: int
    uuid: str
    host: str
    is_stopped: bool = field(compare=False)


def found_below(folder: Path) -> Iterator[Process]:
    """Find the processes of instances whose agents keep them below a folder."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError, ValueError):
                if os.readlink(f"/proc/{entry}/cwd").startswith(f"{folder}/"):
                    yield _read(int(entry))


def _read(pid: int) -> Process:
    """Raises ValueError for a process that is not an instance's, or has ended."""
    lines = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    (uuid,) = (line.removeprefix(UUID) for line in lines if line.startswith(UUID))
    (host,) = (line.removeprefix(HOST) for line in lines if line.startswith(HOST))
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return Process(pid, int(fields[_STARTED]), uuid.decode(), host.decode(), fields[_STATE] == "T")


def kill_all(folder: Path) -> None:
    """End the instances that outlive their agents."""
    for process in found_below(folder):
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def two_at_once(folder: Path) -> list[str]:
    """Find instances of which two processes run at one moment."""
    seen: dict[str, Process] = {}
    wrong = []
    for process in found_below(folder):
        first = seen.setdefault(process.uuid, process)
        # The first was read earlier, and may have ended before the second began: it has not if it still runs.
        if first is not process and _still_runs(first) and _still_runs(process):
            wrong.append(f"P8: {process.uuid} runs on {first.host} and on {process.host}")
    return wrong


def _still_runs(process: Process) -> bool:
    with suppress(OSError, ValueError):
        return _read(process.pid) == process
    return False


class Watch:
    """Looks for instances that run twice until it is closed; `wrong` has a line for each."""

    def __init__(self, folder: Path) -> None:
        self.wrong: list[str] = []
        self.looks = 0
        self._folder = folder
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            self.wrong += [line for line in two_at_once(self._folder) if line not in self.wrong]
            self.looks += 1
