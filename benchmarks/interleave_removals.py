"""Take away one lock or one condition of a zone's transactions at a time, and find orders that notice it.

\b
    python benchmarks/interleave_removals.py                       all that is met
    python benchmarks/interleave_removals.py --matching locks      calls of zonesched.store.locks alone

What is taken away: each call of `locks`, the locking clause of each read, each condition of a write but the
key of its rows. It is noticed where a schedule violates a rule, ends with rows or answers of no order of
whole transactions, or deadlocks. A condition is also noticed where two kinds, one after the other, leave
other rows or answers than they do with it. Ends with a JSON line.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import click

from benchmarks.interleave import SERVER, a_scene
from tests.interleaving.kinds import KINDS
from tests.interleaving.removals import Met, Removal, lock_calls, orders, survey
from tests.interleaving.scene import Scene
from tests.interleaving.schedule import Played, Schedules
from tests.interleaving.server import private_server


@click.command(help=__doc__)
@click.option("--matching", default="", help="Those alone with one of these texts: a|b.")
@click.option("--pairs", type=click.IntRange(min=1), default=30, show_default=True, help="Pairs for each.")
@click.option("--schedules", type=click.IntRange(min=3), default=24, show_default=True, help="Of a pair.")
def main(matching: str, pairs: int, schedules: int) -> None:
    if not os.environ.get(SERVER):
        with private_server() as url:
            again = subprocess.run([sys.executable, *sys.argv], env={**os.environ, SERVER: url})
        sys.exit(again.returncode)
    with a_scene() as scene:
        _Search(scene, pairs, schedules).run(matching)


class _Search:
    def __init__(self, scene: Scene, pairs: int, schedules: int) -> None:
        self._scene = scene
        self._pairs = pairs
        self._schedules = schedules
        self._met: Mapping[str, Met] = {name: survey(scene, kind) for name, kind in KINDS.items()}
        self._writers = Counter(table for met in self._met.values() for table in met.written)
        self._played: dict[tuple[str, str], Schedules] = {}
        self._count = 0

    def run(self, matching: str) -> None:
        started = time.monotonic()
        found = dict.fromkeys(removal for met in self._met.values() for removal in met.removals)
        chosen = [removal for removal in found if any(text in removal.what for text in matching.split("|"))]
        unnoticed: list[str] = []
        for number, removal in enumerate(chosen, 1):
            noticed = next(self._noticed(removal), None)
            if noticed is None:
                unnoticed.append(removal.what)
                print(f"UNNOTICED {removal.what}", flush=True)
            else:
                kinds, played = noticed
                print(f"noticed {removal.what}\n    {kinds} {played.order}: {_why(played)[:160]}", flush=True)
            print(f"{number}/{len(chosen)} {time.monotonic() - started:.0f} s", file=sys.stderr)
        not_met = sorted(lock_calls() - {removal.what for removal in found})
        for call in not_met:
            print(f"NOT MET {call}")
        line = {
            "benchmark": "interleave_removals",
            "removals": len(chosen),
            "noticed": len(chosen) - len(unnoticed),
            "unnoticed": len(unnoticed),
            "calls_not_met": len(not_met),
            "schedules": self._count,
            "cpu_s": round(time.process_time(), 1),
        }
        print(json.dumps(line))

    def _noticed(self, removal: Removal) -> Iterator[tuple[str, Played]]:
        for first, second in self._candidates(removal)[: self._pairs]:
            key = (first, second)
            if key not in self._played:
                self._played[key] = Schedules(self._scene, [KINDS[first], KINDS[second]])
            met, other = self._met[first], self._met[second]
            # A lock changes nothing for players who do not meet.
            for letters in ("ab", "ba") if removal.columns else ():
                self._count += 1
                played = self._played[key].in_turn_without(removal.taken_away(), letters)
                if _why(played):
                    yield f"{first}+{second}", played
            for order in orders(met.removals[removal], met.steps, other.steps, self._schedules):
                self._count += 1
                played = self._played[key].without(removal.taken_away(), order)
                if _why(played):
                    yield f"{first}+{second}", played

    def _candidates(self, removal: Removal) -> Sequence[tuple[str, str]]:
        """Pairs of a kind that meets it and another.

        Those come first of which the other writes what the condition looks at, then those that change the
        same rows or tables. Each kind that meets it takes its turn.
        """
        firsts = [name for name, met in self._met.items() if removal in met.removals]

        def rank(pair: tuple[str, str]) -> tuple[bool, float, tuple[str, str]]:
            return not removal.columns & self._met[pair[1]].columns, -self._common(*pair), pair

        ranked = [sorted(((first, second) for second in KINDS), key=rank) for first in firsts]
        return [pair for some in zip(*ranked, strict=True) for pair in some]

    def _common(self, first: str, second: str) -> float:
        one, other = self._met[first], self._met[second]
        met = [*(one.touched & other.written), *(one.written & other.touched)]
        return 3 * len(one.rows & other.rows) + sum(1 / self._writers[table] for table in met)


def _why(played: Played) -> str:
    return "; ".join(played.wrong) or ("deadlock" if played.conflicts["40P01"] else "")


if __name__ == "__main__":
    main()
