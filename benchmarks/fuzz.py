"""Fuzz the parsers that read from outside; ends with a JSON line for each target.

    python benchmarks/fuzz.py --list
    python benchmarks/fuzz.py --target calls --target http --seconds 600 --seed 1

Inputs are built from valid values that are then changed. With atheris (the extra `fuzz`) they are guided by
the edges that they reach; without it, or with --unguided, they are drawn at random. A find is an exception
that the parser may not raise, or an answer above its time; standard error shows it with its input at once.
docs/benchmarks.md says what is fuzzed and how times are bounded.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import argparse
import importlib.util
import json
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from benchmarks.fuzzing.catalog import TARGETS

ROOT = Path(__file__).resolve().parents[1]
EDGES = re.compile(r"\bcov: (\d+)")
LIBFUZZERS_OWN = ("INFO: ", "WARNING: Failed to find function", "#")


@dataclass(frozen=True)
class Order:
    """One target's run, in a process of its own."""

    target: str
    seconds: float
    seed: int
    guided: bool

    def command(self, corpus: str) -> list[str]:
        module = "guided" if self.guided else "play"
        words = [self.target, str(self.seconds), str(self.seed), *([corpus] if self.guided else [])]
        return [sys.executable, "-m", f"benchmarks.fuzzing.{module}", *words]


def main() -> int:
    args = _arguments()
    if args.list:
        for target in TARGETS.values():
            print(f"{target.name:16} {target.about}")
        return 0
    guided = not args.unguided and importlib.util.find_spec("atheris") is not None
    orders = [Order(name, args.seconds, args.seed, guided) for name in args.target or TARGETS]
    crashes = 0
    with ThreadPoolExecutor(args.jobs) as pool:
        for line in pool.map(_run, orders):
            print(json.dumps(line), flush=True)
            crashes += line["crashes"]
    return 1 if crashes else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the targets")
    parser.add_argument(
        "--target", action="append", choices=TARGETS, metavar="NAME", help="repeatable; by default all"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="of each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="targets side by side")
    parser.add_argument("--unguided", action="store_true", help="draw inputs at random")
    return parser.parse_args()


def _run(order: Order) -> dict[str, Any]:
    """Run one target in its own process; its line."""
    edges = 0
    with (
        tempfile.TemporaryDirectory(prefix="zonesched-corpus-") as corpus,
        subprocess.Popen(
            order.command(corpus), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        ) as process,
    ):
        assert process.stdout is not None and process.stderr is not None
        for line in process.stderr:
            if found := EDGES.search(line):
                edges = int(found[1])
            elif not line.startswith(LIBFUZZERS_OWN):
                print(f"{order.target}: {line}", end="", file=sys.stderr, flush=True)
        printed = [line for line in process.stdout if line.startswith("{")]
    nothing = {"inputs": 0, "cpu_s": 0.0, "slowest_ms": None, "finds": [f"status {process.returncode}"]}
    played = json.loads(printed[-1]) if printed else nothing
    return {
        "benchmark": "fuzz",
        "target": order.target,
        "seconds": order.seconds,
        **played,
        "crashes": len(played["finds"]),
        "edges": edges if order.guided else None,
        "seed": order.seed,
    }


if __name__ == "__main__":
    sys.exit(main())
