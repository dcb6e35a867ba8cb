"""Plant bugs one by one in copies of the checkout, run the tests that should notice, and say which did."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import click

from benchmarks.planted.bug import Bug
from benchmarks.planted.bugs import BUGS

CHECKOUT = Path(__file__).resolve().parents[2]
PARTS = ("zonesched", "tests", "benchmarks", "docs", "etc", "pyproject.toml", "run_zone.sh", "README.md")
LONGEST_S = 600
FAILED_TESTS = 1
"""Exit status of pytest when it ran and tests failed: any other one is no catch (its documentation)."""


@dataclass(frozen=True)
class Outcome:
    """First test that failed on a bug; "" when all of them passed."""

    bug: Bug
    caught_by: str


class CannotJudge(Exception):
    """The tests did not run."""


@contextmanager
def copies(count: int) -> Iterator[SimpleQueue[Path]]:
    """So many copies of what the tests need, each for one run at a time."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        free: SimpleQueue[Path] = SimpleQueue()
        for number in range(count):
            copy = Path(folder) / str(number)
            copy.mkdir()
            for part in PARTS:
                source = CHECKOUT / part
                if source.is_dir():
                    shutil.copytree(
                        source, copy / part, ignore=shutil.ignore_patterns("__pycache__", "_build")
                    )
                else:
                    shutil.copy(source, copy / part)
            free.put(copy)
        yield free


def first_failure(checkout: Path, tests: Sequence[str]) -> str:
    """The first of these tests that fails in a checkout, "" when all pass. Raises CannotJudge."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
    try:
        run = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        return f"still running after {LONGEST_S} s"
    if run.returncode == 0:
        return ""
    failed = [line for line in run.stdout.splitlines() if line.startswith("FAILED ")]
    if run.returncode != FAILED_TESTS or not failed:
        raise CannotJudge(run.stdout[-2000:] + run.stderr[-2000:])
    return failed[0].removeprefix("FAILED ").split(" - ")[0]


def try_bug(bug: Bug, free: SimpleQueue[Path]) -> Outcome:
    """Plant one bug in a free copy, and take it out again."""
    copy = free.get()
    try:
        bug.plant(copy)
        return Outcome(bug, first_failure(copy, bug.tests))
    finally:
        bug.remove(copy, CHECKOUT)
        free.put(copy)


def report(outcomes: Sequence[Outcome]) -> str:
    """The last line: how many were planted and caught, and the names of those that were not."""
    missed = sorted(outcome.bug.name for outcome in outcomes if not outcome.caught_by)
    line = {
        "name": "planted_bugs",
        "planted": len(outcomes),
        "caught": len(outcomes) - len(missed),
        "missed": missed,
    }
    return json.dumps(line)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", multiple=True, metavar="NAME", help="Plant this bug alone (several times: these).")
@click.option("--jobs", type=click.IntRange(1, 64), default=2, show_default=True, help="Bugs at a time.")
@click.option(
    "--drawn", type=click.IntRange(min=1), metavar="N", help="Draw so many changes by machine instead."
)
@click.option("--seed", type=int, default=0, show_default=True, help="With --drawn: which ones.")
@click.option(
    "--seeds",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    help="With --drawn: of the simulation.",
)
@click.option(
    "--within",
    multiple=True,
    metavar="PATH",
    help="With --drawn: change this folder or module alone (several times: these), not all that decide.",
)
@click.option(
    "--tests",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --drawn: run at most so many of a line's tests, taken evenly from all of them.",
)
@click.option(
    "--coverage",
    type=click.Path(dir_okay=False, path_type=Path),
    default=CHECKOUT / ".coverage-of-tests",
    help="With --drawn: which tests reach which lines; measured where the file is not there.",
)
@click.option("--list", "list_only", is_flag=True, help="Say which bugs there are, and plant none.")
def main(
    only: Sequence[str],
    jobs: int,
    drawn: int | None,
    seed: int,
    seeds: int,
    within: Sequence[str],
    tests: int | None,
    coverage: Path,
    list_only: bool,
) -> None:
    """Plant one-line bugs in a copy of this checkout, one by one, and see which tests catch them.

    Prints a line for each bug, then a JSON line. Exit status 1 when a bug was not caught.

    --drawn needs the extra `mutants` of the package.
    """
    if drawn is not None:
        # Only this form needs the libraries that draw.
        from benchmarks.planted import drawn as by_machine  # noqa: PLC0415
        from benchmarks.planted.mutant import ROOMS  # noqa: PLC0415

        drawing = by_machine.Drawing(drawn, seed, within or ROOMS, tests)
        sys.exit(0 if by_machine.play(drawing, coverage, seeds, jobs) else 1)
    names = {bug.name for bug in BUGS}
    unknown = sorted(set(only) - names)
    if unknown:
        raise click.UsageError(
            f"No bug is called {', '.join(unknown)}. There are: {', '.join(sorted(names))}."
        )
    chosen = [bug for bug in BUGS if not only or bug.name in only]
    if list_only:
        for bug in chosen:
            click.echo(f"{bug.name}: {bug.breaks} ({bug.path})")
        return
    outcomes: list[Outcome] = []
    with copies(min(jobs, len(chosen))) as free, ThreadPoolExecutor(jobs) as pool:
        tried = {pool.submit(try_bug, bug, free): bug for bug in chosen}
        try:
            for future in as_completed(tried):
                outcome = future.result()
                outcomes.append(outcome)
                verdict = f"caught by {outcome.caught_by}" if outcome.caught_by else "NOT CAUGHT"
                click.echo(f"[{len(outcomes)}/{len(chosen)}] {outcome.bug.name}: {verdict}", err=True)
        except CannotJudge as error:
            raise click.ClickException(f"The tests did not run:\n{error}") from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    click.echo(report(outcomes))
    if any(not outcome.caught_by for outcome in outcomes):
        sys.exit(1)
