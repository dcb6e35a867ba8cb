"""Play seeds of the simulation of whole trees under faults; ends with a JSON line.

    python benchmarks/simulate.py --seeds 1000 --first-seed 0 --jobs 2
    python benchmarks/simulate.py --seed 17 --trace
    python benchmarks/simulate.py --seeds 1000 --reach
    python benchmarks/simulate.py --seeds 1000 --corpus

Progress goes to standard error. Ctrl-C ends it with what was played so far. docs/simulation.md says what is
simulated, and what is checked.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import argparse
import gc
import json
import multiprocessing
import signal
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.simulation import corpus
from tests.simulation.run import Outcome, simulate

SHOWN_EACH_S = 5.0
SEEDS_PER_COLLECTION = 8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--seed", type=int, help="play this one alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: print what happens")
    parser.add_argument("--reach", action="store_true", help="print how often each row and point was met")
    parser.add_argument(
        "--corpus",
        action="store_true",
        help="play the stored corpus too, and store the smallest that meets all",
    )
    args = parser.parse_args()
    if args.seed is not None:
        outcomes = [simulate(args.seed, print if args.trace else None)]
        print(f"seed {args.seed}: trace {outcomes[0].digest}")
        _tell_wrong(outcomes[0])
    else:
        seeds = dict.fromkeys(range(args.first_seed, args.first_seed + args.seeds))
        if args.corpus:
            seeds = dict.fromkeys(corpus.read().meets) | seeds
        outcomes = list(_watched(_play(seeds, args.jobs), len(seeds)))
    if args.reach:
        _show_reach(outcomes)
    if args.corpus:
        cpu_s = {outcome.seed: outcome.cpu_s for outcome in outcomes}
        corpus.write(corpus.smallest({o.seed: o.met for o in outcomes if not o.wrong}, cpu_s))
    print(json.dumps(summary(outcomes)))
    return 1 if any(outcome.wrong for outcome in outcomes) else 0


def summary(outcomes: Iterable[Outcome]) -> dict[str, object]:
    """The last line: what was played, what struck, and what was found."""
    played = list(outcomes)
    struck: Counter[str] = Counter()
    for outcome in played:
        struck.update(outcome.struck)
    slowest = max(played, key=lambda outcome: outcome.converged_s, default=None)
    return {
        "benchmark": "simulate",
        "seeds": len(played),
        "zones": sum(outcome.zones for outcome in played),
        "boots": sum(outcome.boots for outcome in played),
        "active": sum(outcome.active for outcome in played),
        "faults": dict(sorted(struck.items())),
        "violations": sum(bool(outcome.wrong) for outcome in played),
        "failing_seeds": [outcome.seed for outcome in played if outcome.wrong],
        "slowest_convergence_s": round(slowest.converged_s, 1) if slowest else 0.0,
        "slowest_seed": slowest.seed if slowest else None,
        "median_seed_cpu_s": round(statistics.median([o.cpu_s for o in played] or [0.0]), 3),
        "cpu_s": round(sum(outcome.cpu_s for outcome in played), 1),
        "met_per_1000_seeds": corpus.per_thousand([outcome.met for outcome in played]),
    }


def _play(seeds: Iterable[int], jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        yield from map(_simulate, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, _leave_interrupts_to_the_first) as pool:
        yield from pool.imap_unordered(_simulate, seeds, chunksize=4)


def _simulate(seed: int) -> Outcome:
    # Else the collector would look at the whole seed at once when it ends, and find it still in use.
    gc.disable()
    outcome = simulate(seed)
    if seed % SEEDS_PER_COLLECTION == 0:
        gc.collect()
    return outcome


def _leave_interrupts_to_the_first() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _watched(outcomes: Iterator[Outcome], total: int) -> Iterator[Outcome]:
    """The same, with progress on standard error; ends early on Ctrl-C."""
    started = shown = time.monotonic()
    count = failed = 0
    try:
        for outcome in outcomes:
            count += 1
            if outcome.wrong:
                failed += 1
                _tell_wrong(outcome)
            if time.monotonic() - shown > SHOWN_EACH_S:
                shown = time.monotonic()
                print(f"{count}/{total} seeds, {failed} failing, {shown - started:.0f} s", file=sys.stderr)
            yield outcome
    except KeyboardInterrupt:
        print(f"interrupted after {count} of {total} seeds", file=sys.stderr)


def _show_reach(outcomes: Iterable[Outcome]) -> None:
    """Print seeds of 1,000 and name of each row and point, the rarest first."""
    often = corpus.per_thousand([outcome.met for outcome in outcomes])
    for name in sorted(often, key=lambda name: often[name]):
        print(f"{often[name]:8.1f}  {name}")


def _tell_wrong(outcome: Outcome) -> None:
    for line in outcome.wrong:
        print(f"seed {outcome.seed}: {line}")
    if outcome.wrong:
        print(f"replay: python benchmarks/simulate.py --seed {outcome.seed} --trace", flush=True)


if __name__ == "__main__":
    sys.exit(main())
