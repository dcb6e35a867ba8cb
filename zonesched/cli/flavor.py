"""`zonesched flavor`: sizes of instances."""

from __future__ import annotations

import click

from zonesched.cli.lookup import find, find_id
from zonesched.cli.output import print_item, print_json, print_rows
from zonesched.cli.pairs import read_pairs
from zonesched.cli.session import Session, pass_session, zone_options

COLUMNS = ("id", "name", "vcpus", "ram", "disk", "extra_specs")


@click.group()
def flavor() -> None:
    """Sizes of instances."""


@flavor.command("list")
@zone_options
@pass_session
def list_(session: Session) -> None:
    """All flavors."""
    answer = session.call("GET", "/flavors/detail")
    if session.as_json:
        print_json(answer)
    else:
        print_rows(COLUMNS, [[found[key] for key in COLUMNS] for found in answer["flavors"]])


@flavor.command()
@click.argument("name_or_id")
@zone_options
@pass_session
def show(session: Session, name_or_id: str) -> None:
    """One flavor."""
    found = find(session, "/flavors/detail", "flavors", name_or_id)
    if session.as_json:
        print_json({"flavor": found})
    else:
        print_item({key: found[key] for key in COLUMNS})


@flavor.command()
@click.argument("name")
@click.option("--id", "id_", help="Its id; without it, one is made.")
@click.option("--vcpus", type=int, required=True)
@click.option("--ram", type=int, required=True, help="In MB.")
@click.option("--disk", type=int, default=0, show_default=True, help="In GB.")
@click.option("--extra", "extras", multiple=True, metavar="KEY=VALUE", help="Extra spec; repeatable.")
@zone_options
@pass_session
def create(
    session: Session, name: str, id_: str | None, vcpus: int, ram: int, disk: int, extras: tuple[str, ...]
) -> None:
    """Add a flavor."""
    form = {
        "name": name,
        "vcpus": vcpus,
        "ram": ram,
        "disk": disk,
        "extra_specs": read_pairs("--extra", extras),
    }
    answer = session.call("POST", "/flavors", {"flavor": form | ({"id": id_} if id_ else {})})
    if session.as_json:
        print_json(answer)
    else:
        click.echo(answer["flavor"]["id"])


@flavor.command("set")
@click.argument("name_or_id")
@click.option("--extra", "extras", multiple=True, metavar="KEY=VALUE", help="Extra spec to add or change.")
@click.option("--unset", "unsets", multiple=True, metavar="KEY", help="Extra spec to remove.")
@zone_options
@pass_session
def set_(session: Session, name_or_id: str, extras: tuple[str, ...], unsets: tuple[str, ...]) -> None:
    """Change a flavor's extra specs; those that are not named stay."""
    if not extras and not unsets:
        raise click.UsageError("nothing to change is named: use --extra or --unset")
    path = f"/flavors/{find_id(session, '/flavors', 'flavors', name_or_id)}/os-extra_specs"
    if extras:
        session.call("POST", path, {"extra_specs": read_pairs("--extra", extras)})
    for key in unsets:
        session.call("DELETE", f"{path}/{key}")
    answer = session.call("GET", path)
    if session.as_json:
        print_json(answer)
    else:
        print_item(answer["extra_specs"])


@flavor.command()
@click.argument("name_or_id")
@zone_options
@pass_session
def delete(session: Session, name_or_id: str) -> None:
    """Remove a flavor; instances keep what they have."""
    session.call("DELETE", f"/flavors/{find_id(session, '/flavors', 'flavors', name_or_id)}")
