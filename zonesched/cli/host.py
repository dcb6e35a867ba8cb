"""`zonesched host`: the hosts of this zone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from zonesched.cli.lookup import find
from zonesched.cli.output import print_item, print_json, print_rows
from zonesched.cli.session import Session, pass_session, zone_options


@click.group()
def host() -> None:
    """The hosts of this zone (admin); other zones tell only their own admins."""


@host.command("list")
@zone_options
@pass_session
def list_(session: Session) -> None:
    """All hosts, with used / capacity of each resource class."""
    answer = session.call("GET", "/os-hypervisors/detail")
    if session.as_json:
        print_json(answer)
    else:
        hosts = answer["hypervisors"]
        classes = sorted({name for found in hosts for name in found["resources"]})
        rows = [
            [
                found["id"],
                found["hypervisor_hostname"],
                found["availability_zone"],
                found["state"],
                found["status"],
                found["running_vms"],
                *(_use(found["resources"].get(name)) for name in classes),
            ]
            for found in hosts
        ]
        print_rows(("id", "name", "availability zone", "state", "status", "instances", *classes), rows)


@host.command()
@click.argument("name_or_id")
@zone_options
@pass_session
def show(session: Session, name_or_id: str) -> None:
    """One host."""
    found = find(session, "/os-hypervisors/detail", "hypervisors", name_or_id)
    if session.as_json:
        print_json({"hypervisor": found})
    else:
        print_item({**found, "resources": {name: _use(use) for name, use in found["resources"].items()}})


def _use(use: Mapping[str, Any] | None) -> str:
    return f"{use['used']} / {use['capacity']}" if use else ""
