"""`zonesched host drain`: move all instances of a host to other hosts of its zone."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TextIO

import click

from zonesched.cli.lookup import find_host, pages
from zonesched.cli.output import check_list_options, print_list
from zonesched.cli.polling import poll
from zonesched.cli.server_actions import PAUSE_S, TASK
from zonesched.cli.session import Session, list_options, pass_session
from zonesched.cli.table import Column
from zonesched.compute.connection import ZoneCallError, ZoneRefused
from zonesched.model.task_state import MOVING

UNSETTLED = ("BUILD", "UNKNOWN")
"""Statuses of instances that are being built: they can move a little later."""

UNCONFIRMED = "resize_not_confirmed"
REFUSALS = (400, 403, 409)
COLUMNS = (Column("id", is_id=True), Column("name"), Column("error_code"), Column("message", rank=1))


@click.command()
@click.argument("name_or_id")
@click.option(
    "--parallel",
    type=click.IntRange(1, 100),
    default=4,
    show_default=True,
    help="How many instances may move at a time.",
)
@click.option("--reason", default="", help="Reason that admins are shown for the disabled host.")
@list_options
@pass_session
def drain(session: Session, name_or_id: str, parallel: int, reason: str) -> None:
    """Disable a host and move its instances to other hosts; list those that cannot move.

    The exit code is 0 only if the host is empty then. Ctrl-C asks for no further moves; the same command goes
    on later.
    """
    check_list_options(session, COLUMNS)
    host = find_host(session, name_or_id)
    id, name = str(host["id"]), str(host["hypervisor_hostname"])
    if reason or host["status"] != "disabled":
        change = {"status": "disabled"} | ({"disabled_reason": reason} if reason else {})
        disable(session, f"/os-services/{id}", change, _how_to_go_on(name, "may be disabled"))
    progress = Progress(sys.stderr)
    try:
        drained = _drain(session, Drain(session, id, name, parallel), progress)
    except (KeyboardInterrupt, ZoneCallError) as stop:
        progress.end()
        end(stop, _how_to_go_on(name, "stays disabled"))
    progress.end()
    _print(session, drained)
    if not drained.is_empty:
        sys.exit(1)


def disable(session: Session, path: str, change: Mapping[str, Any], how_to_go_on: str) -> None:
    """Make the call that disables what is drained; without its answer that may be done, or not."""
    try:
        session.call("PUT", path, change)
    except ZoneRefused:
        raise
    except (KeyboardInterrupt, ZoneCallError) as stop:
        end(stop, how_to_go_on)


def end(stop: KeyboardInterrupt | ZoneCallError, how_to_go_on: str) -> NoReturn:
    """End a drain that was stopped. Raises the error that has stopped it."""
    click.echo(f"zonesched: stopped: {how_to_go_on}", err=True)
    if isinstance(stop, ZoneCallError):
        raise stop
    sys.exit(130)


@dataclass(frozen=True)
class Left:
    """An instance that cannot leave the host, with a stable code and its message."""

    id: str
    name: str
    error_code: str
    message: str


@dataclass(frozen=True)
class Seen:
    """A host after one look at it. `moving`: the instances that move, and what they still claim here."""

    name: str
    total: int
    gone: int
    moving: int
    left: Sequence[Left]
    claims: int
    is_up: bool
    has_ended: bool

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is claimed on the host any more."""
        return self.claims == 0

    @property
    def line(self) -> str:
        """The progress in words."""
        stay = f", {len(self.left)} cannot move" if self.left else ""
        return f"{self.name}: {self.gone} of {self.total} instances are gone, {self.moving} moving{stay}"


