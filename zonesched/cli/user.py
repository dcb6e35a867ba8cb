"""`zonesched user`: people, agents and parent zones that may call this zone."""

from __future__ import annotations

from pathlib import Path

import click

from zonesched.cli.output import print_item, print_json, print_rows
from zonesched.cli.secret_input import given_secret
from zonesched.cli.session import FILE, Session, pass_session, zone_options
from zonesched.compute.credentials import Credentials, write_credentials

COLUMNS = ("id", "name", "role", "project_id")
ROLES = ("admin", "member", "reader", "compute", "parent")


@click.group()
def user() -> None:
    """People, agents and parent zones that may call this zone."""


@user.command("list")
@zone_options
@pass_session
def list_(session: Session) -> None:
    """All users."""
    answer = session.call("GET", "/users")
    if session.as_json:
        print_json(answer)
    else:
        print_rows(COLUMNS, [[found[key] for key in COLUMNS] for found in answer["users"]])


@user.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True)
@click.option("--project", default="", help="Its project; people need one.")
@click.option("--new-password-file", type=FILE, help="File with its password.")
@click.option("--new-password-stdin", is_flag=True, help="Read its password from standard input.")
@click.option(
    "--save", type=click.Path(dir_okay=False, path_type=Path), help="Write a credentials file (mode 0600)."
)
@zone_options
@pass_session
def create(
    session: Session,
    name: str,
    role: str,
    project: str,
    new_password_file: Path | None,
    new_password_stdin: bool,
    save: Path | None,
) -> None:
    """Add a user. Without a password it gets a generated secret, which is told once."""
    form = {"name": name, "role": role, "project_id": project}
    if new_password_file or new_password_stdin:
        form["password"] = given_secret(new_password_file, new_password_stdin, "")
    answer = session.call("POST", "/users", {"user": form})
    secret = answer["user"].get("secret", "") or form.get("password", "")
    if save:
        write_credentials(save, Credentials(session.credentials().url, name, secret))
        answer["user"].pop("secret", None)
    if session.as_json:
        print_json(answer)
    else:
        print_item(answer["user"])


@user.command()
@click.argument("name")
@zone_options
@pass_session
def delete(session: Session, name: str) -> None:
    """Remove a user; its credentials end at once."""
    session.call("DELETE", f"/users/{name}")
