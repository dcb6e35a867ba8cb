"""Zones and agents as child processes, which end with the process that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 15.0
PR_SET_PDEATHSIG = 1
LOG_LINES = 15


class ProcessEnded(Exception):
    """A process ended by itself; the message has its name, its log file and the last lines of the log."""


@dataclass(frozen=True)
class Started:
    """A running process, its name for messages, and the file of its output."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path


class Processes:
    """Starts modules of this package, each in its own process group, and stops all that it started."""

    def __init__(self) -> None:
        self._started: list[Started] = []

    def start(self, name: str, module: str, arguments: Sequence[str], log: Path) -> None:
        """Run `python -m module`; append its output to `log`."""
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                preexec_fn=_end_with_parent(os.getpid()),
            )
        self._started.append(Started(name, process, log))

    def ended(self) -> list[str]:
        """Describe each process that ended since the last call: name, exit code, end of its log."""
        ended = [(started, started.process.poll()) for started in self._started]
        self._started = [started for started, code in ended if code is None]
        return [_obituary(started, code) for started, code in ended if code is not None]

    def check(self) -> None:
        """Raise ProcessEnded if any process ended by itself."""
        for said in self.ended():
            raise ProcessEnded(said)

    def stop(self) -> list[int]:
        """Terminate all, last started first, kill those that go on; return exit codes as started."""
        for started in reversed(self._started):
            _signal_group(started.process, signal.SIGTERM)
        for started in self._started:
            try:
                started.process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                _signal_group(started.process, signal.SIGKILL)
                started.process.wait()
        codes = [int(started.process.returncode) for started in self._started]
        self._started.clear()
        return codes


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.poll() is None:
        os.killpg(process.pid, number)


def _obituary(started: Started, code: int) -> str:
    said = f"{started.name} ended with code {code}"
    lines = started.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
    return "\n".join((f"{said}; its log {started.log} ends:", *(f"    {line}" for line in lines)))


def _end_with_parent(parent: int) -> Callable[[], None] | None:
    """Return a hook that lets the kernel end a new child process with its parent; None without Linux."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)

    def tie() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return tie
