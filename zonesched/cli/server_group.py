"""`zonesched server-group`: instances that are placed together, or apart."""

from __future__ import annotations

from typing import Any

import click

from zonesched.cli.lookup import find, find_id
from zonesched.cli.output import print_item, print_json, print_rows
from zonesched.cli.session import Session, pass_session, zone_options

COLUMNS = ("id", "name", "policy", "rules", "members")
POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")


@click.group("server-group")
def server_group() -> None:
    """Instances that are placed together, or apart; join one with `zone boot --hint group=NAME`."""


@server_group.command("list")
@click.option("--all-projects", is_flag=True, help="Everybody's (admin).")
@zone_options
@pass_session
def list_(session: Session, all_projects: bool) -> None:
    """The server groups of the project, with how many members each has."""
    params = {"all_projects": "true"} if all_projects else None
    answer = session.call("GET", "/os-server-groups", params=params)
    if session.as_json:
        print_json(answer)
    else:
        rows = [{**found, "members": len(found["members"])} for found in answer["server_groups"]]
        print_rows(COLUMNS, [[row[key] for key in COLUMNS] for row in rows])


@server_group.command()
@click.argument("name_or_id")
@zone_options
@pass_session
def show(session: Session, name_or_id: str) -> None:
    """One server group, with its members."""
    found = find(session, "/os-server-groups", "server_groups", name_or_id)
    if session.as_json:
        print_json({"server_group": found})
    else:
        print_item({key: found[key] for key in (*COLUMNS, "project_id", "user_id")})


@server_group.command()
@click.argument("name")
@click.option("--policy", type=click.Choice(POLICIES), required=True)
@click.option("--max-server-per-host", type=int, help="Of anti-affinity; 1 without it.")
@zone_options
@pass_session
def create(session: Session, name: str, policy: str, max_server_per_host: int | None) -> None:
    """Add a server group."""
    form: dict[str, Any] = {"name": name, "policy": policy}
    if max_server_per_host is not None:
        form["rules"] = {"max_server_per_host": max_server_per_host}
    answer = session.call("POST", "/os-server-groups", {"server_group": form})
    if session.as_json:
        print_json(answer)
    else:
        click.echo(answer["server_group"]["id"])


@server_group.command()
@click.argument("name_or_id")
@zone_options
@pass_session
def delete(session: Session, name_or_id: str) -> None:
    """Remove a server group; its members go on."""
    group_id = find_id(session, "/os-server-groups", "server_groups", name_or_id)
    session.call("DELETE", f"/os-server-groups/{group_id}")
