"""Mutants, drawn evenly over the lines that decide and that fast tests reach, and who notices each.

A mutant runs against the fast tests that reach its line, those first that reach little else; one that all of
them let pass plays seeds of the simulation.
"""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from queue import SimpleQueue

import click

from benchmarks.planted.mutant import Mutant, draw, files, of_file
from benchmarks.planted.reaching import Reaching, measure
from benchmarks.planted.run import CHECKOUT, CannotJudge, copies, first_failure

SEEDS_S = 1800


class Fate(Enum):
    """End of a mutant: noticed by tests or seeds, or by nobody."""

    CAUGHT_BY_TESTS = "caught by tests"
    HUNG = "hung"
    CAUGHT_BY_SEEDS = "caught by seeds"
    SURVIVED = "survived"


@dataclass(frozen=True)
class Verdict:
    """Fate of a mutant; `noticed_by`: the test, "" for none; `tests`: how many reach its line."""

    mutant: Mutant
    fate: Fate
    noticed_by: str
    tests: int


@dataclass(frozen=True)
class Drawing:
    """Request for a draw: the number of mutants, their rooms, and the most tests to run against each."""

    count: int
    seed: int
    rooms: Sequence[str]
    most_tests: int | None


def play(drawing: Drawing, measured: Path, seeds: int, jobs: int) -> bool:
    """Judge mutants and print the JSON line; tell whether none survived."""
    if not measured.exists():
        click.echo("measuring which fast tests reach which lines", err=True)
        measure(CHECKOUT, measured)
    reaching = Reaching(CHECKOUT, measured)
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    unreached = 0
    for path in files(CHECKOUT, drawing.rooms):
        for mutant in of_file(path, (CHECKOUT / path).read_text()):
            if reaching.lines(path).get(mutant.line):
                by_line.setdefault((path, mutant.line), []).append(mutant)
            else:
                unreached += 1
    drawn = draw(by_line, drawing.count, drawing.seed)
    tests = {m: spread(reaching.tests(m.path, m.line), drawing.most_tests) for m in drawn}
    verdicts: list[Verdict] = []
    for verdict in _judged(drawn, tests, seeds, jobs):
        verdicts.append(verdict)
        said = f"{verdict.fate.value} {verdict.noticed_by}".rstrip()
        click.echo(f"[{len(verdicts)}/{len(drawn)}] {verdict.mutant.name}: {said}", err=True)
        if verdict.fate is Fate.SURVIVED:
            click.echo(change_of(verdict.mutant), err=True)
    fates = Counter(verdict.fate for verdict in verdicts)
    survived = sorted(verdict.mutant.name for verdict in verdicts if verdict.fate is Fate.SURVIVED)
    line = {
        "name": "drawn_mutants",
        "seed": drawing.seed,
        "rooms": list(drawing.rooms),
        "lines": len(by_line),
        "mutants_unreached": unreached,
        "drawn": len(drawn),
        **{fate.name.lower(): fates[fate] for fate in Fate},
        "survivors": survived,
    }
    click.echo(json.dumps(line))
    return not survived


def spread(tests: Sequence[str], most: int | None) -> Sequence[str]:
    """Return at most so many tests, evenly over all: those that reach little else often lack the rows."""
    if most is None or len(tests) <= most:
        return tests
    return [tests[number * len(tests) // most] for number in range(most)]


def change_of(mutant: Mutant) -> str:
    """Return the lines that a mutant takes away and adds."""
    source = (CHECKOUT / mutant.path).read_text()
    lines = difflib.unified_diff(source.splitlines(), mutant.changed(source).splitlines(), n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def _judged(
    drawn: Sequence[Mutant], tests: Mapping[Mutant, Sequence[str]], seeds: int, jobs: int
) -> Iterator[Verdict]:
    """Judge mutants, several at a time."""
    with copies(jobs) as free, ThreadPoolExecutor(jobs) as pool:
        tried = [pool.submit(_judge, mutant, tests[mutant], seeds, free) for mutant in drawn]
        try:
            for future in as_completed(tried):
                yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _judge(mutant: Mutant, tests: Sequence[str], seeds: int, free: SimpleQueue[Path]) -> Verdict:
    copy = free.get()
    file = copy / mutant.path
    right = file.read_text()
    try:
        file.write_text(mutant.changed(right))
        noticed_by = _noticed(copy, tests)
        if noticed_by.startswith("still running"):
            return Verdict(mutant, Fate.HUNG, noticed_by, len(tests))
        if noticed_by:
            return Verdict(mutant, Fate.CAUGHT_BY_TESTS, noticed_by, len(tests))
        fate = Fate.CAUGHT_BY_SEEDS if seeds and _seeds_notice(copy, seeds) else Fate.SURVIVED
        return Verdict(mutant, fate, "", len(tests))
    finally:
        file.write_text(right)
        free.put(copy)


def _noticed(copy: Path, tests: Sequence[str]) -> str:
    """Return the test that notices; a package that cannot be imported is noticed, too."""
    try:
        return first_failure(copy, tests)
    except CannotJudge:
        return "nothing can be collected"


def _seeds_notice(copy: Path, seeds: int) -> bool:
    """Tell whether one of the first seeds of the simulation goes wrong, or does not end."""
    command = [sys.executable, "benchmarks/simulate.py", "--seeds", str(seeds)]
    try:
        run = subprocess.run(command, cwd=copy, capture_output=True, timeout=SEEDS_S)
    except subprocess.TimeoutExpired:
        return True
    return run.returncode != 0
