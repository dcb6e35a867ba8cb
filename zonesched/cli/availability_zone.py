"""`zonesched availability-zone`: the availability zones that a boot may name."""

from __future__ import annotations

import click

from zonesched.cli.group import CommandGroup
from zonesched.cli.output import by_name, print_list
from zonesched.cli.session import Session, list_options, pass_session
from zonesched.cli.table import Column, plain


@click.group("availability-zone", cls=CommandGroup)
def availability_zone() -> None:
    """List the availability zones that a boot may name."""


@availability_zone.command("list")
@click.option("--detail", is_flag=True, help="Show this zone's own hosts in each (admin).")
@list_options
@pass_session
def list_(session: Session, detail: bool) -> None:
    """List availability zones by name; one that is not available has only disabled hosts."""
    answer = session.call("GET", "/os-availability-zone/detail" if detail else "/os-availability-zone")
    rows = [
        {
            "name": found["zoneName"],
            "available": found["zoneState"]["available"],
            "hosts": sorted(found.get("hosts") or ()),
        }
        for found in answer["availabilityZoneInfo"]
    ]
    columns = (*plain("name", "available"), *([Column("hosts")] if detail else []))
    print_list(session, answer, columns, by_name(rows))
