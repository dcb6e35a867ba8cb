"""`zonesched reservation`: boots, each under the id of its reservation."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from zonesched.cli.group import CommandGroup
from zonesched.cli.lookup import find_reservation_id, pages
from zonesched.cli.output import live_console, print_item, print_json, print_list
from zonesched.cli.polling import poll
from zonesched.cli.server import HERE, delete_one
from zonesched.cli.server_targets import count_refused, ids_of_boot
from zonesched.cli.session import Session, item_options, list_options, pass_session, zone_options
from zonesched.cli.table import Column, cell, print_table
from zonesched.cli.waiting import print_waiting, waiting_line
from zonesched.cli.why import print_host, print_reasons, print_why, reason_lines
from zonesched.compute.connection import ZoneCallError
from zonesched.model.page_link import next_marker

UNFINISHED = "BUILD"
SHOWN_APART = ("instances", "reasons", "waiting_for", "why")
PENDING = ("BUILD", "UNKNOWN")
UNBUILT = (*PENDING, "ERROR", "DELETED")
COLUMNS = (
    Column("id", is_id=True),
    Column("name"),
    Column("state", is_status=True),
    Column("instances"),
    Column("counts", rank=1),
    Column("flavor", rank=2),
    Column("created", rank=3),
    Column("min_count", rank=4),
    Column("project", rank=5),
)

caller_option = click.option(
    "--caller", metavar="ID", help="Where several parents have a boot of this id: the parent's user (admin)."
)


@click.group(cls=CommandGroup)
def reservation() -> None:
    """List, follow, explain and cancel boots."""


@reservation.command("list")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=1000, show_default=True, help="Maximum number of boots."
)
@click.option("--marker", metavar="ID", help="Start after the boot of this id.")
@click.option("--all-tenants", is_flag=True, help="List the boots of all projects (admin).")
@list_options
@pass_session
def list_(session: Session, limit: int, marker: str | None, all_tenants: bool) -> None:
    """List boots, newest first, with the number of instances by status."""
    params: dict[str, str | int] = {"limit": limit}
    if marker is not None:
        params["marker"] = find_reservation_id(session, marker)
    if all_tenants:
        params["all_tenants"] = "true"
    answer = session.call("GET", "/reservations", params=params)
    rows = [
        {**found, "instances": found["num_instances"], "project": found["project_id"]}
        for found in answer["reservations"]
    ]
    print_list(session, answer, COLUMNS, rows)
    if (behind := next_marker(answer, "reservations")) and not session.as_json:
        click.echo(f"more: --marker {behind}", err=True)


@reservation.command()
@click.argument("id")
@click.option(
    "--watch",
    "watching",
    is_flag=True,
    help="Follow the boot until it has ended; exit with 1 if fewer than its min_count are ACTIVE.",
)
@click.option("--instances", is_flag=True, help="List its instances too.")
@caller_option
@item_options
@pass_session
def show(session: Session, id: str, watching: bool, instances: bool, caller: str | None) -> None:
    """Show one boot: its state, its counts, the steps that it waits for, and the reasons of ERROR."""
    id = find_reservation_id(session, id)
    if watching:
        watch(session, id, caller=caller)
        return
    answer = session.call("GET", f"/reservations/{id}", params=_of(caller))
    found = answer["reservation"]
    brief = {key: value for key, value in found.items() if key not in SHOWN_APART}
    print_item(session, answer, brief)
    if session.is_plain_table:
        _print_more(session, found, instances)


def _print_more(session: Session, found: Mapping[str, Any], with_instances: bool) -> None:
    print_waiting(session.screen, found["waiting_for"])
    if found["reasons"]:
        click.echo()
        print_reasons(session.screen, found["reasons"])
    if with_instances:
        click.echo()
        columns = (Column("uuid"), Column("status", is_status=True))
        print_table(session.screen, columns, [(i["uuid"], i["status"]) for i in found["instances"]])


@reservation.command()
@click.argument("id")
@click.option(
    "--host", help="Name of a host of this zone: show the present result of each filter and weigher for it."
)
@caller_option
@zone_options
@pass_session
def why(session: Session, id: str, host: str | None, caller: str | None) -> None:
    """Explain the placement of a boot, and why other places were refused, zone by zone.

    Everybody sees the number of instances by status, the steps that pending ones wait for, and the reasons of
    ERROR; an admin also the number of instances by zone, the funnel of the local hosts, the scores of the
    best of them, and the outcome of each child zone.
    """
    id = find_reservation_id(session, id)
    if host:
        answer = session.call("GET", f"/reservations/{id}/why", params={"host": host, **_of(caller)})
        print_json(answer) if session.as_json else print_host(session.screen, answer["host"])
        return
    found = _read(session, id, caller)
    explained = {key: found[key] for key in ("waiting_for", "reasons", "why") if key in found}
    if session.as_json:
        print_json(explained)
        return
    click.echo(f"{found['state']}: {cell(found['counts'])} of {found['num_instances']}")
    _print_zones(session, id)
    print_waiting(session.screen, found["waiting_for"])
    print_reasons(session.screen, found["reasons"])
    if "why" in found:
        print_why(session.screen, found["why"])


def _print_zones(session: Session, id: str) -> None:
    """Count a boot's instances by zone, if the user may see the zones."""
    params: dict[str, str | int] = {"reservation_id": id}
    counts: Counter[str] = Counter()
    for server in pages(session, "/servers/detail", "servers", params):
        counts[HERE if server.get("OS-EXT-SRV-ATTR:host") else server.get("child_zone", "")] += 1
    rows = [(zone, count) for zone, count in sorted(counts.items()) if zone]
    if rows:
        click.echo()
        print_table(session.screen, (Column("zone"), Column("instances")), rows)


