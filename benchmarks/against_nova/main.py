"""OpenStack Nova's own filters and weighers against ours: same hosts, same request, one run; JSON lines.

Nova's side (nova_p50_ms) is HostFilterHandler.get_filtered_objects and HostWeightHandler.get_weighed_objects
for one instance, over HostState objects that are ready in memory, logging off. It checks no capacity: that is
left to Placement, which is not asked. Ours (ours_p50_ms) is the whole of a zone's offer for one instance over
a host table that is ready in memory: request check, filters, capacity, scale, weights, choice of the best
host. ours_ranked_p50_ms is the same with all hosts put in order, as Nova's list is. Neither side reads a
database, sends anything or changes a host. Both run in turn on the same machine, each in its own process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import zonesched
from benchmarks.against_nova.environment import NoEnvironment, default_folder, nova_python
from benchmarks.against_nova.hosts import FILTERS, WEIGHERS, PlainHost, plain_hosts, problem
from benchmarks.against_nova.order import compare
from benchmarks.against_nova.our_side import OurSide

HOSTS = (1_000, 10_000)
TARGET_RATIO = 1_000.0
TARGET_HOSTS = 10_000
OURS_PER_ROUND = 20
LEAST_ROUNDS = 5


class NovaFailed(Exception):
    """Nova's process ended without an answer; what it said is on standard error."""


class NovaSide:
    """A process that has Nova's hosts in memory."""

    def __init__(self, python: Path, hosts: Sequence[PlainHost]) -> None:
        script = Path(__file__).with_name("nova_side.py")
        command = [str(python), "-W", "ignore", str(script)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_plain_environment()
        )
        self.versions: dict[str, str] = self._ask(json.dumps(problem(hosts)))["versions"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def select(self) -> float:
        """Milliseconds of one round."""
        return float(self._ask("round")["ms"])

    def order(self) -> list[tuple[str, float]]:
        """Host and score, the best first."""
        return [(name, score) for name, score in self._ask("order")["order"]]

    def _ask(self, line: str) -> Any:
        try:
            self._pipe.write(line + "\n")
            self._pipe.flush()
            answer = self._process.stdout.readline() if self._process.stdout else ""
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise NovaFailed("the process with Nova's filters and weighers gave no answer")
        return json.loads(answer)

    @property
    def _pipe(self) -> Any:
        return self._process.stdin


def _plain_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def measure(python: Path, count: int, seconds: float) -> dict[str, Any]:
    """One line."""
    hosts = plain_hosts(count)
    ours = OurSide(hosts)
    with NovaSide(python, hosts) as nova:
        # The first time on each side, which is not counted.
        theirs, (_, ranked) = nova.order(), ours.rank()
        comparison = compare(theirs, ranked)
        nova_ms: list[float] = []
        ours_ms: list[float] = []
        ranked_ms: list[float] = []
        end = time.perf_counter() + seconds
        while len(nova_ms) < LEAST_ROUNDS or time.perf_counter() < end:
            nova_ms.append(nova.select())
            ours_ms += [ours.select() for _ in range(OURS_PER_ROUND)]
            ranked_ms.append(ours.rank()[0])
        versions = nova.versions
    nova_p50, ours_p50 = statistics.median(nova_ms), statistics.median(ours_ms)
    line = {
        "name": "vs_nova",
        "hosts": count,
        "instances": 1,
        "passed": len(theirs),
        "filters": FILTERS,
        "weighers": WEIGHERS,
        "rounds": len(nova_ms),
        "nova_p50_ms": round(nova_p50, 3),
        "ours_p50_ms": round(ours_p50, 4),
        "ratio": round(nova_p50 / ours_p50, 1),
        "ours_ranked_p50_ms": round(statistics.median(ranked_ms), 4),
        "ratio_ranked": round(nova_p50 / statistics.median(ranked_ms), 1),
        "same_order": comparison.same_order,
        "tied_pairs": comparison.tied_pairs,
        "cpus": os.cpu_count(),
        "versions": {**versions, "zonesched": zonesched.__version__, "python": platform.python_version()},
    }
    if count == TARGET_HOSTS:
        line |= {"target_ratio": TARGET_RATIO, "reached": nova_p50 / ours_p50 >= TARGET_RATIO}
    return line


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--hosts", type=_at_least_two, nargs="+", default=HOSTS, help="hosts of the zone")
    parser.add_argument("--seconds", type=float, default=20.0, help="time of one measurement")
    parser.add_argument(
        "--environment", type=Path, default=default_folder(), help="where Nova is installed and kept"
    )
    arguments = parser.parse_args()
    try:
        python = nova_python(arguments.environment)
        for count in arguments.hosts:
            line = measure(python, count, arguments.seconds)
            print(json.dumps(line), flush=True)
            if not line["same_order"]:
                sys.exit(f"vs_nova: at {count} hosts the two sides rank differently")
    except (NoEnvironment, NovaFailed) as error:
        sys.exit(f"vs_nova: {error}")


def _at_least_two(text: str) -> int:
    count = int(text)
    if count < 2:
        raise argparse.ArgumentTypeError("an order needs at least 2 hosts")
    return count
