"""`zonesched zone boot`: N instances over the whole tree with one call."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from zonesched.cli.output import print_json
from zonesched.cli.reservation import watch
from zonesched.cli.session import Session, pass_session, zone_options
from zonesched.cli.why import print_dry_run
from zonesched.model.json_shape import DEEPEST, nests_deeper
from zonesched.model.own_zone import NAME_HINTS

NAMES = ("group", *NAME_HINTS)
"""Hints that name a group or hosts."""


@click.command()
@click.option("--flavor", required=True, help="Name or id of the size.")
@click.option("--image", help="Name or id of the image.")
@click.option("--name", required=True, help="Name of the instance; several are numbered: NAME-1, NAME-2.")
@click.option(
    "--num-instances", "-n", type=click.IntRange(1), default=1, show_default=True, help="Number of instances."
)
@click.option(
    "--min-count", type=click.IntRange(1), help="Accept at least this many instances.  [default: all or none]"
)
@click.option("--availability-zone", help="Only hosts of this availability zone.")
@click.option(
    "--filter", "filters", multiple=True, help="Host filter in addition to the zone's own; repeatable."
)
@click.option(
    "--enabled-filter",
    "enabled_filters",
    multiple=True,
    help="Use only these filters for the zone's local hosts (admin); repeatable.",
)
@click.option(
    "--hint",
    "hints",
    multiple=True,
    metavar="KEY=VALUE",
    help="Scheduler hint; the value may be JSON. A repeated key has all its values, as a list.",
)
@click.option("--idempotency-key", help="A repeated call with the same key boots nothing new.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Boot nothing; show how many instances would fit, where, and the first resource to run out.",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --dry-run (admin): write the inputs of the decision to this file, for `zonesched replay`.",
)
@click.option(
    "--watch",
    "watching",
    is_flag=True,
    help="Follow the boot until it has ended; exit with 1 if fewer than --min-count are ACTIVE.",
)
@zone_options
@pass_session
def boot(
    session: Session,
    flavor: str,
    image: str | None,
    name: str,
    num_instances: int,
    min_count: int | None,
    availability_zone: str | None,
    filters: tuple[str, ...],
    enabled_filters: tuple[str, ...],
    hints: tuple[str, ...],
    idempotency_key: str | None,
    dry_run: bool,
    record: Path | None,
    watching: bool,
) -> None:
    """Boot instances on the best hosts of the whole tree, and print the id of their reservation."""
    if record and not dry_run:
        raise click.UsageError("--record needs --dry-run")
    if idempotency_key == "":
        raise click.UsageError("--idempotency-key is empty: a repeated call would boot once more")
    if idempotency_key and not (idempotency_key.isascii() and idempotency_key.isprintable()):
        raise click.UsageError("--idempotency-key takes visible ASCII characters alone")
    server: dict[str, Any] = {
        "name": name,
        "flavorRef": flavor,
        "num_instances": num_instances,
    }
    given = {
        "imageRef": image,
        "min_count": min_count,
        "availability_zone": availability_zone,
        "filters": list(filters) or None,
        "enabled_filters": list(enabled_filters) or None,
    }
    server |= {key: value for key, value in given.items() if value is not None}
    body: dict[str, Any] = {"server": server}
    if hints:
        body["os:scheduler_hints"] = _hints(hints)
    if dry_run:
        _dry_run(session, {**body, "dry_run": True, "record": record is not None}, record)
        return
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key else None
    answer = session.call("POST", "/zones/boot", body, headers=headers)
    if watching:
        watch(session, answer["reservation_id"])
    elif session.as_json:
        print_json(answer)
    else:
        click.echo(answer["reservation_id"])


def _dry_run(session: Session, body: Mapping[str, Any], record: Path | None) -> None:
    answer = session.call("POST", "/zones/boot", body)
    if record:
        # The record has names and addresses of the zone's hosts.
        with os.fdopen(os.open(record, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                os.fchmod(file.fileno(), 0o600)
            json.dump(answer.pop("record"), file)
    if session.as_json:
        print_json(answer)
    else:
        print_dry_run(session.screen, answer["dry_run"])


def _hints(texts: Sequence[str]) -> dict[str, Any]:
    """Return the values of each key: the only one as it is, several as a list."""
    given: dict[str, list[Any]] = {}
    for key, value in map(_hint, texts):
        given.setdefault(key, []).append(value)
    return {key: values[0] if len(values) == 1 else list(_each(values)) for key, values in given.items()}


def _each(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        yield from value if isinstance(value, list) else [value]


def _hint(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise click.UsageError(f"--hint {text!r} is not KEY=VALUE")
    if nests_deeper(value, DEEPEST):
        return key, value
    try:
        found = json.loads(value)
        # Python reads NaN and numbers beyond its range too, which are no JSON.
        json.dumps(found, allow_nan=False)
    except ValueError:
        return key, value
    # A name such as 17 is no number.
    is_name = key in NAMES and not isinstance(found, str | list | dict)
    return key, value if is_name else found
