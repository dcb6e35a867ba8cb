"""`zonesched service`: hosts and agents; who takes no new instances, and who is dead."""

from __future__ import annotations

from typing import Any

import click

from zonesched.cli.output import print_item, print_json, print_rows
from zonesched.cli.session import Session, pass_session, zone_options
from zonesched.compute.connection import ZoneRefused

COLUMNS = (
    "id",
    "binary",
    "host",
    "zone",
    "status",
    "state",
    "forced_down",
    "disabled_reason",
    "updated_at",
    "topic",
    "report_count",
)
HOST, AGENT, SCHEDULER = "nova-compute", "zonesched-compute", "nova-scheduler"
binary_option = click.option(
    "--binary",
    type=click.Choice([HOST, AGENT, SCHEDULER]),
    help=f"{HOST}: a host; {AGENT}: an agent with all its hosts; {SCHEDULER}: a process of the zone itself."
    " Needed where two bear the name.",
)


@click.group()
def service() -> None:
    """Hosts and agents of this zone (admin): enable, disable, force down, remove."""


@service.command("list")
@click.option("--host", help="Only those of this name.")
@binary_option
@zone_options
@pass_session
def list_(session: Session, host: str | None, binary: str | None) -> None:
    """The zone's processes, agents, then hosts."""
    params = {name: value for name, value in (("host", host), ("binary", binary)) if value}
    answer = session.call("GET", "/os-services", params=params)
    if session.as_json:
        print_json(answer)
    else:
        print_rows(COLUMNS, [[found[key] for key in COLUMNS] for found in answer["services"]])


@service.command()
@click.argument("host")
@zone_options
@pass_session
def enable(session: Session, host: str) -> None:
    """Let a host take new instances again."""
    _change(session, host, HOST, status="enabled")


@service.command()
@click.argument("host")
@click.option("--reason", help="Why; shown to admins.")
@zone_options
@pass_session
def disable(session: Session, host: str, reason: str | None) -> None:
    """Let a host take no new instances; those that are there stay."""
    _change(session, host, HOST, status="disabled", **({"disabled_reason": reason} if reason else {}))


@service.command("force-down")
@click.argument("name_or_id")
@binary_option
@zone_options
@pass_session
def force_down(session: Session, name_or_id: str, binary: str | None) -> None:
    """Let a host, or an agent with all its hosts, count as dead at once."""
    _change(session, name_or_id, binary or "", forced_down=True)


@service.command("force-up")
@click.argument("name_or_id")
@binary_option
@zone_options
@pass_session
def force_up(session: Session, name_or_id: str, binary: str | None) -> None:
    """End that: whether it lives is known by its agent's beats again."""
    _change(session, name_or_id, binary or "", forced_down=False)


@service.command()
@click.argument("name_or_id")
@binary_option
@zone_options
@pass_session
def delete(session: Session, name_or_id: str, binary: str | None) -> None:
    """Remove an agent without hosts, a host without instances, or a process that is no more."""
    session.call("DELETE", f"/os-services/{_id(session, name_or_id, binary or '')}")


def _change(session: Session, name_or_id: str, binary: str, **change: Any) -> None:
    answer = session.call("PUT", f"/os-services/{_id(session, name_or_id, binary)}", change)
    if session.as_json:
        print_json(answer)
    else:
        print_item(answer["service"])


def _id(session: Session, name_or_id: str, binary: str) -> str:
    params = {"host": name_or_id} | ({"binary": binary} if binary else {})
    found = session.call("GET", "/os-services", params=params)["services"]
    if len(found) > 1:
        raise ZoneRefused(
            409, "ambiguous", f"a host and an agent are named {name_or_id!r}: use --binary", "service"
        )
    return str(found[0]["id"]) if found else name_or_id
