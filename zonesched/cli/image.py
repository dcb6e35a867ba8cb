"""`zonesched image`: what is booted, as far as filters read it."""

from __future__ import annotations

import click

from zonesched.cli.lookup import find, find_id
from zonesched.cli.output import print_item, print_json, print_rows
from zonesched.cli.pairs import read_pairs
from zonesched.cli.session import Session, pass_session, zone_options

COLUMNS = ("id", "name", "properties")


@click.group()
def image() -> None:
    """The registry of images: names and the properties that filters read."""


@image.command("list")
@zone_options
@pass_session
def list_(session: Session) -> None:
    """All images."""
    answer = session.call("GET", "/images/detail")
    if session.as_json:
        print_json(answer)
    else:
        print_rows(COLUMNS, [[found[key] for key in COLUMNS] for found in answer["images"]])


@image.command()
@click.argument("name_or_id")
@zone_options
@pass_session
def show(session: Session, name_or_id: str) -> None:
    """One image."""
    found = find(session, "/images/detail", "images", name_or_id)
    if session.as_json:
        print_json({"image": found})
    else:
        print_item({key: found[key] for key in COLUMNS})


@image.command()
@click.argument("name")
@click.option("--id", "id_", help="Its id; without it, one is made.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="Repeatable.")
@zone_options
@pass_session
def create(session: Session, name: str, id_: str | None, properties: tuple[str, ...]) -> None:
    """Add an image."""
    form = {"name": name, "properties": read_pairs("--property", properties)}
    answer = session.call("POST", "/images", {"image": form | ({"id": id_} if id_ else {})})
    if session.as_json:
        print_json(answer)
    else:
        click.echo(answer["image"]["id"])


@image.command()
@click.argument("name_or_id")
@zone_options
@pass_session
def delete(session: Session, name_or_id: str) -> None:
    """Remove an image; instances keep what they have."""
    session.call("DELETE", f"/images/{find_id(session, '/images', 'images', name_or_id)}")