@dataclass
class Drain:
    """State of a drain as one run of the command knows it; only the zone knows what moves, and where to.

    `asked`: the instances that this run has asked to move. `moving`: those that move and are still on the
    host; one that was built elsewhere already claims its old place until the agent has ended it there, or as
    long as its resize waits for its owner.
    """

    session: Session
    host_id: str
    host_name: str
    parallel: int
    asked: set[str] = field(default_factory=set)
    moving: set[str] = field(default_factory=set)
    left: dict[str, Left] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    before: int | None = None

    def resume(self) -> None:
        """Find the instances that move already, which count among those that may move at a time."""
        params = {"all_tenants": "true", "host": self.host_name, "task_state": MOVING}
        # A list has deleted ones, which may be restored, for their status alone.
        for asked in (params, {**params, "status": "SOFT_DELETED"}):
            self.moving |= {one["id"] for one in pages(self.session, "/servers/detail", "servers", asked)}

    def look(self) -> Seen:
        """Look at the host once, and ask as many of its instances to move as may."""
        host = self._host()
        names = {one["uuid"]: one["name"] for one in host["servers"]}
        kept = self._kept()
        parting = max(0, host["running_vms"] - len(names) - len(kept))
        self.moving &= names.keys()
        self.left = {id: left for id, left in self.left.items() if id in names} | kept
        is_up = host["state"] == "up"
        for id, name in names.items():
            if not is_up:
                self.left[id] = Left(id, name, "host_is_down", "The host is down: no instance can leave it.")
            elif id in self.moving or (id not in self.left and len(self.moving) + parting < self.parallel):
                self._move(id, name)
        self.known |= names.keys() | kept.keys()
        self.before = parting if self.before is None else self.before
        total = len(self.known) + self.before
        return Seen(
            name=self.host_name,
            total=total,
            gone=max(0, total - len(names.keys() | kept.keys()) - parting),
            moving=len(self.moving) + parting,
            left=tuple(self.left.values()),
            claims=host["running_vms"],
            is_up=is_up,
            has_ended=not is_up or (not parting and names.keys() <= self.left.keys()),
        )

    def _host(self) -> Mapping[str, Any]:
        path, params = f"/os-hypervisors/{self.host_id}", {"with_servers": "true"}
        found: Mapping[str, Any] = self.session.call("GET", path, params=params)["hypervisor"]
        return found

    def _kept(self) -> dict[str, Left]:
        """Find the instances whose old place is kept here until their resize is confirmed or reverted."""
        params = {"source_compute": self.host_name, "status": "finished"}
        ids = {one["instance_uuid"] for one in pages(self.session, "/os-migrations", "migrations", params)}
        kept = {id: left for id, left in self.left.items() if id in ids and left.error_code == UNCONFIRMED}
        # Each is read for its name alone, and only once.
        for id in sorted(ids - kept.keys()):
            if server := self._server(id):
                kept[id] = Left(
                    id, server["name"], UNCONFIRMED, "Its resize waits to be confirmed or reverted."
                )
        return kept

    def _move(self, id: str, name: str) -> None:
        """Ask an instance to move, unless it moves, cannot, or has something else under way."""
        server = self._server(id)
        if not server or server["OS-EXT-SRV-ATTR:host"] != self.host_name:
            return
        if server[TASK] == MOVING:
            self.moving.add(id)
            return
        self.moving.discard(id)
        if server[TASK] or server["status"] in UNSETTLED:
            return
        failure = self._failure(id, name) if id in self.asked else None
        if failure is None:
            self._ask(id, name)
        else:
            self.left[id] = failure

    def _server(self, id: str) -> Mapping[str, Any]:
        """Show an instance; {} for one that was deleted meanwhile."""
        try:
            found: Mapping[str, Any] = self.session.call("GET", f"/servers/{id}")["server"]
        except ZoneRefused as error:
            if error.status != 404:
                raise
            return {}
        return found

    def _failure(self, id: str, name: str) -> Left | None:
        """Return why the newest move of an instance has failed; None if it has not."""
        actions = self.session.call("GET", f"/servers/{id}/os-instance-actions")["instanceActions"]
        newest = next(one for one in actions if one["action"] == "migrate")
        if newest["result"] != "error":
            return None
        return Left(id, name, newest["error_code"], newest["message"])

    def _ask(self, id: str, name: str) -> None:
        try:
            self.session.call("POST", f"/servers/{id}/action", {"migrate": None})
        except ZoneRefused as error:
            if error.status not in (*REFUSALS, 404):
                raise
            if error.status in REFUSALS and error.code != "action_under_way":
                self.left[id] = Left(id, name, error.code, error.message)
            return
        self.asked.add(id)
        self.moving.add(id)


class Progress:
    """One line that is rewritten on a terminal; elsewhere a line for each change."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = ""

    def show(self, line: str) -> None:
        """Show a line in place of the one before."""
        if line == self._shown:
            return
        if self._stream.isatty():
            self._stream.write(f"\r{line.ljust(len(self._shown))}")
        else:
            self._stream.write(f"{line}\n")
        self._stream.flush()
        self._shown = line

    def end(self) -> None:
        """Leave the line as it is, and go to the next one."""
        if self._shown and self._stream.isatty():
            self._stream.write("\n")


def _drain(session: Session, work: Drain, progress: Progress) -> Seen:
    work.resume()
    while True:
        seen = poll(session, work.look)
        progress.show(seen.line)
        if seen.has_ended:
            return seen
        session.pause(PAUSE_S)


def _print(session: Session, drained: Seen) -> None:
    rows = [vars(left) for left in drained.left]
    if rows or not session.is_plain_table:
        print_list(session, rows, COLUMNS, rows)
    if drained.is_empty and session.is_plain_table:
        click.echo(f"{drained.name} is empty")
    if not drained.is_up:
        click.echo(
            f"zonesched: {drained.name} is down, and {drained.claims} instances have claims on it:"
            f" zonesched host evacuate {drained.name} places them anew (host_is_down)",
            err=True,
        )


def _how_to_go_on(name: str, state: str) -> str:
    return (
        f"no further instance is asked to move, those that move already go on. {name} {state}:"
        f" zonesched host drain {name} goes on, zonesched service enable {name} ends it"
    )
