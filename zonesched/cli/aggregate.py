"""`zonesched aggregate`: settings of many hosts at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from zonesched.cli.group import CommandGroup
from zonesched.cli.lookup import find_id
from zonesched.cli.output import by_name, print_item, print_list
from zonesched.cli.pairs import read_pairs
from zonesched.cli.server_targets import each
from zonesched.cli.session import Session, item_options, list_options, pass_session, zone_options
from zonesched.cli.table import Column
from zonesched.compute.connection import ZoneRefused

COLUMNS = (
    Column("id"),
    Column("name"),
    Column("availability_zone"),
    Column("hosts"),
    Column("metadata", rank=1),
)


@click.group(cls=CommandGroup)
def aggregate() -> None:
    """Manage groups of local hosts and their metadata."""


@aggregate.command("list")
@list_options
@pass_session
def list_(session: Session) -> None:
    """List all aggregates, by name."""
    answer = session.call("GET", "/os-aggregates")
    print_list(session, answer, COLUMNS, by_name([_brief(found) for found in answer["aggregates"]]))


@aggregate.command()
@click.argument("name_or_id")
@item_options
@pass_session
def show(session: Session, name_or_id: str) -> None:
    """Show one aggregate, by name or id."""
    _print(session, session.call("GET", _path(session, name_or_id)))


@aggregate.command()
@click.argument("name")
@click.option("--zone", "availability_zone", help="Availability zone of its hosts.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="Metadata; repeatable.")
@zone_options
@pass_session
def create(session: Session, name: str, availability_zone: str | None, properties: tuple[str, ...]) -> None:
    """Add an aggregate without hosts."""
    metadata = read_pairs("--property", properties)
    form = {"name": name} | ({"availability_zone": availability_zone} if availability_zone else {})
    answer = session.call("POST", "/os-aggregates", {"aggregate": form})
    if metadata:
        path = f"/os-aggregates/{answer['aggregate']['id']}"
        try:
            answer = _act(session, path, "set_metadata", metadata=metadata)
        except ZoneRefused:
            session.call("DELETE", path)
            raise
    _print(session, answer)


@aggregate.command("set")
@click.argument("name_or_id")
@click.option("--name", help="New name.")
@click.option("--zone", "availability_zone", help="Availability zone of its hosts.")
@click.option(
    "--property", "properties", multiple=True, metavar="KEY=VALUE", help="Metadata to add or change."
)
@click.option(
    "--unset", "unsets", multiple=True, metavar="KEY", help="Metadata to remove; availability_zone too."
)
@zone_options
@pass_session
def set_(
    session: Session,
    name_or_id: str,
    name: str | None,
    availability_zone: str | None,
    properties: tuple[str, ...],
    unsets: tuple[str, ...],
) -> None:
    """Change an aggregate; other settings stay."""
    form = {"name": name, "availability_zone": availability_zone}
    form = {key: value for key, value in form.items() if value is not None}
    metadata = {**read_pairs("--property", properties), **dict.fromkeys(unsets)}
    if not form and not metadata:
        raise click.UsageError("nothing to change is named: use --name, --zone, --property or --unset")
    path = _path(session, name_or_id)
    answer: Any = None
    if form:
        answer = session.call("PUT", path, {"aggregate": form})
    if metadata:
        answer = _act(session, path, "set_metadata", metadata=metadata)
    _print(session, answer)


@aggregate.command()
@click.argument("name_or_id")
@zone_options
@pass_session
def delete(session: Session, name_or_id: str) -> None:
    """Remove an aggregate that has no hosts."""
    session.call("DELETE", _path(session, name_or_id))


@aggregate.command("add-host")
@click.argument("name_or_id")
@click.argument("hosts", nargs=-1, required=True)
@zone_options
@pass_session
def add_host(session: Session, name_or_id: str, hosts: Sequence[str]) -> None:
    """Put hosts into an aggregate, by their names."""
    _act_on_each(session, name_or_id, "add_host", hosts)


@aggregate.command("remove-host")
@click.argument("name_or_id")
@click.argument("hosts", nargs=-1, required=True)
@zone_options
@pass_session
def remove_host(session: Session, name_or_id: str, hosts: Sequence[str]) -> None:
    """Take hosts out of an aggregate, by their names."""
    _act_on_each(session, name_or_id, "remove_host", hosts)


def _act_on_each(session: Session, name_or_id: str, action: str, hosts: Sequence[str]) -> None:
    """Act on every host, also after one that is refused, and print the aggregate as it is then."""
    path, answers = _path(session, name_or_id), list[Any]()
    try:
        each(hosts, lambda host: answers.append(_act(session, path, action, host=host)))
    finally:
        if answers:
            _print(session, answers[-1])


def _path(session: Session, name_or_id: str) -> str:
    return f"/os-aggregates/{find_id(session, '/os-aggregates', 'aggregates', name_or_id)}"


def _act(session: Session, path: str, action: str, **content: Any) -> Any:
    return session.call("POST", f"{path}/action", {action: content})


def _brief(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return an aggregate with its availability zone taken out of the metadata."""
    metadata = {key: value for key, value in found["metadata"].items() if key != "availability_zone"}
    return {**found, "metadata": metadata}


def _print(session: Session, answer: Mapping[str, Any]) -> None:
    print_item(session, answer, _brief(answer["aggregate"]))
