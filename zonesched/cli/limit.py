"""`zonesched limit`: what projects and parents may have, and have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import click

from zonesched.cli.output import console, print_json, print_rows, table
from zonesched.cli.pairs import read_pairs
from zonesched.cli.session import Session, pass_session, zone_options

AS_ALL = "default"
project_option = click.option("--project", help="Of this project (admin).")
parent_option = click.option("--parent", help="Of this parent, by its user's name (admin).")


@click.group()
def limit() -> None:
    """What a project or a parent may have: by options of the zone, or by limits of its own."""


@limit.command("list")
@zone_options
@pass_session
def list_(session: Session) -> None:
    """The projects and parents with limits of their own (admin)."""
    answer = session.call("GET", "/limits/own")
    if session.as_json:
        print_json(answer)
        return
    whose = {"project": answer["projects"], "parent": answer["parents"]}
    print_rows(
        ("kind", "of", "limits"),
        [(kind, of, limits) for kind, all_of in whose.items() for of, limits in all_of.items()],
    )


@limit.command()
@project_option
@parent_option
@zone_options
@pass_session
def show(session: Session, project: str | None, parent: str | None) -> None:
    """What may be had and what is taken; without an option, of the user's own project."""
    path = _path(project, parent) if project or parent else "/limits"
    _print(session, session.call("GET", path))


@limit.command("set")
@click.argument("limits", nargs=-1, required=True, metavar="NAME=NUMBER...")
@project_option
@parent_option
@zone_options
@pass_session
def set_(session: Session, limits: tuple[str, ...], project: str | None, parent: str | None) -> None:
    """Give one project or one parent limits of its own; NAME=default takes one back.

    NAME is project_instances, project_open_boots or project_boots_per_minute; parent_instances,
    parent_selects_per_minute or parent_entries_per_minute.
    """
    path = _path(project, parent)
    wanted = {name: _number(name, text) for name, text in read_pairs("limit", limits).items()}
    _print(session, session.call("PUT", path, {"limits": wanted}))


def _path(project: str | None, parent: str | None) -> str:
    if bool(project) == bool(parent):
        raise click.UsageError("one of --project and --parent is needed")
    return f"/limits/projects/{quote(project, safe='')}" if project else f"/limits/parents/{parent}"


def _number(name: str, text: str) -> int | None:
    if text == AS_ALL:
        return None
    try:
        return int(text)
    except ValueError:
        raise click.UsageError(f"{name}: {text!r} is neither a whole number nor {AS_ALL}") from None


def _print(session: Session, answer: Mapping[str, Any]) -> None:
    if session.as_json:
        print_json(answer)
        return
    limits = answer["limits"]
    absolute = limits["absolute"]
    rows = [
        (name, most, absolute.get(f"{name}_used"))
        for name, most in absolute.items()
        if not name.endswith("_used")
    ]
    for rate in limits["rate"]:
        for one in rate["limit"]:
            rows.append((rate["name"], one["value"], one["value"] - one["remaining"]))
    if "own" in limits:
        marked = [(*row, row[0] in limits["own"]) for row in rows]
        console().print(table(("limit", "may have", "has", "its own"), marked))
    else:
        console().print(table(("limit", "may have", "has"), rows))
