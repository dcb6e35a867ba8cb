"""`zonesched keypair`: key pairs of the user, of which a zone keeps the public half."""

from __future__ import annotations

from pathlib import Path

import click

from zonesched.cli.group import CommandGroup
from zonesched.cli.lookup import part_of_path, whole_list
from zonesched.cli.output import print_item, print_json, print_list
from zonesched.cli.session import (
    FILE,
    Session,
    item_options,
    list_options,
    pass_session,
    read_text,
    zone_options,
)
from zonesched.cli.table import Column

COLUMNS = (Column("name", is_id=True), Column("type"), Column("fingerprint"))


@click.group(cls=CommandGroup)
def keypair() -> None:
    """Manage the key pairs that a boot may name."""


@keypair.command("list")
@list_options
@pass_session
def list_(session: Session) -> None:
    """List the user's key pairs, by name."""
    answer = whole_list(session, "/os-keypairs", "keypairs")
    print_list(session, answer, COLUMNS, [{"type": "ssh", **line["keypair"]} for line in answer["keypairs"]])


@keypair.command()
@click.argument("name")
@item_options
@pass_session
def show(session: Session, name: str) -> None:
    """Show one key pair."""
    answer = session.call("GET", _path(name))
    shown = ("name", "fingerprint", "public_key", "created_at")
    print_item(session, answer, {field: answer["keypair"][field] for field in shown})


@keypair.command()
@click.argument("name")
@click.option("--public-key", type=FILE, required=True, help="File with the public half.")
@zone_options
@pass_session
def create(session: Session, name: str, public_key: Path) -> None:
    """Import the public half of a key pair, and print its fingerprint."""
    form = {"name": name, "public_key": read_text(public_key).strip()}
    answer = session.call("POST", "/os-keypairs", {"keypair": form})
    if session.as_json:
        print_json(answer)
    else:
        click.echo(answer["keypair"]["fingerprint"])


@keypair.command()
@click.argument("name")
@zone_options
@pass_session
def delete(session: Session, name: str) -> None:
    """Remove a key pair; servers that were booted with it keep it."""
    session.call("DELETE", _path(name))


def _path(name: str) -> str:
    return f"/os-keypairs/{part_of_path('keypairs', name)}"
