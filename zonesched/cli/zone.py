"""`zonesched zone`: the zone itself, its child zones, and boots over the whole tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zonesched.cli.lookup import find, find_id
from zonesched.cli.output import print_item, print_json, print_rows
from zonesched.cli.secret_input import given_secret
from zonesched.cli.session import FILE, Session, pass_session, zone_options
from zonesched.cli.zone_boot import boot

CHILD_COLUMNS = ("id", "name", "api_url", "state", "weight_offset", "weight_scale", "seen_at", "last_error")


@click.group()
def zone() -> None:
    """The zone, its child zones, and boots over the whole tree."""


zone.add_command(boot)


@zone.command()
@zone_options
@pass_session
def info(session: Session) -> None:
    """What the zone says of itself and all below it."""
    answer = session.call("GET", "/zones/info")
    if session.as_json:
        print_json(answer)
    else:
        said = dict(answer["zone"])
        services, weighers = said.pop("services", {}), said.pop("weighers", {})
        print_item(said)
        click.echo()
        ranges = [
            (name, *value.split(","))
            for part in (services.get("compute", {}), weighers)
            for name, value in part.items()
        ]
        print_rows(("min,max below", "min", "max"), ranges)


@zone.command("list")
@zone_options
@pass_session
def list_(session: Session) -> None:
    """The child zones."""
    answer = session.call("GET", "/zones/detail")
    if session.as_json:
        print_json(answer)
    else:
        print_rows(CHILD_COLUMNS, [[child[key] for key in CHILD_COLUMNS] for child in answer["zones"]])


@zone.command()
@click.argument("name_or_id")
@zone_options
@pass_session
def show(session: Session, name_or_id: str) -> None:
    """One child zone."""
    child = find(session, "/zones/detail", "zones", name_or_id)
    if session.as_json:
        print_json({"zone": child})
    else:
        print_item(child)


CHILD_SECRET = (
    click.option("--child-password-file", type=FILE, help="File with this zone's password there."),
    click.option("--child-password-stdin", is_flag=True, help="Read that password from standard input."),
)


def child_secret(command: Any) -> Any:
    for option in reversed(CHILD_SECRET):
        command = option(command)
    return command


@zone.command()
@click.argument("name")
@click.argument("api_url")
@click.option("--child-username", required=True, help="This zone's user there, of the role parent.")
@child_secret
@click.option("--weight-offset", type=float, default=0.0, show_default=True, help="Added to its weights.")
@click.option("--weight-scale", type=float, default=1.0, show_default=True, help="Factor of its weights.")
@zone_options
@pass_session
def add(
    session: Session,
    name: str,
    api_url: str,
    child_username: str,
    child_password_file: Path | None,
    child_password_stdin: bool,
    weight_offset: float,
    weight_scale: float,
) -> None:
    """Add a child zone. Its password comes from a file, standard input or a prompt."""
    password = given_secret(child_password_file, child_password_stdin, f"Password of {child_username} there")
    form = {
        "name": name,
        "api_url": api_url,
        "username": child_username,
        "password": password,
        "weight_offset": weight_offset,
        "weight_scale": weight_scale,
    }
    answer = session.call("POST", "/zones", {"zone": form})
    if session.as_json:
        print_json(answer)
    else:
        print_item(answer["zone"])


@zone.command("set")
@click.argument("name_or_id")
@click.option("--name", help="Its new name.")
@click.option("--api-url", help="Where it is now.")
@click.option("--child-username", help="This zone's user there.")
@child_secret
@click.option("--weight-offset", type=float, help="Added to its weights.")
@click.option("--weight-scale", type=float, help="Factor of its weights.")
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
    weight_offset: float | None,
    weight_scale: float | None,
) -> None:
    """Change a child zone; what is not named stays."""
    change: dict[str, Any] = {
        "name": name,
        "api_url": api_url,
        "username": child_username,
        "weight_offset": weight_offset,
        "weight_scale": weight_scale,
    }
    if child_password_file or child_password_stdin:
        change["password"] = given_secret(child_password_file, child_password_stdin, "")
    change = {key: value for key, value in change.items() if value is not None}
    if not change:
        raise click.UsageError("nothing to change is named")
    id = find_id(session, "/zones", "zones", name_or_id)
    answer = session.call("PUT", f"/zones/{id}", {"zone": change})
    if session.as_json:
        print_json(answer)
    else:
        print_item(answer["zone"])


@zone.command()
@click.argument("name_or_id")
@click.option("--force", is_flag=True, help="Also when instances are there; they become ERROR zone_lost.")
@zone_options
@pass_session
def delete(session: Session, name_or_id: str, force: bool) -> None:
    """Remove a child zone."""
    id = find_id(session, "/zones", "zones", name_or_id)
    session.call("DELETE", f"/zones/{id}", params={"force": "true"} if force else None)
