"""`zonesched server`: instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from zonesched.cli.group import CommandGroup
from zonesched.cli.lookup import find_deleted_server_id, find_reservation_id, find_server_id
from zonesched.cli.output import print_item, print_list
from zonesched.cli.server_actions import COMMANDS
from zonesched.cli.server_targets import SERVER_STATUSES, each, ids_of_boot
from zonesched.cli.session import Session, item_options, list_options, pass_session, zone_options
from zonesched.cli.table import Column
from zonesched.compute.connection import ZoneRefused
from zonesched.model.page_link import next_marker

HERE = "this zone"
"""Value of the zone column for an instance on a local host of the asked zone."""

COLUMNS = (
    Column("id", is_id=True),
    Column("name"),
    Column("status", is_status=True),
    Column("zone", rank=1),
    Column("fault", rank=2),
    Column("flavor", rank=3),
    Column("created", rank=4),
    Column("reservation_id", rank=5, is_id=True),
    Column("project", rank=6),
    Column("host", rank=7),
)


@click.group(cls=CommandGroup)
def server() -> None:
    """List, show, start, stop and delete instances."""


@server.command("list")
@click.option("--reservation", metavar="ID", help="Only the instances of one boot.")
@click.option("--status", type=click.Choice(SERVER_STATUSES, case_sensitive=False), help="Only this status.")
@click.option("--name", default="", help="Only instances whose name contains this text.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=1000,
    show_default=True,
    help="Maximum number of instances.",
)
@click.option("--marker", metavar="ID", help="Start after the instance of this id.")
@click.option("--all-tenants", is_flag=True, help="List the instances of all projects (admin).")
@list_options
@pass_session
def list_(
    session: Session,
    reservation: str | None,
    status: str | None,
    name: str,
    limit: int,
    marker: str | None,
    all_tenants: bool,
) -> None:
    """List instances, newest first; deleted ones only with --status DELETED."""
    wanted = {
        # The empty text of a script whose variable is not set is no boot: it does not ask for all of them.
        "reservation_id": None if reservation is None else find_reservation_id(session, reservation),
        "status": status,
        "name": name,
        "marker": None if marker is None else find_server_id(session, marker),
    }
    params: dict[str, str | int] = {key: value for key, value in wanted.items() if value}
    params["limit"] = limit
    if all_tenants:
        params["all_tenants"] = "true"
    answer = session.call("GET", "/servers/detail", params=params)
    print_list(session, answer, COLUMNS, [_row(found) for found in answer["servers"]])
    if (behind := next_marker(answer, "servers")) and not session.as_json:
        click.echo(f"more: --marker {behind}", err=True)


def _row(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **found,
        "zone": _zone(found),
        "fault": found.get("fault", {}).get("error_code"),
        "flavor": found.get("flavor", {}).get("original_name"),
        "project": found.get("tenant_id"),
        "host": found.get("OS-EXT-SRV-ATTR:host"),
    }


def _zone(found: Mapping[str, Any]) -> str:
    """Return the child zone of an instance; only admins see it."""
    if found.get("OS-EXT-SRV-ATTR:host"):
        return HERE
    return str(found.get("child_zone", ""))


@server.command()
@click.argument("name_or_id")
@item_options
@pass_session
def show(session: Session, name_or_id: str) -> None:
    """Show one instance, by name, id or a prefix of the id."""
    answer = session.call("GET", f"/servers/{find_server_id(session, name_or_id)}")
    found = dict(answer["server"])
    for part in ("flavor", "image"):
        if isinstance(found.get(part), Mapping):
            found[part] = _named(found[part])
    shown = {"zone": _zone(found), **{key: value for key, value in found.items() if key != "child_zone"}}
    print_item(session, answer, shown)


def _named(part: Mapping[str, Any]) -> str:
    if "original_name" in part:
        return str(part["original_name"])
    return f"{part['name']} ({part['id']})" if part.get("name") else str(part.get("id", ""))


@server.command()
@click.argument("names_or_ids", nargs=-1)
@click.option("--reservation", metavar="ID", help="Delete all instances of one boot.")
@click.option("--force", is_flag=True, help="Delete them for good, also what could still be restored.")
@zone_options
@pass_session
def delete(session: Session, names_or_ids: tuple[str, ...], reservation: str | None, force: bool) -> None:
    """Delete instances by name, by id or by boot, wherever in the tree they are.

    Where their zone sets reclaim_instance_interval, `server restore` takes that back for so long.
    Where some cannot be deleted, it deletes the others, names those that are left, and exits with 1.
    """
    if bool(names_or_ids) == bool(reservation):
        raise click.UsageError("name either instances or, with --reservation, one boot")
    if reservation:
        names_or_ids = tuple(ids_of_boot(session, reservation))
    each(names_or_ids, lambda wanted: delete_one(session, wanted, force=force))


def delete_one(session: Session, wanted: str, *, force: bool = False) -> None:
    """Delete one instance, by name or id; with `force` for good. Raises ZoneRefused that names it."""
    try:
        if force:
            path = f"/servers/{_find_id_of_any(session, wanted)}/action"
            session.call("POST", path, {"forceDelete": None})
        else:
            session.call("DELETE", f"/servers/{find_server_id(session, wanted)}")
    except ZoneRefused as error:
        if error.status == 404:
            raise ZoneRefused(404, "not_found", f"there is no server {wanted!r}", "server") from None
        raise


def _find_id_of_any(session: Session, wanted: str) -> str:
    """Find the id of an instance that may be deleted already."""
    try:
        return find_server_id(session, wanted)
    except ZoneRefused as error:
        if error.status != 404:
            raise
        return find_deleted_server_id(session, wanted)


for command in COMMANDS:
    server.add_command(command)
