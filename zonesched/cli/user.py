"""`zonesched user`: people, agents and parent zones that may call this zone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zonesched.cli.output import print_item, print_json, print_rows
from zonesched.cli.secret_input import given_secret
from zonesched.cli.session import FILE, Session, pass_session, zone_options
from zonesched.compute.credentials import Credentials, write_credentials

COLUMNS = ("id", "name", "role", "project_id")
TOLD = click.Choice(("default", "none", "reasons", "counts"))
ROLES = ("admin", "member", "reader", "compute", "parent")

SAVE = click.option(
    "--save", type=click.Path(dir_okay=False, path_type=Path), help="Write a credentials file (mode 0600)."
)


def new_password(command: Any) -> Any:
    """Give a command the options that say where a user's new password is."""
    of_file = click.option("--new-password-file", type=FILE, help="File with its password.")
    of_input = click.option(
        "--new-password-stdin", is_flag=True, help="Read its password from standard input."
    )
    return of_file(of_input(command))


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
@new_password
@click.option("--explain", type=TOLD, help="How much of why hosts were refused a parent is told.")
@SAVE
@zone_options
@pass_session
def create(
    session: Session,
    name: str,
    role: str,
    project: str,
    new_password_file: Path | None,
    new_password_stdin: bool,
    explain: str | None,
    save: Path | None,
) -> None:
    """Add a user. Without a password it gets a generated secret, which is told once."""
    form = {"name": name, "role": role, "project_id": project}
    if explain:
        form["explain_to_parent"] = explain
    if new_password_file or new_password_stdin:
        form["password"] = given_secret(new_password_file, new_password_stdin, "")
    answer = session.call("POST", "/users", {"user": form})
    _tell(session, answer, form.get("password", ""), save)


@user.command("set")
@click.argument("name")
@click.option("--new-secret", is_flag=True, help="Give it a generated secret, which is told once.")
@new_password
@click.option("--explain", type=TOLD, help="How much of why hosts were refused a parent is told.")
@SAVE
@zone_options
@pass_session
def set_(
    session: Session,
    name: str,
    new_secret: bool,
    new_password_file: Path | None,
    new_password_stdin: bool,
    explain: str | None,
    save: Path | None,
) -> None:
    """Replace what proves who a user is, which ends the old proof at once; or what a parent is told."""
    is_chosen = bool(new_password_file or new_password_stdin)
    if new_secret + is_chosen + bool(explain) != 1:
        raise click.UsageError("exactly one of --new-secret, a new password and --explain is needed")
    if explain:
        answer = session.call("PUT", f"/users/{name}", {"user": {"explain_to_parent": explain}})
        _tell(session, answer, "", None)
        return
    password = given_secret(new_password_file, new_password_stdin, "") if is_chosen else ""
    form: dict[str, Any] = {"password": password} if is_chosen else {"new_secret": True}
    answer = session.call("PUT", f"/users/{name}", {"user": form})
    _tell(session, answer, password, save)


@user.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Also a parent that has instances here; they stay.")
@zone_options
@pass_session
def delete(session: Session, name: str, force: bool) -> None:
    """Remove a user; its credentials end at once."""
    session.call("DELETE", f"/users/{name}", params={"force": "true"} if force else None)


def _tell(session: Session, answer: Any, password: str, save: Path | None) -> None:
    """Print the user, or save what proves who it is and print the rest."""
    told = answer["user"]
    if save:
        secret = told.pop("secret", password)
        write_credentials(save, Credentials(session.credentials().url, told["name"], secret))
    if session.as_json:
        print_json(answer)
    else:
        print_item(told)
