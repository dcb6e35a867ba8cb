"""The command: its arguments, its attacks one after the other, its line of JSON."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click

from benchmarks.zone_trees.client import ZoneFault
from benchmarks.zone_trees.processes import StartFailed
from benchmarks.zone_trees.run_folder import run_folder

from .attack import Attack
from .attacks import ALL, BY_NAME
from .measuring import FLOOR_S, PERIOD_S, SHORT_PERIOD_S
from .run import Run, chosen
from .setting import set_the_scene
from .tree import Setup, Tree
from .verdict import Summary

SHORT_S = 0.3
MOST_LINES = 5


@click.command()
@click.option("--list", "lists", is_flag=True, help="Print the attacks and end.")
@click.option("--only", multiple=True, type=click.Choice(sorted(BY_NAME)), metavar="NAME", help="Repeatable.")
@click.argument("more", nargs=-1, metavar="[NAME]...")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    help="Of calm, and of attack.",
)
@click.option("--short", is_flag=True, help=f"Each attack for {SHORT_S} seconds, and fewer selects.")
@click.option(
    "--late-s",
    type=click.FloatRange(min=0.01),
    default=FLOOR_S,
    show_default=True,
    help="A select that is faster than this is never late; raise it on a machine with other work.",
)
@click.option("--database", type=click.Choice(["sqlite", "postgresql"]), default="sqlite", show_default=True)
@click.option("--tls", is_flag=True, help="Zones serve HTTPS.")
@click.option("--processes", type=click.IntRange(1, 4), default=1, show_default=True, help="Of each zone.")
@click.option("--seed", type=int, default=1, show_default=True, help="Chooses what attackers send.")
@click.option("--keep", is_flag=True, help="Leave the folder with databases and logs.")
def main(
    lists: bool,
    only: tuple[str, ...],
    more: tuple[str, ...],
    seconds: float,
    short: bool,
    late_s: float,
    database: str,
    tls: bool,
    processes: int,
    seed: int,
    keep: bool,
) -> None:
    """Attack a tree of three zones; one line of JSON says which bounds held.

    Before each attack its callers are measured in calm. Exit code 1 when a bound did not hold. `--only` takes
    several names.
    """
    if lists:
        for attack in ALL:
            click.echo(f"{attack.name}: {attack.does}")
        return
    try:
        attacks = chosen(ALL, [*only, *more], tls=tls)
    except KeyError as error:
        raise click.UsageError(f"{error} is no attack: --list names all.") from error
    except ValueError as error:
        raise click.UsageError(f"{error} attacks TLS: it needs --tls.") from error
    signal.signal(signal.SIGTERM, _interrupt)
    setup = Setup(database, tls, processes)
    began_at = time.monotonic()
    summary = Summary()
    try:
        with run_folder("hostile", keep, _say) as folder:
            tree = Tree(folder, setup, _say)
            try:
                with _running(tree, seed, late_s, SHORT_PERIOD_S if short else PERIOD_S) as run:
                    _attack_all(run, attacks, SHORT_S if short else seconds, summary)
            finally:
                _uninterrupted(tree)
    except (StartFailed, ZoneFault) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        _say("stopped, and all processes with it")
        raise SystemExit(128 + signal.SIGINT) from None
    line = {
        "benchmark": "hostile",
        "database": database,
        "tls": tls,
        "processes": processes,
        "seed": seed,
        "late_s": late_s,
        **summary.numbers(),
        "seconds": round(time.monotonic() - began_at, 1),
    }
    click.echo(json.dumps(line))
    raise SystemExit(1 if summary.is_over else 0)


@contextmanager
def _running(tree: Tree, seed: int, late_s: float, period_s: float) -> Iterator[Run]:
    tree.start()
    run = Run(tree, set_the_scene(tree), seed, late_s, period_s, _say)
    try:
        yield run
    finally:
        run.stop()


def _attack_all(run: Run, attacks: Sequence[Attack], seconds: float, summary: Summary) -> None:
    for number, attack in enumerate(attacks, 1):
        verdict = run.attack(attack, seconds)
        summary.verdicts.append(verdict)
        _say(f"{number}/{len(attacks)} {verdict.line()}")
        for line in verdict.over[:MOST_LINES]:
            _say(f"    {line}")


def _say(line: str) -> None:
    click.echo(f"hostile: {line}", err=True)


def _uninterrupted(tree: Tree) -> None:
    """End everything, however often Ctrl-C is pressed meanwhile."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        tree.close()
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
