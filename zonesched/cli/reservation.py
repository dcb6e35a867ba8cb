"""`zonesched reservation`: how a boot stands."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from zonesched.cli.output import cell, console, print_item, print_json, table
from zonesched.cli.session import Session, pass_session, zone_options
from zonesched.cli.why import print_host, print_reasons, print_why, reasons_table

UNFINISHED = "BUILD"
SETTLED = ("ACTIVE", "ERROR", "DELETED")
BAD_ENDS = ("ERROR", "PARTIAL")


@click.group()
def reservation() -> None:
    """How a boot stands."""


@reservation.command()
@click.argument("id")
@click.option(
    "--watch", "watching", is_flag=True, help="Stay until it has ended; exit 1 if not all is ACTIVE."
)
@click.option("--instances", is_flag=True, help="List its instances too.")
@zone_options
@pass_session
def show(session: Session, id: str, watching: bool, instances: bool) -> None:
    """State, counts and reasons of one boot."""
    if watching:
        watch(session, id)
        return
    answer = session.call("GET", f"/reservations/{id}")
    if session.as_json:
        print_json(answer)
    else:
        _print(answer["reservation"], instances)


@reservation.command()
@click.argument("id")
@click.option("--host", help="What each filter and weigher says of this host now.")
@zone_options
@pass_session
def why(session: Session, id: str, host: str | None) -> None:
    """Why a boot went where it went, and why not elsewhere, zone by zone.

    An admin is shown the funnel of the zone's own hosts, the scores of the best of them, and what each child
    zone told; others are shown the reasons.
    """
    if host:
        answer = session.call("GET", f"/reservations/{id}/why", params={"host": host})
        print_json(answer) if session.as_json else print_host(answer["host"])
        return
    found = _read(session, id)
    said = {"reasons": found["reasons"], **({"why": found["why"]} if "why" in found else {})}
    if session.as_json:
        print_json(said)
        return
    print_reasons(found["reasons"])
    if not found["reasons"]:
        click.echo("no instance is in ERROR")
    if "why" in found:
        print_why(found["why"])


def _print(found: Mapping[str, Any], with_instances: bool) -> None:
    print_item({key: value for key, value in found.items() if key not in ("instances", "reasons", "why")})
    if found["reasons"]:
        console().print()
        print_reasons(found["reasons"])
    if with_instances:
        console().print()
        console().print(table(("uuid", "status"), [(i["uuid"], i["status"]) for i in found["instances"]]))


def watch(session: Session, id: str, pause_s: float = 0.5) -> None:
    """Show a boot live until it has ended. Exits 1 if it did not all become ACTIVE."""
    found = _read(session, id)
    with Live(_progress(found), console=console(), transient=session.as_json) as live:
        while found["state"] == UNFINISHED:
            session.pause(pause_s)
            found = _read(session, id)
            live.update(_progress(found))
    if session.as_json:
        print_json({"reservation": found})
    elif not sys.stdout.isatty():
        click.echo()
    if found["state"] in BAD_ENDS:
        sys.exit(1)


def _read(session: Session, id: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = session.call("GET", f"/reservations/{id}")["reservation"]
    return found


def _progress(found: Mapping[str, Any]) -> Group:
    counts, total = found["counts"], found["num_instances"]
    settled = sum(counts.get(status, 0) for status in SETTLED)
    line = Text(f"{found['id']}  {found['state']}  {cell(counts)}")
    bar = ProgressBar(total=max(1, total), completed=settled, width=60)
    return Group(line, bar, *([reasons_table(found["reasons"])] if found["reasons"] else []))
