"""`zonesched quota`: quotas of a project in OpenStack's form; `zonesched limit` has all limits of a zone."""

from __future__ import annotations

import click

from zonesched.cli.group import CommandGroup
from zonesched.cli.lookup import part_of_path
from zonesched.cli.output import check_fields, print_item, print_list
from zonesched.cli.session import Session, item_options, list_options, pass_session, zone_options
from zonesched.cli.table import plain

FIELDS = (
    *("instances", "cores", "ram", "key_pairs", "metadata_items"),
    *("server_groups", "server_group_members"),
)
"""Quotas of a project."""


@click.group(cls=CommandGroup)
def quota() -> None:
    """Show and set the quotas of a project; -1 is no limit."""


@quota.command("list")
@click.argument("project")
@list_options
@pass_session
def list_(session: Session, project: str) -> None:
    """List the quotas of a project with their use."""
    answer = session.call("GET", f"{_path(project)}/detail")
    quotas = {name: value for name, value in answer["quota_set"].items() if name != "id"}
    rows = [{"quota": name, "limit": one["limit"], "used": one["in_use"]} for name, one in quotas.items()]
    print_list(session, answer, plain("quota", "limit", "used"), rows)


@quota.command("set")
@click.argument("project")
@click.option("--instances", type=click.IntRange(min=-1), required=True, help="Most instances; -1: no limit.")
@click.option("--force", is_flag=True, help="Set it also below what the project has.")
@item_options
@pass_session
def set_(session: Session, project: str, instances: int, force: bool) -> None:
    """Set how many instances a project may have (admin)."""
    check_fields(session, FIELDS)
    answer = session.call("PUT", _path(project), {"quota_set": {"instances": instances, "force": force}})
    print_item(session, answer, answer["quota_set"])


@quota.command()
@click.argument("project")
@zone_options
@pass_session
def reset(session: Session, project: str) -> None:
    """Remove what was set for a project: the zone's options apply again (admin)."""
    session.call("DELETE", _path(project))


def _path(project: str) -> str:
    return f"/os-quota-sets/{part_of_path('projects', project)}"
