"""`zonesched user`: the people, agents and parent zones that may call this zone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zonesched.cli.group import CommandGroup
from zonesched.cli.lookup import part_of_path
from zonesched.cli.output import by_name, print_item, print_list
from zonesched.cli.secret_input import given_secret
from zonesched.cli.session import (
    FILE,
    Session,
    list_options,
    pass_session,
    read_secret,
    zone_options,
)
from zonesched.cli.table import Column
from zonesched.compute.credentials import (
    Credentials,
    check_replaceable,
    check_writable,
    write_credentials,
)

COLUMNS = (
    Column("name"),
    Column("role"),
    Column("project_id"),
    Column("explain_to_parent", rank=1),
    Column("id", rank=2, is_id=True),
)
ROLES = ("admin", "member", "reader", "compute", "parent", "monitor")

EXPLAIN = click.option(
    "--explain",
    type=click.Choice(("default", "none", "reasons", "counts")),
    help="Detail of the reasons for refused hosts that a parent gets; default: the zone's option.",
)
SAVE = click.option(
    "--save", type=click.Path(dir_okay=False, path_type=Path), help="Write a credentials file (mode 0600)."
)


def new_password(command: Any) -> Any:
    """Give a command the options for the source of a new password."""
    of_file = click.option("--new-password-file", type=FILE, help="File with the new password.")
    of_input = click.option(
        "--new-password-stdin", is_flag=True, help="Read the new password from standard input."
    )
    return of_file(of_input(command))


@click.group(cls=CommandGroup)
def user() -> None:
    """Manage people, agents and parents that call this zone."""


@user.command("list")
@list_options
@pass_session
def list_(session: Session) -> None:
    """List all users, by name."""
    answer = session.call("GET", "/users")
    print_list(session, answer, COLUMNS, by_name(answer["users"]))


@user.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    required=True,
    help="Role, which decides the calls that the user may make.",
)
@click.option("--project", default="", help="Id of its project; people need one.")
@new_password
@EXPLAIN
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
    """Add a user; without a password it gets a generated secret, which is shown once."""
    if save:
        check_writable(save)
        check_replaceable(save, name)
    form = {"name": name, "role": role, "project_id": project}
    if explain:
        form["explain_to_parent"] = explain
    if new_password_file or new_password_stdin:
        form["password"] = given_secret(new_password_file, new_password_stdin, "")
    answer = session.call("POST", "/users", {"user": form})
    _show(session, answer, form.get("password", ""), save)


@user.command("set")
@click.argument("name")
@click.option(
    "--new-secret",
    is_flag=True,
    help="Replace its secret or password by a generated secret, which is shown once.",
)
@new_password
@EXPLAIN
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
    """Replace a user's password or secret, which ends the old one at once; or set --explain of a parent."""
    is_chosen = bool(new_password_file or new_password_stdin)
    if new_secret + is_chosen + bool(explain) != 1:
        raise click.UsageError("exactly one of --new-secret, a new password and --explain is needed")
    if explain:
        answer = session.call("PUT", _path(name), {"user": {"explain_to_parent": explain}})
        _show(session, answer, "", None)
        return
    if save:
        check_writable(save)
        check_replaceable(save, name)
    password = given_secret(new_password_file, new_password_stdin, "") if is_chosen else ""
    form: dict[str, Any] = {"password": password} if is_chosen else {"new_secret": True}
    answer = session.call("PUT", _path(name), {"user": form})
    _show(session, answer, password, save)


@user.command()
@click.option(
    "--old-password-file",
    type=FILE,
    help="File with the present password.  [default: the password of this call]",
)
@new_password
@zone_options
@pass_session
def password(
    session: Session, old_password_file: Path | None, new_password_file: Path | None, new_password_stdin: bool
) -> None:
    """Change your own password; the old one is invalid at once.

    The new one comes from a file, from standard input or from a prompt.
    """
    who = session.credentials()
    if not who.username:
        raise click.UsageError("No user is named: use --username, ZONESCHED_USERNAME or --credentials FILE.")
    old = read_secret(old_password_file) if old_password_file else who.password
    new = given_secret(new_password_file, new_password_stdin, "New password", confirm=True)
    if not new:
        raise click.UsageError("a new password is needed: use --new-password-file or --new-password-stdin")
    form = {"original_password": old, "password": new}
    session.call("POST", f"{_path(who.username)}/password", {"user": form})


@user.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Remove a parent that has instances here too; they stay.")
@zone_options
@pass_session
def delete(session: Session, name: str, force: bool) -> None:
    """Remove a user; its password or secret is invalid at once."""
    session.call("DELETE", _path(name), params={"force": "true"} if force else None)


def _path(name: str) -> str:
    return f"/users/{part_of_path('users', name)}"


def _show(session: Session, answer: Any, password: str, save: Path | None) -> None:
    """Print the user; with `save`, its secret goes into that file alone."""
    shown = answer["user"]
    if save:
        secret = shown.pop("secret", password)
        own = session.credentials()
        write_credentials(save, Credentials(own.url, shown["name"], secret, cacert=own.cacert))
    print_item(session, answer, shown)
