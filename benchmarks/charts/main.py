"""Draws times of selects and rates of boots: from JSON lines of the benchmarks to SVG files in a folder."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.charts import boots
from benchmarks.charts.log_log import Chart, Points, svg

Line = Mapping[str, Any]

TIMES = {"wall": "p50 of one select, milliseconds", "cpu": "p50 of one select, milliseconds of CPU time"}


def lines_of(text: str) -> list[Line]:
    """Read the JSON objects, one on each line. Raises ValueError, which names the line."""
    found: list[Mapping[str, Any]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            read = json.loads(line) if line.strip() else {}
        except ValueError as error:
            raise ValueError(f"line {number} is no JSON: {error}") from error
        if isinstance(read, dict):
            found.append(read)
    return found


@dataclass(frozen=True)
class Kind:
    """Subject of a pair of charts; `holds` selects its lines."""

    file: str
    title: str
    holds: Callable[[Line], bool]


def is_spread(line: Line) -> bool:
    """Tell whether the hosts have few classes and the instances are spread over them."""
    return bool(line["mode"] == "spread" and line["classes"] < line["hosts"])


KINDS = (
    Kind("spread", "spread", is_spread),
    Kind("stack", "stack", lambda line: line["mode"] == "stack" and line["classes"] < line["hosts"]),
    Kind(
        "anti_affinity",
        "anti-affinity",
        lambda line: line["mode"] == "anti-affinity" and line["classes"] < line["hosts"],
    ),
    Kind(
        "no_classes",
        "spread, all hosts differ",
        lambda line: line["mode"] == "spread" and line["classes"] == line["hosts"],
    ),
)


def measured(lines: Iterable[Line], kind: Kind) -> list[Line]:
    """Select the lines of one kind that were measured with the default filters alone."""
    return fewest_columns(line for line in lines if kind.holds(line) and line["own_filter"] == "none")


def fewest_columns(lines: Iterable[Line]) -> list[Line]:
    """Select the lines with the fewest weigher columns."""
    known = list(lines)
    fewest = min((line["weigher_columns"] for line in known), default=0)
    return [line for line in known if line["weigher_columns"] == fewest]


def p50(lines: Iterable[Line], along: str, apart: str, unit: str) -> Mapping[str, Points]:
    """p50_ms along one number, one line for each value of another; of equal measurements the last counts."""
    by_value: dict[int, dict[int, float]] = {}
    for line in lines:
        by_value.setdefault(line[apart], {})[line[along]] = line["p50_ms"]
    return {
        f"{value:,} {unit if value > 1 else unit.removesuffix('s')}": sorted(by_value[value].items())
        for value in sorted(by_value)
    }


def charts(lines: Sequence[Line]) -> Mapping[str, Chart]:
    """By file name, of whatever was measured. Raises ValueError if nothing was."""
    selects = [line for line in lines if line.get("name") == "select"]
    drawn = {**_of_selects(selects), **boots.charts(lines)}
    if not drawn:
        raise ValueError("there is no line of benchmarks/select.py, boot.py or c2m.py")
    return drawn


def _of_selects(lines: Sequence[Line]) -> Mapping[str, Chart]:
    drawn: dict[str, Chart] = {}
    for kind in KINDS:
        chosen = measured(lines, kind)
        if chosen:
            on = f"({kind.title}, {_machine(chosen)})"
            drawn[f"select_{kind.file}_by_hosts.svg"] = Chart(
                f"Time of a select by hosts {on}",
                "hosts of the zone",
                TIMES[chosen[0]["clock"]],
                p50(chosen, "hosts", "instances", "instances"),
            )
            drawn[f"select_{kind.file}_by_instances.svg"] = Chart(
                f"Time of a select by instances {on}",
                "instances of the request",
                TIMES[chosen[0]["clock"]],
                p50(chosen, "instances", "hosts", "hosts"),
            )
    own = fewest_columns(line for line in lines if line["instances"] == 1 and is_spread(line))
    if any(line["own_filter"] != "none" for line in own):
        drawn["select_own_filter.svg"] = Chart(
            f"With a filter that has only host_passes (1 instance, {_machine(own)})",
            "hosts of the zone",
            TIMES[own[0]["clock"]],
            by_own_filter(own),
        )
    return drawn


def by_own_filter(lines: Iterable[Line]) -> Mapping[str, Points]:
    """p50_ms by hosts, one line for each way in which a filter besides the default ones is asked."""
    by_filter: dict[str, dict[int, float]] = {}
    for line in lines:
        by_filter.setdefault(line["own_filter"], {})[line["hosts"]] = line["p50_ms"]
    return {name: sorted(times.items()) for name, times in by_filter.items()}


def _machine(lines: Sequence[Line]) -> str:
    return f"{lines[0]['weigher_columns']} weigher columns, {lines[0]['cpus']} CPUs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=Path, help="JSON lines")
    parser.add_argument("folder", type=Path, help="where the charts are written")
    arguments = parser.parse_args()
    try:
        drawn = charts(lines_of(arguments.lines.read_text()))
        for name, chart in drawn.items():
            (arguments.folder / name).write_text(svg(chart))
    except (OSError, ValueError) as error:
        sys.exit(f"plot: {error}")


if __name__ == "__main__":
    main()
