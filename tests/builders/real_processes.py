"""Free ports and waiting by the real clock, for tests of real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.zone_trees import processes as zone_trees
from zonesched.conf.ports import check_port_is_free
from zonesched.errors import ConfigError


def eventually(what: str, holds: Callable[[], object], timeout_s: float = 180.0) -> None:
    """Wait for another process; real time is all there is to wait by."""
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    return zone_trees.free_ports(1)[0]


def are_free(base: int, count: int) -> bool:
    """Tell whether nothing listens on `count` ports from `base` on."""
    try:
        for port in range(base, base + count):
            check_port_is_free("127.0.0.1", port, "")
    except ConfigError:
        return False
    return True


def free_ports(count: int) -> int:
    """The first of `count` free ports in a row; two processes that ask at once look in different places."""
    first = 21_000 + os.getpid() % 500 * 20
    return next(base for base in range(first, 60_000, count) if are_free(base, count))


def children_of(pid: int) -> set[int]:
    """The processes that this process has started; for a zone those that serve."""
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def processes_of(folder: Path) -> list[str]:
    """The command lines that name this folder."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


def interrupt(command: Sequence[str | Path], folder: Path) -> str:
    """Interrupt a tool like Ctrl-C once it has started processes in `folder`; return its first line."""
    tool = subprocess.Popen(
        [sys.executable, *command],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
        # A shell's background jobs ignore it, and so would what they start.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert tool.stderr is not None
    with tool.stderr:
        first_line = tool.stderr.readline()
        eventually("zones run", lambda: len(processes_of(folder)) > 2)
        tool.send_signal(signal.SIGINT)
        assert tool.wait(60) == 130
    return first_line
