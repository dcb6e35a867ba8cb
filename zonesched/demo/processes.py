"""Zones and agents as processes that end when the one that started them ends, however it ends."""

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
    """A process ended by itself; the message names it, its log and the log's last lines."""


@dataclass(frozen=True)
class Started:
    """A process, under the name that people know it by; what it prints is in `log`."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path


class Processes:
    """Starts modules of this package, each in a process group of its own, and stops all it started."""

    def __init__(self) -> None:
        self._started: list[Started] = []

    def start(self, name: str, module: str, arguments: Sequence[str], log: Path) -> None:
        """Run `python -m module`; all it prints is added to `log`."""
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
        """What is to be said of each that has ended since the last call: its name, code and last words."""
        ended = [(started, started.process.poll()) for started in self._started]
        self._started = [started for started, code in ended if code is None]
        return [_obituary(started, code) for started, code in ended if code is not None]

    def check(self) -> None:
        """Raises ProcessEnded if any of them has."""
        for said in self.ended():
            raise ProcessEnded(said)

    def stop(self) -> list[int]:
        """Ask all to end, last started first, and kill those that do not; their codes, in order of start."""
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
    """What a child does first so that the kernel ends it with its parent; nothing where Linux is not."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)

    def tie() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return tie
