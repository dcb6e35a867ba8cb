"""`zonesched service`: hosts, agents and processes, with their status and state."""

from __future__ import annotations

from typing import Any

import click

from zonesched.cli.group import CommandGroup
from zonesched.cli.lookup import find_id
from zonesched.cli.output import natural_order, print_item, print_list
from zonesched.cli.session import Session, list_options, pass_session, zone_options
from zonesched.cli.table import Column
from zonesched.compute.connection import ZoneRefused

COLUMNS = (
    Column("binary"),
    Column("host"),
    Column("status", is_status=True),
    Column("state", is_status=True),
    Column("zone", rank=1),
    Column("disabled_reason", rank=2),
    Column("forced_down", rank=3),
    Column("updated_at", rank=4),
    Column("id", rank=5, is_id=True),
    Column("report_count", rank=6),
    Column("topic", rank=7),
)
HOST, AGENT, SCHEDULER = "nova-compute", "zonesched-compute", "nova-scheduler"
binary_option = click.option(
    "--binary",
    type=click.Choice([HOST, AGENT, SCHEDULER]),
    help=f"Kind of service. {HOST}: a host; {AGENT}: an agent with all its hosts; {SCHEDULER}: a process"
    " of the zone itself. Needed where two have the name.",
)


@click.group(cls=CommandGroup)
def service() -> None:
    """Enable, disable or remove hosts and agents (admin)."""


@service.command("list")
@click.option("--host", help="Only services of this name.")
@binary_option
@list_options
@pass_session
def list_(session: Session, host: str | None, binary: str | None) -> None:
    """List the zone's processes, its agents, then its hosts, each by name."""
    params = {name: value for name, value in (("host", host), ("binary", binary)) if value}
    answer = session.call("GET", "/os-services", params=params)
    order = (SCHEDULER, AGENT, HOST)
    rows = sorted(
        answer["services"], key=lambda found: (order.index(found["binary"]), natural_order(found["host"]))
    )
    print_list(session, answer, COLUMNS, rows)


@service.command()
@click.argument("host")
@zone_options
@pass_session
def enable(session: Session, host: str) -> None:
    """Enable a host: it takes new instances again."""
    _change(session, host, HOST, status="enabled")


@service.command()
@click.argument("host")
@click.option("--reason", help="Reason that admins are shown.")
@zone_options
@pass_session
def disable(session: Session, host: str, reason: str | None) -> None:
    """Disable a host: it takes no new instances; those on it stay."""
    _change(session, host, HOST, status="disabled", **({"disabled_reason": reason} if reason else {}))


@service.command("force-down")
@click.argument("name_or_id")
@binary_option
@zone_options
@pass_session
def force_down(session: Session, name_or_id: str, binary: str | None) -> None:
    """Treat a host, or an agent with all its hosts, as down at once."""
    _change(session, name_or_id, binary or "", forced_down=True)


@service.command("force-up")
@click.argument("name_or_id")
@binary_option
@zone_options
@pass_session
def force_up(session: Session, name_or_id: str, binary: str | None) -> None:
    """End a force-down: the heartbeats decide again."""
    _change(session, name_or_id, binary or "", forced_down=False)


@service.command()
@click.argument("name_or_id")
@binary_option
@zone_options
@pass_session
def delete(session: Session, name_or_id: str, binary: str | None) -> None:
    """Remove an agent without hosts, a host without instances, or a process that has ended."""
    session.call("DELETE", f"/os-services/{_id(session, name_or_id, binary or '')}")


def _change(session: Session, name_or_id: str, binary: str, **change: Any) -> None:
    answer = session.call("PUT", f"/os-services/{_id(session, name_or_id, binary)}", change)
    print_item(session, answer, answer["service"])


def _id(session: Session, name_or_id: str, binary: str) -> str:
    params = {"host": name_or_id} | ({"binary": binary} if binary else {})
    # Without a name all services are listed.
    found = session.call("GET", "/os-services", params=params)["services"] if name_or_id else []
    if len(found) > 1:
        raise ZoneRefused(
            409, "ambiguous", f"a host and an agent are named {name_or_id!r}: use --binary", "service"
        )
    return str(found[0]["id"]) if found else find_id(session, "/os-services", "services", name_or_id)
