"""Every repeat is bounded: how often zones may call each other and write, once no fault is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.simulation.site import TIMES

LOOKS_PER_S = 1 / TIMES["zone_db_check_interval"] + 1 / TIMES["retry_pause"]
"""Calls of one process to one child while nothing is wrong: how it is, and what has changed."""

FIRST_REPEATS = 4
"""Calls about one instance before its pauses are at their longest."""

WRITES_PER_S = 20.0
WRITES_AT_ONCE = 60


def too_many(
    calls: Counter[tuple[str, str, str]],
    writes: Counter[str],
    *,
    seconds: float,
    processes: int,
    instances: int,
) -> Iterator[str]:
    """Find calls that were repeated too often.

    `processes` of one zone at most, `instances` of all boots together.
    """
    edges: Counter[tuple[str, str]] = Counter()
    for (source, target, _), count in calls.items():
        if source not in ("users", "operator") and not source.endswith("-agent"):
            edges[source, target] += count
    of_processes = processes * (LOOKS_PER_S * seconds + FIRST_REPEATS)
    of_instances = 4 * instances * (seconds / TIMES["retry_pause_max"] + FIRST_REPEATS)
    for (source, target), count in edges.items():
        if count > of_processes + of_instances:
            yield f"repeats: {source} has called {target} {count} times in {seconds:.0f} s"
    for process, count in writes.items():
        if count > WRITES_PER_S * seconds + WRITES_AT_ONCE + 20 * instances:
            yield f"repeats: {process} has written {count} times in {seconds:.0f} s"
