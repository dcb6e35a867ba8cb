"""`zonesched limit`: quotas of projects and parents, and how much of them is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from zonesched.cli.group import CommandGroup
from zonesched.cli.lookup import part_of_path
from zonesched.cli.output import print_json, print_list
from zonesched.cli.pairs import read_pairs
from zonesched.cli.session import Session, list_options, pass_session, zone_options
from zonesched.cli.table import plain, print_table
from zonesched.decimal_text import whole_number

AS_ALL = "default"
project_option = click.option("--project", help="Id of a project (admin).")
parent_option = click.option("--parent", help="User name of a parent (admin).")


@click.group(cls=CommandGroup)
def limit() -> None:
    """Show and override quotas of projects and parents."""


@limit.command("list")
@list_options
@pass_session
def list_(session: Session) -> None:
    """List the projects and parents whose quotas are overridden (admin)."""
    answer = session.call("GET", "/limits/overrides")
    owners = {"project": answer["projects"], "parent": answer["parents"]}
    rows = [
        {"kind": kind, "of": of, "limits": limits}
        for kind, all_of in owners.items()
        for of, limits in sorted(all_of.items())
    ]
    print_list(session, answer, plain("kind", "of", "limits"), rows)


@limit.command()
@project_option
@parent_option
@zone_options
@pass_session
def show(session: Session, project: str | None, parent: str | None) -> None:
    """Show quotas and their usage; without an option those of the user's own project."""
    path = _path(project, parent) if project or parent else "/limits"
    _print(session, session.call("GET", path))


@limit.command("set")
@click.argument("limits", nargs=-1, required=True, metavar="NAME=NUMBER...")
@project_option
@parent_option
@zone_options
@pass_session
def set_(session: Session, limits: tuple[str, ...], project: str | None, parent: str | None) -> None:
    """Override quotas of one project or one parent; NAME=default removes an override.

    NAME is project_instances, project_open_boots, project_boots_per_minute or project_dry_runs_per_minute;
    parent_instances, parent_holds, parent_holds_per_minute, parent_idle_percent, parent_tombstones,
    parent_selects_per_minute, parent_selects_per_hour or parent_entries_per_minute.
    """
    path = _path(project, parent)
    wanted = {name: _number(name, text) for name, text in read_pairs("limit", limits).items()}
    _print(session, session.call("PUT", path, {"limits": wanted}))


def _path(project: str | None, parent: str | None) -> str:
    if bool(project) == bool(parent):
        raise click.UsageError("one of --project and --parent is needed")
    if project:
        return f"/limits/projects/{part_of_path('projects', project)}"
    return f"/limits/parents/{part_of_path('users', parent or '')}"


def _number(name: str, text: str) -> int | None:
    if text == AS_ALL:
        return None
    number = whole_number(text)
    if number is None:
        raise click.UsageError(f"{name}: {text!r} is neither a whole number nor {AS_ALL}")
    return number


def _print(session: Session, answer: Mapping[str, Any]) -> None:
    if session.as_json:
        print_json(answer)
        return
    limits = answer["limits"]
    absolute = limits["absolute"]
    rows = [
        (name, maximum, absolute.get(f"{name}_used"))
        for name, maximum in absolute.items()
        # OpenStack's names of the same limits have capital letters.
        if not name.endswith("_used") and name.islower()
    ]
    for rate in limits["rate"]:
        for one in rate["limit"]:
            rows.append((rate["name"], one["value"], one["value"] - one["remaining"]))
    if "overrides" in limits:
        marked = [(*row, row[0] in limits["overrides"]) for row in rows]
        print_table(session.screen, plain("limit", "maximum", "used", "overridden"), marked)
    else:
        print_table(session.screen, plain("limit", "maximum", "used"), rows)
