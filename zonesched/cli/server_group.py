"""`zonesched server-group`: instances that are placed together, or apart."""

from __future__ import annotations

from typing import Any

import click

from zonesched.cli.group import CommandGroup
from zonesched.cli.lookup import find, find_id, whole_list
from zonesched.cli.output import by_name, print_item, print_json, print_list
from zonesched.cli.session import Session, item_options, list_options, pass_session, zone_options
from zonesched.cli.table import Column

COLUMNS = (
    Column("id", is_id=True),
    Column("name"),
    Column("policy"),
    Column("members"),
    Column("rules", rank=1),
    Column("project_id", rank=2),
    Column("user_id", rank=3, is_id=True),
)
POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")


@click.group("server-group", cls=CommandGroup)
def server_group() -> None:
    """Manage groups of instances placed together or apart.

    `zonesched zone boot --hint group=NAME` boots instances into a group.
    """


@server_group.command("list")
@click.option("--all-projects", is_flag=True, help="List the groups of all projects (admin).")
@list_options
@pass_session
def list_(session: Session, all_projects: bool) -> None:
    """List the server groups of the project by name, with how many members each has."""
    params = {"all_projects": "true"} if all_projects else None
    answer = whole_list(session, "/os-server-groups", "server_groups", params)
    rows = by_name([{**found, "members": len(found["members"])} for found in answer["server_groups"]])
    print_list(session, answer, COLUMNS, rows)


@server_group.command()
@click.argument("name_or_id")
@item_options
@pass_session
def show(session: Session, name_or_id: str) -> None:
    """Show one server group with its members, by name or id."""
    found = find(session, "/os-server-groups", "server_groups", name_or_id)
    print_item(session, {"server_group": found}, {column.name: found[column.name] for column in COLUMNS})


@server_group.command()
@click.argument("name")
@click.option("--policy", type=click.Choice(POLICIES), required=True, help="Placement of its instances.")
@click.option(
    "--max-server-per-host",
    type=click.IntRange(1),
    help="Maximum of its instances on one host, for anti-affinity.  [default: 1]",
)
@zone_options
@pass_session
def create(session: Session, name: str, policy: str, max_server_per_host: int | None) -> None:
    """Add a server group and print its id."""
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
    """Remove a server group; its members keep running."""
    group_id = find_id(session, "/os-server-groups", "server_groups", name_or_id)
    session.call("DELETE", f"/os-server-groups/{group_id}")
