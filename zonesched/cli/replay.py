"""`zonesched replay`: repeat a recorded decision offline, with the same or other options."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

import click

from zonesched import conf
from zonesched.cli.output import print_json
from zonesched.cli.session import FILE, Session, offline_options, pass_session
from zonesched.cli.table import plain, print_table
from zonesched.scheduler.replay import Choice, Chosen, Record, record_from_text
from zonesched.scheduler.replay import replay as decide_again

DIFFERENT = 1


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--config-file",
    "files",
    multiple=True,
    type=FILE,
    help="Configuration file in place of the recorded options; repeatable.",
)
@click.option(
    "-o", "--option", "options", multiple=True, metavar="NAME=VALUE", help="Change one option; repeatable."
)
@offline_options
@pass_session
def replay(session: Session, file: Path, files: tuple[str, ...], options: tuple[str, ...]) -> None:
    """Repeat a recorded decision offline.

    With the recorded options the choice must be the same, else the exit code is 1. With other options the
    changed picks are shown.
    """
    record = record_from_text(file.read_bytes())
    given = dict(map(_option, options))
    now = decide_again(record, _conf(record, [str(path) for path in files], given))
    then = record.chosen
    if session.as_json:
        print_json({"same": now == then, "recorded": asdict(then), "replayed": asdict(now)})
    else:
        _print(session, then, now)
    if now != then and not (files or given):
        sys.exit(DIFFERENT)


def _conf(record: Record, files: Sequence[str], given: Mapping[str, str]) -> conf.Conf:
    recorded = {} if files else record.options
    return conf.load(files, {**recorded, **given})


def _option(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise click.UsageError(f"--option {text!r} is not NAME=VALUE")
    return name, value


def _print(session: Session, then: Chosen, now: Chosen) -> None:
    if now == then:
        click.echo("the same choice")
        rows = [(number, pick.place, pick.weight) for number, pick in enumerate(now.picks, 1)]
        print_table(session.screen, plain("pick", "place", "weight"), rows)
        return
    pairs = list(enumerate(zip_longest(then.picks, now.picks), 1))
    others = [(number, *_cells(b), *_cells(a)) for number, (b, a) in pairs if b != a]
    moved = sum(b is None or a is None or b.place != a.place for _, (b, a) in pairs)
    click.echo(
        f"another choice: {moved} of {len(pairs)} picks go elsewhere"
        if moved
        else "the same places, with other weights or by other filters"
    )
    if others:
        print_table(session.screen, plain("pick", "recorded", "weight", "replayed", "weight"), others)
    if then.own != now.own:
        print_table(session.screen, plain("filter", "code", "recorded", "replayed"), _funnels(then, now))


def _cells(pick: Choice | None) -> tuple[Any, Any]:
    return (None, None) if pick is None else (pick.place, pick.weight)


def _funnels(then: Chosen, now: Chosen) -> list[tuple[str, str, str | None, str | None]]:
    """Compare the hosts before and after each step; return the steps that differ."""
    before, after = _counts(then), _counts(now)
    keys = list(dict.fromkeys((*before, *after)))
    return [(*key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)]


def _counts(chosen: Chosen) -> dict[tuple[str, str], str]:
    steps = [asdict(step) for step in (*chosen.own.steps, *chosen.own.runs_out)]
    return {(s["filter"], s["code"]): f"{s.get('before')} -> {s.get('after')}" for s in steps}
