"""`zonesched flavor`: sizes of instances."""

from __future__ import annotations

import click

from zonesched.cli.group import CommandGroup
from zonesched.cli.lookup import find, find_id, part_of_path, whole_list
from zonesched.cli.output import natural_order, print_item, print_json, print_list
from zonesched.cli.pairs import read_pairs
from zonesched.cli.session import Session, item_options, list_options, pass_session, zone_options
from zonesched.cli.table import Column

COLUMNS = (
    Column("id", is_id=True),
    Column("name"),
    Column("vcpus"),
    Column("ram"),
    Column("disk"),
    Column("extra_specs", rank=1),
)


@click.group(cls=CommandGroup)
def flavor() -> None:
    """Manage flavors: sizes of instances."""


@flavor.command("list")
@list_options
@pass_session
def list_(session: Session) -> None:
    """List all flavors, the smallest first."""
    answer = whole_list(session, "/flavors/detail?is_public=none", "flavors")
    rows = sorted(
        answer["flavors"], key=lambda found: (found["vcpus"], found["ram"], natural_order(found["name"]))
    )
    print_list(session, answer, COLUMNS, rows)


@flavor.command()
@click.argument("name_or_id")
@item_options
@pass_session
def show(session: Session, name_or_id: str) -> None:
    """Show one flavor, by name or id."""
    found = find(session, "/flavors/detail?is_public=none", "flavors", name_or_id)
    print_item(session, {"flavor": found}, {column.name: found[column.name] for column in COLUMNS})


@flavor.command()
@click.argument("name")
@click.option("--id", "id_", help="Id.  [default: a new UUID]")
@click.option("--vcpus", type=click.IntRange(0), required=True, help="Number of VCPUs.")
@click.option("--ram", type=click.IntRange(0), required=True, metavar="MB", help="RAM in MB.")
@click.option(
    "--disk", type=click.IntRange(0), default=0, show_default=True, metavar="GB", help="Disk in GB."
)
@click.option("--extra", "extras", multiple=True, metavar="KEY=VALUE", help="Extra spec; repeatable.")
@zone_options
@pass_session
def create(
    session: Session, name: str, id_: str | None, vcpus: int, ram: int, disk: int, extras: tuple[str, ...]
) -> None:
    """Add a flavor and print its id."""
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
    """Change a flavor's extra specs; others stay."""
    if not extras and not unsets:
        raise click.UsageError("nothing to change is named: use --extra or --unset")
    path = f"/flavors/{_id(session, name_or_id)}/os-extra_specs"
    removed = [f"{path}/{part_of_path('extra_specs', key)}" for key in unsets]
    if extras:
        session.call("POST", path, {"extra_specs": read_pairs("--extra", extras)})
    for spec in removed:
        session.call("DELETE", spec)
    answer = session.call("GET", path)
    print_item(session, answer, answer["extra_specs"])


@flavor.command()
@click.argument("name_or_id")
@zone_options
@pass_session
def delete(session: Session, name_or_id: str) -> None:
    """Remove a flavor; its instances keep their size."""
    session.call("DELETE", f"/flavors/{_id(session, name_or_id)}")


def _id(session: Session, name_or_id: str) -> str:
    """Return the id of a flavor, public or not. Raises as `find`."""
    return find_id(session, "/flavors?is_public=none", "flavors", name_or_id)
