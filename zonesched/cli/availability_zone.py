"""`zonesched availability-zone`: what a boot may name."""

from __future__ import annotations

import click

from zonesched.cli.output import print_json, print_rows
from zonesched.cli.session import Session, pass_session, zone_options


@click.group("availability-zone")
def availability_zone() -> None:
    """The availability zones that a boot may name."""


@availability_zone.command("list")
@click.option("--detail", is_flag=True, help="With this zone's own hosts in each (admin).")
@zone_options
@pass_session
def list_(session: Session, detail: bool) -> None:
    """All of them; one that is not available has only disabled hosts."""
    answer = session.call("GET", "/os-availability-zone/detail" if detail else "/os-availability-zone")
    if session.as_json:
        print_json(answer)
    else:
        rows = [
            [
                found["zoneName"],
                found["zoneState"]["available"],
                *([sorted(found["hosts"])] if detail else []),
            ]
            for found in answer["availabilityZoneInfo"]
        ]
        print_rows(("name", "available", *(["hosts"] if detail else [])), rows)
