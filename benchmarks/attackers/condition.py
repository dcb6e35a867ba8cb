"""The condition of a zone: memory, threads, files and rows, and whether it is as it was before an attack."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from benchmarks.zone_trees.client import ZoneFault

from .measuring import Caller, Line
from .tree import Tree, Zone

KB = 1024
MB = 1_000_000
MOST_GROWN_MB = 200.0
RECOVERS_WITHIN_S = 10.0
MOST_NEW_THREADS = 48
"""Threads that each process of a zone starts when they are first needed: `api_threads`, 32, and those for its
child zones. Threads and files are compared with the beginning of the run, so that small leaks add up."""

MOST_NEW_FILES = 64
"""Idle connections that a zone keeps for a while: 75 seconds for a caller's, and those of its database."""

MOST_NEW_ROWS = 5_000
SLOTS = 5
"""Selects at once that a user can count on, beside the one that is measured: fewer than half of 16 slots."""

HEALTH_WITHIN_S = 0.5


@dataclass(frozen=True)
class Condition:
    """A zone's processes at one moment; `rss_mb` and `threads` by process id, `rows` of all tables."""

    rss_mb: Mapping[int, float]
    threads: Mapping[int, int]
    files: int
    rows: int


def condition_of(zone: Zone) -> Condition:
    """Read the condition, and let the highest memory be counted anew from here."""
    pids = zone.pids
    for pid in pids:
        with suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")
    return Condition(
        {pid: _status_mb(pid, "VmRSS") for pid in pids},
        {pid: _entries(pid, "task") for pid in pids},
        sum(_entries(pid, "fd") for pid in pids),
        rows_of(zone),
    )


def grown_mb(before: Condition) -> float:
    """The most that one of the zone's processes had more at any moment than at the beginning."""
    return max(_status_mb(pid, "VmHWM") - rss for pid, rss in before.rss_mb.items())


def rows_of(zone: Zone) -> int:
    """Rows of all tables, counted without the zone's code."""
    engine = sa.create_engine(zone.database_url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        names = sa.inspect(connection).get_table_names()
        counts = [
            connection.execute(sa.text(f'SELECT count(*) FROM "{name}"')).scalar_one() for name in names
        ]
    return sum(map(int, counts))


def unrecovered(
    tree: Tree, before: Mapping[str, Condition], callers: Sequence[Caller], bounds: Mapping[str, float]
) -> list[str]:
    """Faults that are left when the time to recover has passed; empty as soon as there is none."""
    ends_at = time.monotonic() + RECOVERS_WITHIN_S
    while True:
        wrong = [what for zone in tree.zones.values() for what in _differs(zone, before[zone.name])]
        wrong += [what for caller in callers for what in _slots(caller, bounds[caller.zone])]
        wrong += [
            f"{name}: its child zones are not known" for name in tree.zones if not tree.is_complete(name)
        ]
        if not wrong or time.monotonic() > ends_at:
            return wrong
        time.sleep(0.2)


def _differs(zone: Zone, before: Condition) -> list[str]:
    pids = zone.pids
    if set(pids) != set(before.rss_mb):
        return [f"{zone.name}: its processes are not the same"]
    wrong = []
    for pid, threads in before.threads.items():
        if (now := _entries(pid, "task")) > threads + MOST_NEW_THREADS:
            wrong.append(f"{zone.name}: {now} threads in a process after {threads}")
    files = sum(_entries(pid, "fd") for pid in pids)
    if files > before.files + MOST_NEW_FILES:
        wrong.append(f"{zone.name}: {files} files after {before.files}")
    rows = rows_of(zone)
    if rows > before.rows + MOST_NEW_ROWS:
        wrong.append(f"{zone.name}: {rows - before.rows} new rows")
    for process in zone.processes:
        probe = process.site.client(timeout_s=5.0)
        began_at = time.monotonic()
        try:
            probe.call("GET", "/health")
            took_s = time.monotonic() - began_at
            if took_s > HEALTH_WITHIN_S:
                wrong.append(f"{zone.name}: its health takes {took_s:.1f} s")
        except ZoneFault as fault:
            wrong.append(f"{zone.name}: its health is {fault}")
        finally:
            probe.close()
    return wrong + _audit(zone)


def _audit(zone: Zone) -> list[str]:
    try:
        found = zone.admin.call("GET", "/audit")["inconsistencies"]
    except ZoneFault as fault:
        return [f"{zone.name}: no audit: {fault}"]
    return [f"{zone.name}: {one['kind']}: {one['subject']}: {one['detail']}" for one in found[:5]]


def _slots(caller: Caller, bound: float) -> list[str]:
    """Take several slots at once: each select has to be answered, and one alone in time."""
    lines = [Line(caller) for _ in range(SLOTS)]
    alone = [lines[0].select().seconds for _ in range(3)]
    found: list[float] = []
    threads = [
        threading.Thread(target=lambda line=line: found.append(line.select().seconds)) for line in lines
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for line in lines:
        line.close()
    wrong = []
    if min(alone) > bound:
        wrong.append(f"{caller.zone}: a select takes {min(alone):.2f} s, more than {bound:.2f}")
    if max(found) == float("inf"):
        wrong.append(f"{caller.zone}: {found.count(float('inf'))} of {SLOTS} selects at once are refused")
    return wrong


def _status_mb(pid: int, name: str) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * KB / MB
    return 0.0


def _entries(pid: int, folder: str) -> int:
    with suppress(OSError):
        return len(list(Path(f"/proc/{pid}/{folder}").iterdir()))
    return 0
