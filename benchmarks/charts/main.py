"""Draws the time of a select: from JSON lines that benchmarks/select.py printed to SVG files in a folder."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.charts.log_log import Chart, Points, svg

Line = Mapping[str, Any]


def lines_of(text: str) -> list[Line]:
    """The lines of benchmarks/select.py among JSON lines. Raises ValueError, which names the line."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            read = json.loads(line) if line.strip() else {}
        except ValueError as error:
            raise ValueError(f"line {number} is no JSON: {error}") from error
        if isinstance(read, dict) and read.get("name") == "select":
            found.append(read)
    return found


def measured(lines: Iterable[Line], mode: str) -> list[Line]:
    """Those of one mode, with hosts of few classes and the fewest weigher columns that were measured."""
    of_mode = [line for line in lines if line["mode"] == mode and line["classes"] < line["hosts"]]
    fewest = min((line["weigher_columns"] for line in of_mode), default=0)
    return [line for line in of_mode if line["weigher_columns"] == fewest]


def p50(lines: Iterable[Line], along: str, apart: str, unit: str) -> Mapping[str, Points]:
    """p50_ms along one number, one line for each value of another; of equal measurements the last counts."""
    by_value: dict[int, dict[int, float]] = {}
    for line in lines:
        by_value.setdefault(line[apart], {})[line[along]] = line["p50_ms"]
    return {
        f"{value:,} {unit if value > 1 else unit.removesuffix('s')}": sorted(by_value[value].items())
        for value in sorted(by_value)
    }


def charts(lines: Sequence[Line], mode: str) -> Mapping[str, Chart]:
    """By file name. Raises ValueError if nothing of this mode was measured."""
    chosen = measured(lines, mode)
    if not chosen:
        raise ValueError(f"there is no line of benchmarks/select.py with mode {mode} and classes of hosts")
    columns, cpus = chosen[0]["weigher_columns"], chosen[0]["cpus"]
    on = f"({mode}, {columns} weigher columns, {cpus} CPUs)"
    time_label = "p50 of one select, milliseconds"
    return {
        "select_by_hosts.svg": Chart(
            f"Time of a select by hosts {on}",
            "hosts of the zone",
            time_label,
            p50(chosen, "hosts", "instances", "instances"),
        ),
        "select_by_instances.svg": Chart(
            f"Time of a select by instances {on}",
            "instances of the request",
            time_label,
            p50(chosen, "instances", "hosts", "hosts"),
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=Path, help="JSON lines")
    parser.add_argument("folder", type=Path, help="where the charts are written")
    parser.add_argument("--mode", default="spread", help="of which mode")
    arguments = parser.parse_args()
    try:
        drawn = charts(lines_of(arguments.lines.read_text()), arguments.mode)
        for name, chart in drawn.items():
            (arguments.folder / name).write_text(svg(chart))
    except (OSError, ValueError) as error:
        sys.exit(f"plot: {error}")


if __name__ == "__main__":
    main()
