"""Play one target: a number of inputs, or as many as fit into a time.

python -m benchmarks.fuzzing.play TARGET SECONDS SEED
"""

from __future__ import annotations

import itertools
import json
import logging
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, seed, settings

from benchmarks.fuzzing.catalog import TARGETS
from benchmarks.fuzzing.target import Judge, Tally, Target

MAX_FINDS = 20
BATCH = 100
"""Inputs that are drawn from one seed."""
SETTINGS = settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
"""No database, and no checks of the strategies' own speed."""


def play_inputs(target: Target, inputs: int) -> Tally:
    """Play so many inputs, the same ones each time. Raises what the first find raises."""
    with (
        tempfile.TemporaryDirectory(prefix="zonesched-fuzz-") as folder,
        target.opened(Path(folder)) as check,
        quiet(),
    ):
        judge = Judge(check)
        drawn = settings(SETTINGS, max_examples=inputs, derandomize=True, report_multiple_bugs=False)
        drawn(given(target.inputs())(judge.judge))()
        return judge.tally


def play_seconds(target: Target, seconds: float, first_seed: int) -> Tally:
    """Play for so many seconds without guidance, and go on after a find."""
    with (
        tempfile.TemporaryDirectory(prefix="zonesched-fuzz-") as folder,
        target.opened(Path(folder)) as check,
        quiet(),
    ):
        judge = Judge(check)
        ends_at = time.monotonic() + seconds
        for number in itertools.count(first_seed * 1_000_000):
            if time.monotonic() >= ends_at or len(judge.tally.finds) >= MAX_FINDS:
                break
            batch = given(target.inputs())(going_on(judge))
            seed(number)(settings(SETTINGS, max_examples=BATCH)(batch))()
        return judge.tally


def going_on(judge: Judge) -> Callable[[Any], None]:
    """Judge inputs without raising: the tally keeps the finds, and standard error shows each once."""

    def judge_one(given_input: Any) -> None:
        before = len(judge.tally.finds)
        try:
            judge.judge(given_input)
        except Exception as fault:
            if len(judge.tally.finds) > before:
                print(f"find: {fault!r}", f"input: {given_input!r:.3000}", sep="\n", file=sys.stderr)
                traceback.print_exception(fault.__cause__ or fault, limit=-6)
                sys.stderr.flush()

    return judge_one


@contextmanager
def quiet() -> Iterator[None]:
    """Write no log lines of the package in this block: those of refused calls would bury the finds."""
    logger = logging.getLogger("zonesched")
    before = logger.propagate
    handler = logging.NullHandler()
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = before
        logger.removeHandler(handler)


def report(tally: Tally) -> None:
    """Print the tally as the last line of this process."""
    line = {
        "inputs": tally.inputs,
        "cpu_s": round(tally.cpu_s, 1),
        "slowest_ms": round(tally.slowest_ms, 1),
        "finds": sorted(tally.finds),
    }
    print(json.dumps(line), flush=True)


def main() -> None:
    name, seconds, first_seed = sys.argv[1:]
    report(play_seconds(TARGETS[name], float(seconds), int(first_seed)))


if __name__ == "__main__":
    main()