@reservation.command()
@click.argument("ids", nargs=-1, required=True)
@zone_options
@pass_session
def cancel(session: Session, ids: tuple[str, ...]) -> None:
    """Cancel boots: delete their instances that are not built yet.

    Instances that are ACTIVE or ERROR stay: `zonesched server delete --reservation ID` deletes all of a boot.
    Where some cannot be cancelled, it cancels the others, names those that are left, and exits with 1.
    """
    done: list[dict[str, Any]] = []

    def cancel_one(id: str) -> None:
        pending = ids_of_boot(session, id, *PENDING)
        refused = count_refused(pending, lambda uuid: delete_one(session, uuid))
        done.append({"id": id, "cancelled": len(pending) - refused, "refused": refused})
        if not session.as_json:
            click.echo(f"{id}: {len(pending) - refused} instances cancelled")

    is_refused = count_refused(ids, cancel_one) or any(one["refused"] for one in done)
    if session.as_json:
        print_json({"reservations": done})
    if is_refused:
        sys.exit(1)


def watch(session: Session, id: str, pause_s: float = 0.5, caller: str | None = None) -> None:
    """Show a boot live until it has ended. Exits with 1 if fewer instances than its min_count are ACTIVE."""
    try:
        found = _follow(session, id, pause_s, caller)
    except (KeyboardInterrupt, ZoneCallError):
        # Who does not know the id would boot once more.
        followed = f"zonesched reservation show {id} --watch follows it"
        click.echo(f"zonesched: the boot {id} goes on: {followed}", err=True)
        raise
    if session.as_json:
        print_json({"reservation": found})
    elif not sys.stdout.isatty():
        click.echo()
    if not _is_met(found):
        sys.exit(1)


def _follow(session: Session, id: str, pause_s: float, caller: str | None) -> Mapping[str, Any]:
    found = poll(session, _read, session, id, caller)
    with Live(_progress(found), console=live_console(), transient=session.as_json) as live:
        while found["state"] == UNFINISHED:
            session.pause(pause_s)
            found = poll(session, _read, session, id, caller)
            live.update(_progress(found))
    return found


def _is_met(found: Mapping[str, Any]) -> bool:
    """Tell whether all instances, or at least the requested min_count, were built."""
    if found["state"] in ("ACTIVE", "DELETED"):
        return True
    built = sum(count for status, count in found["counts"].items() if status not in UNBUILT)
    return bool(built >= max(1, found["min_count"]))


def _read(session: Session, id: str, caller: str | None) -> Mapping[str, Any]:
    answer = session.call("GET", f"/reservations/{id}", params=_of(caller))
    found: Mapping[str, Any] = answer["reservation"]
    return found


def _of(caller: str | None) -> Mapping[str, str | int]:
    """Return the query that names the sender of a boot."""
    return {"caller": caller} if caller else {}


def _progress(found: Mapping[str, Any]) -> Group:
    counts, total = found["counts"], found["num_instances"]
    ended = total - sum(counts.get(status, 0) for status in PENDING)
    line = Text(f"{found['id'][:8]}  {found['state']}  {cell(counts)}", no_wrap=True, overflow="ellipsis")
    bar = ProgressBar(total=max(1, total), completed=ended, width=60)
    waiting = Text(waiting_line(found["waiting_for"]), no_wrap=True, overflow="ellipsis")
    reasons = Text("\n".join(reason_lines(found["reasons"])))
    # The bar ends no line, so nothing may stand behind it.
    return Group(line, *(text for text in (waiting, reasons) if text), bar)
