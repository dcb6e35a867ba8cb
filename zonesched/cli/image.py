"""`zonesched image`: the images that a boot may name."""

from __future__ import annotations

import click

from zonesched.cli.group import CommandGroup
from zonesched.cli.lookup import find, find_id, whole_list
from zonesched.cli.output import by_name, print_item, print_json, print_list
from zonesched.cli.pairs import read_pairs
from zonesched.cli.session import Session, item_options, list_options, pass_session, zone_options
from zonesched.cli.table import Column

COLUMNS = (Column("id", is_id=True), Column("name"), Column("properties", rank=1))


@click.group(cls=CommandGroup)
def image() -> None:
    """Manage images: names, and properties for filters."""


@image.command("list")
@list_options
@pass_session
def list_(session: Session) -> None:
    """List all images, by name."""
    answer = whole_list(session, "/images/detail", "images")
    print_list(session, answer, COLUMNS, by_name(answer["images"]))


@image.command()
@click.argument("name_or_id")
@item_options
@pass_session
def show(session: Session, name_or_id: str) -> None:
    """Show one image, by name or id."""
    found = find(session, "/images/detail", "images", name_or_id)
    print_item(session, {"image": found}, {column.name: found[column.name] for column in COLUMNS})


@image.command()
@click.argument("name")
@click.option("--id", "id_", help="Id.  [default: a new UUID]")
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="Property that filters read; repeatable.",
)
@zone_options
@pass_session
def create(session: Session, name: str, id_: str | None, properties: tuple[str, ...]) -> None:
    """Add an image and print its id."""
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
    """Remove an image; its instances are not affected."""
    session.call("DELETE", f"/images/{find_id(session, '/images', 'images', name_or_id)}")
