"""Play a zone's writing transactions against each other, statement by statement, on PostgreSQL.

\b
    python benchmarks/interleave.py                             every pair, and threes of the dangerous kinds
    python benchmarks/interleave.py --kinds hold,cancel,reap    all pairs of these, each with itself as well
    python benchmarks/interleave.py --pairs hold+cancel --order 3a9b5a

Without ZONESCHED_TEST_DATABASE_URL it starts a private server. Ends with a JSON line; docs/simulation.md says
what is played and what is checked.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import json
import os
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations_with_replacement
from types import FrameType

import click

from tests.builders.migrated import a_database
from tests.builders.postgresql import databases
from tests.interleaving.kinds import DANGEROUS, KINDS
from tests.interleaving.order import Given, letters_of
from tests.interleaving.scene import Scene
from tests.interleaving.schedule import Played, Schedules
from tests.interleaving.server import private_server

SERVER = "ZONESCHED_TEST_DATABASE_URL"
SHOWN = 3
"""Violations of a pair that are printed."""

Group = tuple[str, ...]


@click.command(help=__doc__)
@click.option("--pairs", default="", help="These alone: hold+cancel,hold+reap+cancel.")
@click.option("--kinds", default="", help="All pairs of these kinds.")
@click.option("--schedules", type=click.IntRange(min=1), default=300, show_default=True, help="Of a pair.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the orders that are drawn.")
@click.option("--order", default="", help="Play one order of one pair, and print its statements.")
def main(pairs: str, kinds: str, schedules: int, seed: int, order: str) -> None:
    groups = _groups(pairs, kinds)
    signal.signal(signal.SIGTERM, _interrupt)
    if not os.environ.get(SERVER):
        # Databases are made on the server that is named when a process begins.
        with private_server() as url:
            again = subprocess.run([sys.executable, *sys.argv], env={**os.environ, SERVER: url})
        sys.exit(again.returncode)
    with a_scene() as scene:
        if order:
            wrong = _repeat(Schedules(scene, [KINDS[name] for name in groups[0]]), order)
        else:
            wrong = _play(scene, groups, schedules, seed)
    sys.exit(1 if wrong else 0)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """End the private server as well."""
    raise KeyboardInterrupt


@contextmanager
def a_scene() -> Iterator[Scene]:
    """Set the scene on the server that SERVER names."""
    with tempfile.TemporaryDirectory(prefix="zonesched-interleave-") as made:
        path = Path(made) / "zone.sqlite"
        scene = Scene.open(Path(made), a_database(path), databases().connection(path))
        try:
            yield scene
        finally:
            scene.close()


def _groups(pairs: str, kinds: str) -> Sequence[Group]:
    """Return the kinds to be played against each other. Raises BadParameter."""
    chosen = [tuple(group.split("+")) for group in pairs.split(",") if group]
    if not chosen:
        chosen = list(combinations_with_replacement(kinds.split(",") if kinds else KINDS, 2))
        if not kinds:
            chosen += combinations_with_replacement(DANGEROUS, 3)
    unknown = {name for group in chosen for name in group} - KINDS.keys()
    if unknown:
        raise click.BadParameter(f"no such kind: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    return chosen


def _play(scene: Scene, groups: Sequence[Group], schedules: int, seed: int) -> int:
    """Play each group and print the JSON line; return the number of violations."""
    started = time.monotonic()
    count = violations = undecided = 0
    conflicts: Counter[str] = Counter()
    for number, names in enumerate(groups, 1):
        found, before = 0, conflicts.copy()
        for played in Schedules(scene, [KINDS[name] for name in names]).play(schedules, seed):
            count += 1
            conflicts.update(played.conflicts)
            undecided += played.is_undecided
            if played.wrong:
                found += 1
                if found <= SHOWN:
                    _print_wrong(played)
        violations += found
        retried = ", ".join(f"{n} {state}" for state, n in (conflicts - before).items())
        progress = f"{number}/{len(groups)} {'+'.join(names)}: {found} wrong, {retried or 0} retried"
        print(f"{progress}, {count} schedules, {time.monotonic() - started:.0f} s", file=sys.stderr)
    line = {
        "benchmark": "interleave",
        "pairs": len(groups),
        "schedules": count,
        "deadlocks_retried": conflicts["40P01"],
        "conflicts_retried": sum(conflicts.values()),
        "violations": violations,
        "undecided": undecided,
        "seed": seed,
        "cpu_s": round(time.process_time(), 1),
    }
    print(json.dumps(line))
    return violations


def _repeat(schedules: Schedules, order: str) -> bool:
    """Play one order and print its statements; tell whether it violated a rule."""
    played = schedules.judged(Given.from_text(order))
    left = {letter: iter(some) for (letter, _), some in zip(played.steps, played.statements, strict=True)}
    for letter in letters_of(played.order):
        print(f"{letter}  {' '.join(next(left[letter]).split())[:160]}")
    _print_wrong(played)
    return bool(played.wrong)


def _print_wrong(played: Played) -> None:
    for text in played.wrong:
        print(f"{'+'.join(played.kinds)}: {text}")
    print(f"repeat: python benchmarks/interleave.py {played.repeat}", flush=True)


if __name__ == "__main__":
    main()
