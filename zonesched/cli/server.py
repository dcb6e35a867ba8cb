"""`zonesched server`: instances."""

from __future__ import annotations

import click

from zonesched.cli.output import print_item, print_json, print_rows
from zonesched.cli.session import Session, pass_session, zone_options

COLUMNS = ("id", "name", "status", "reservation_id", "created")


@click.group()
def server() -> None:
    """Instances."""


@server.command("list")
@click.option("--reservation", "reservation_id", default="", help="Only those of one boot.")
@click.option("--status", default="", help="BUILD, ACTIVE, ERROR, DELETED or UNKNOWN.")
@click.option("--name", default="", help="Only those whose name contains this.")
@click.option("--limit", type=int, default=1000, show_default=True, help="At most so many.")
@click.option("--marker", default="", help="Begin after this id.")
@click.option("--all-tenants", is_flag=True, help="Those of all projects (admin).")
@zone_options
@pass_session
def list_(
    session: Session, reservation_id: str, status: str, name: str, limit: int, marker: str, all_tenants: bool
) -> None:
    """Instances, newest first."""
    asked = {"reservation_id": reservation_id, "status": status, "name": name, "marker": marker}
    params: dict[str, str | int] = {key: value for key, value in asked.items() if value}
    params["limit"] = limit
    if all_tenants:
        params["all_tenants"] = "true"
    answer = session.call("GET", "/servers/detail", params=params)
    if session.as_json:
        print_json(answer)
    else:
        rows = [
            [*(found.get(key) for key in COLUMNS), found.get("fault", {}).get("error_code")]
            for found in answer["servers"]
        ]
        print_rows((*COLUMNS, "fault"), rows)
        if answer.get("servers_links"):
            click.echo(f"more: --marker {answer['servers'][-1]['id']}", err=True)


@server.command()
@click.argument("id")
@zone_options
@pass_session
def show(session: Session, id: str) -> None:
    """One instance."""
    answer = session.call("GET", f"/servers/{id}")
    if session.as_json:
        print_json(answer)
    else:
        print_item(answer["server"])


@server.command()
@click.argument("ids", nargs=-1, required=True)
@zone_options
@pass_session
def delete(session: Session, ids: tuple[str, ...]) -> None:
    """Delete instances, wherever in the tree they are."""
    for id in ids:
        session.call("DELETE", f"/servers/{id}")
