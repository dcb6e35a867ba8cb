"""`zonesched audit`: whether claims, instances and reservations agree."""

from __future__ import annotations

import sys

import click

from zonesched.cli.output import print_json, print_rows
from zonesched.cli.session import Session, pass_session, zone_options

COLUMNS = ("kind", "subject", "detail")


@click.command()
@zone_options
@pass_session
def audit(session: Session) -> None:
    """Compare claims, instances and reservations of the zone; exit 1 if they differ."""
    answer = session.call("GET", "/audit")
    differences = answer["differences"]
    if session.as_json:
        print_json(answer)
    elif differences:
        print_rows(COLUMNS, [[found[key] for key in COLUMNS] for found in differences])
    else:
        click.echo("no differences")
    if differences:
        sys.exit(1)
