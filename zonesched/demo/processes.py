"""Zones and agents as child processes, which end with the process that started them."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 15.0
PR_SET_PDEATHSIG = 1
LOG_LINES = 15
ORDINARY = re.compile(r"time=\S+ level=(DEBUG|INFO) |\[[^]]*\] \[\d+\] \[(DEBUG|INFO)\] |zonesched-zone: ")
"""The beginning of a line that is no error: of the program's log, of gunicorn's, or of the start."""


class ProcessEnded(Exception):
    """A process ended by itself; the message has its name, its log file and the last errors of the log."""


@dataclass(frozen=True)
class Started:
    """A running process, its name for messages, its command, and the file of its output."""

    name: str
    process: subprocess.Popen[bytes]
    command: Sequence[str]
    log: Path


@dataclass(frozen=True)
class Ended:
    """A process that ended by itself; `code` as of subprocess: a negative one is that of a signal."""

    name: str
    code: int
    command: Sequence[str]
    log: Path
    errors: Sequence[str]

    @property
    def obituary(self) -> str:
        """How it ended, and the last errors in its log."""
        how = f"was ended by {_signal_name(-self.code)}" if self.code < 0 else f"ended with code {self.code}"
        if not self.errors:
            return f"{self.name} {how}; its log {self.log} has no error."
        last = (f"    {line}" for line in self.errors)
        return "\n".join((f"{self.name} {how}; the last errors in its log {self.log}:", *last))

    @property
    def restart(self) -> str:
        """The command that starts it again, for a shell."""
        return shlex.join(self.command)


class Processes:
    """Starts modules of this package, each in its own process group, and stops all that it started."""

    def __init__(self) -> None:
        self._started: list[Started] = []

    def start(self, name: str, module: str, arguments: Sequence[str], log: Path) -> None:
        """Run `python -m module`; append its output to `log`."""
        command = [sys.executable, "-m", module, *arguments]
        with log.open("ab") as file:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                preexec_fn=_end_with_parent(os.getpid()),
            )
        self._started.append(Started(name, process, command, log))

    def ended(self) -> list[Ended]:
        """Return each process that ended since the last call."""
        polled = [(started, started.process.poll()) for started in self._started]
        self._started = [started for started, code in polled if code is None]
        return [
            Ended(started.name, code, started.command, started.log, errors_in(_text_of(started.log)))
            for started, code in polled
            if code is not None
        ]

    def check(self) -> None:
        """Raise ProcessEnded if any process ended by itself."""
        for one in self.ended():
            raise ProcessEnded(one.obituary)

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


def errors_in(log: str) -> list[str]:
    """Return the last lines of a log that are no ordinary ones: errors, warnings, tracebacks."""
    return [line for line in log.splitlines() if line.strip() and not ORDINARY.match(line)][-LOG_LINES:]


def _text_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


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
