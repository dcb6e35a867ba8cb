"""Charts of boots: from JSON lines of benchmarks/boot.py and benchmarks/c2m.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.charts.log_log import Chart, Points

Line = Mapping[str, Any]
MANY_CLIENTS, MANY_HOSTS = 8, 10_000
"""Clients and hosts of the charts that go along the other number."""

NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def charts(lines: Sequence[Line]) -> Mapping[str, Chart]:
    """By file name, of whatever was measured."""
    singles = [line for line in lines if line.get("benchmark") == "boot" and _is_single(line)]
    of_hosts = [line for line in singles if line["hosts"] == MANY_HOSTS]
    of_clients = [line for line in singles if line["clients"] == MANY_CLIENTS]
    drawn: dict[str, Chart] = {}
    if of_hosts:
        drawn["boots_by_clients.svg"] = _along("clients", of_hosts, f"{MANY_HOSTS:,} hosts")
    if of_clients:
        drawn["boots_by_hosts.svg"] = _along("hosts", of_clients, f"{MANY_CLIENTS} clients")
    for line in lines:
        if line.get("benchmark") == "c2m":
            drawn["boots_by_instances.svg"] = Chart(
                f"Instances a second by those there ({line['regions']} regions, {line['cpus']} CPUs)",
                "instances that are there",
                "instances claimed a second",
                {"SQLite": _ends(line)},
            )
    return drawn


def _is_single(line: Line) -> bool:
    return bool(line["tree"] == [1] and line["instances"] == 1 and line["processes"] == 1)


def _along(member: str, lines: Sequence[Line], fixed: str) -> Chart:
    return Chart(
        f"Boots of one instance a second by {member} (one zone, {fixed}, {lines[0]['cpus']} CPUs)",
        member,
        "boots a second",
        {name: found for database, name in NAMES.items() if (found := _points(member, lines, database))},
    )


def _points(member: str, lines: Iterable[Line], database: str) -> Points:
    """Boots a second along one member; of equal measurements the last counts."""
    found = {line[member]: line["boots_per_s"] for line in lines if line["database"] == database}
    return sorted(found.items())


def _ends(line: Line) -> Points:
    """Instances a second in each part of a run, by the instances that are there at its end."""
    starts = [there for there, _ in line["by_part"]]
    return list(zip([*starts[1:], line["instances"]], [rate for _, rate in line["by_part"]], strict=True))
