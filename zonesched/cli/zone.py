"""`zonesched zone`: the zone itself, its child zones, and boots over the whole tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zonesched.cli.group import CommandGroup
from zonesched.cli.lookup import find, find_id
from zonesched.cli.output import by_name, check_fields, print_item, print_list
from zonesched.cli.secret_input import given_secret
from zonesched.cli.session import (
    FILE,
    Session,
    item_options,
    list_options,
    pass_session,
    zone_options,
)
from zonesched.cli.table import Column, plain, print_table
from zonesched.cli.zone_boot import boot
from zonesched.cli.zone_drain import drain
from zonesched.compute.credentials import Credentials, read_credentials
from zonesched.finite_float import FiniteFloat

CHILD_COLUMNS = (
    Column("id", is_id=True),
    Column("name"),
    Column("state", is_status=True),
    Column("last_error", rank=1),
    Column("api_url", rank=2),
    Column("seen_at", rank=3),
    Column("weight_offset", rank=4),
    Column("weight_scale", rank=5),
)
FIELDS = (*(column.name for column in CHILD_COLUMNS), "is_active", "username")
"""Fields of one child zone."""


@click.group(cls=CommandGroup)
def zone() -> None:
    """Show a zone, boot over its tree, manage its children."""


zone.add_command(boot)
zone.add_command(drain)


@zone.command()
@item_options
@pass_session
def info(session: Session) -> None:
    """Show the zone itself, and the ranges of resources and weights over its tree."""
    answer = session.call("GET", "/zones/info")
    found = dict(answer["zone"])
    services, weighers = found.pop("services", {}), found.pop("weighers", {})
    print_item(session, answer, found)
    ranges = [
        (name, *value.split(","))
        for part in (services.get("compute", {}), weighers)
        for name, value in sorted(part.items())
    ]
    if session.is_plain_table and ranges:
        click.echo()
        print_table(session.screen, plain("over all hosts", "min", "max"), ranges)


@zone.command("list")
@list_options
@pass_session
def list_(session: Session) -> None:
    """List the child zones, by name."""
    answer = session.call("GET", "/zones/detail")
    print_list(session, answer, CHILD_COLUMNS, by_name(answer["zones"]))


@zone.command()
@click.argument("name_or_id")
@item_options
@pass_session
def show(session: Session, name_or_id: str) -> None:
    """Show one child zone, by name or id."""
    child = find(session, "/zones/detail", "zones", name_or_id)
    print_item(session, {"zone": child}, child)


CHILD_USER = (
    click.option("--child-username", metavar="NAME", help="Name of this zone's user in the child."),
    click.option("--child-password-file", type=FILE, help="File with that user's password."),
    click.option("--child-password-stdin", is_flag=True, help="Read that password from standard input."),
    click.option(
        "--child-credentials",
        type=FILE,
        help="File with name and password of that user, as `zonesched user create --save` writes it.",
    ),
)


def child_user(command: Any) -> Any:
    """Give a command the options that name this zone's user in a child."""
    for option in reversed(CHILD_USER):
        command = option(command)
    return command


def _child_user(
    credentials: Path | None, username: str | None, file: Path | None, from_stdin: bool
) -> Credentials:
    """Return the user and the password of the options; "" for a missing one."""
    if credentials is None:
        given = given_secret(file, from_stdin, "") if file or from_stdin else ""
        return Credentials(username=username or "", password=given)
    if username or file or from_stdin:
        raise click.UsageError("--child-credentials holds name and password: leave the other options out")
    return read_credentials(credentials)


@zone.command()
@click.argument("name")
@click.argument("api_url", required=False)
@child_user
@click.option(
    "--weight-offset",
    type=FiniteFloat(),
    default=0.0,
    show_default=True,
    help="Number added to the child's weights; a higher one makes it less preferred.",
)
@click.option(
    "--weight-scale",
    type=FiniteFloat(),
    default=1.0,
    show_default=True,
    help="Factor of the child's weights; above 0.",
)
@item_options
@pass_session
def add(
    session: Session,
    name: str,
    api_url: str | None,
    child_username: str | None,
    child_password_file: Path | None,
    child_password_stdin: bool,
    child_credentials: Path | None,
    weight_offset: float,
    weight_scale: float,
) -> None:
    """Add a child zone, which is tried with its credentials at once.

    The user has the role parent in the child. With --child-credentials the URL may be left out: it is the one
    in that file. Without any password option the password comes from a prompt.
    """
    check_fields(session, FIELDS)
    who = _child_user(child_credentials, child_username, child_password_file, child_password_stdin)
    if not who.username:
        raise click.UsageError("no user is named: use --child-credentials, or --child-username")
    if not (api_url or who.url):
        raise click.UsageError("no URL is named: give it after the name, or in --child-credentials")
    form = {
        "name": name,
        "api_url": api_url or who.url,
        "username": who.username,
        "password": who.password or given_secret(None, False, f"Password of {who.username} in the child"),
        "weight_offset": weight_offset,
        "weight_scale": weight_scale,
    }
    answer = session.call("POST", "/zones", {"zone": form})
    print_item(session, answer, answer["zone"])


@zone.command("set")
@click.argument("name_or_id")
@click.option("--name", help="New name.")
@click.option("--api-url", help="New URL.")
@child_user
@click.option(
    "--weight-offset",
    type=FiniteFloat(),
    help="Number added to the child's weights; a higher one makes it less preferred.",
)
@click.option("--weight-scale", type=FiniteFloat(), help="Factor of the child's weights; above 0.")
@click.option(
    "--state",
    type=click.Choice(["enabled", "disabled"]),
    help="Whether it takes new instances; those that it has stay.",
)
@zone_options
@pass_session
def set_(
    session: Session,
    name_or_id: str,
    name: str | None,
    api_url: str | None,
    child_username: str | None,
    child_password_file: Path | None,
    child_password_stdin: bool,
    child_credentials: Path | None,
    weight_offset: float | None,
    weight_scale: float | None,
    state: str | None,
) -> None:
    """Change a child zone; other settings stay."""
    who = _child_user(child_credentials, child_username, child_password_file, child_password_stdin)
    change: dict[str, Any] = {
        "name": name,
        "api_url": api_url,
        "username": who.username or None,
        "password": who.password or None,
        "weight_offset": weight_offset,
        "weight_scale": weight_scale,
        "state": state,
    }
    change = {key: value for key, value in change.items() if value is not None}
    if not change:
        raise click.UsageError("nothing to change is named")
    id = find_id(session, "/zones", "zones", name_or_id)
    answer = session.call("PUT", f"/zones/{id}", {"zone": change})
    print_item(session, answer, answer["zone"])


@zone.command()
@click.argument("name_or_id")
@click.option(
    "--force", is_flag=True, help="Remove it while instances are there too; they become ERROR zone_lost."
)
@zone_options
@pass_session
def delete(session: Session, name_or_id: str, force: bool) -> None:
    """Remove a child zone; it must have no instances of this zone."""
    id = find_id(session, "/zones", "zones", name_or_id)
    session.call("DELETE", f"/zones/{id}", params={"force": "true"} if force else None)
