"""`zonesched zone drain`: move this zone's instances out of a child zone."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from zonesched.cli.host_drain import COLUMNS, Left, Progress, disable, end
from zonesched.cli.lookup import find
from zonesched.cli.output import check_list_options, print_list
from zonesched.cli.polling import poll
from zonesched.cli.server_actions import PAUSE_S, TASK
from zonesched.cli.session import Session, list_options, pass_session
from zonesched.compute.connection import ZoneCallError, ZoneRefused

DRAINS = ("drain", "drain stopped")
"""Names of the actions with which a server leaves; then it is placed anew by an `evacuate`."""


@click.command()
@click.argument("name_or_id")
@click.option(
    "--parallel",
    type=click.IntRange(1, 100),
    default=4,
    show_default=True,
    help="How many instances may be on their way at a time.",
)
@click.option("--watch", is_flag=True, help="Go on until nothing more can leave.")
@list_options
@pass_session
def drain(session: Session, name_or_id: str, parallel: int, watch: bool) -> None:
    """Disable a child zone and place its instances anew elsewhere; list those that stay.

    Their disks and memory are lost: they are built anew from their images. The exit code is 0 only if nothing
    stays. Ctrl-C lets no further instance leave; the same command goes on later.
    """
    check_list_options(session, COLUMNS)
    child = find(session, "/zones/detail", "zones", name_or_id)
    work = Drain(session, str(child["id"]), str(child["name"]), parallel)
    if child["state"] != "disabled":
        change = {"zone": {"state": "disabled"}}
        disable(session, f"/zones/{work.child_id}", change, _how_to_go_on(work.name, "may be disabled"))
    progress = Progress(sys.stderr)
    try:
        has_ended = work.look(progress)
        while watch and not has_ended:
            session.pause(PAUSE_S)
            has_ended = poll(session, work.look, progress)
    except (KeyboardInterrupt, ZoneCallError) as stop:
        progress.end()
        end(stop, _how_to_go_on(work.name, "stays disabled"))
    progress.end()
    rows = [vars(left) for left in work.staying]
    if rows or not session.is_plain_table:
        print_list(session, rows, COLUMNS, rows)
    if rows:
        sys.exit(1)
    if session.is_plain_table:
        left = "is empty" if work.is_empty else f"has {work.left} instances left: --watch goes on"
        click.echo(f"{work.name} {left}")


def _how_to_go_on(name: str, state: str) -> str:
    return (
        f"those that are leaving go on. {name} {state}: zonesched zone drain {name} --watch goes on,"
        f" zonesched zone set {name} --state enabled ends it"
    )


@dataclass
class Drain:
    """State of a drain as one run of the command knows it.

    `asked`: the instances that it, or an earlier run, has let leave and that have no new place yet; `left`:
    how many the child has. `is_refused_below`: a zone below lets one not leave, and so no other one.
    """

    session: Session
    child_id: str
    name: str
    parallel: int
    asked: set[str] = field(default_factory=set)
    placed: int = 0
    left: int = 0
    is_refused_below: bool = False
    failed: list[Left] = field(default_factory=list)
    refused: list[Left] = field(default_factory=list)

    @property
    def staying(self) -> list[Left]:
        """Instances that cannot leave, and instances that left and have no place since."""
        return [*{one.id: one for one in [*self.refused, *self.failed]}.values()]

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is left in the child, or on its way."""
        return not self.left and not self.asked

    def look(self, progress: Progress) -> bool:
        """Let as many leave as may; tell whether nothing more will change."""
        for id in sorted(self.asked):
            self._follow(id)
        count = 0 if self.is_refused_below else self.parallel
        # Each that found no place is tried once in a run.
        path = f"/zones/{self.child_id}/action"
        body = {"drain": {"count": count, "retry": not self.failed}}
        found: Mapping[str, Any] = self.session.call("POST", path, body)["drain"]
        self.asked |= set(found["asked"]) | set(found["on_their_way"])
        self.refused = [Left(**one) for one in found["staying"]]
        unlisted = {one.id for one in self.failed} - {one.id for one in self.refused}
        self.left = found["leaving"] + found["waiting"] + found["staying_count"]
        progress.show(
            f"{self.name}: {self.placed} instances placed elsewhere, {len(self.asked)} on their way,"
            f" {found['waiting']} wait, {found['staying_count'] + len(unlisted)} stay{self._last_error()}"
        )
        may_leave = found["waiting"] > found["held_up"] and not self.is_refused_below
        goes_on = found["leaving"] or self.asked or may_leave
        return not goes_on

    def _last_error(self) -> str:
        """Return the reason why nothing may leave for now: "" where the child answers."""
        error = self.session.call("GET", f"/zones/{self.child_id}")["zone"]["last_error"]
        return f" (last error of the child: {error})" if error else ""

    def _follow(self, id: str) -> None:
        """See whether an instance that has left runs again, or stays after all."""
        try:
            server = self.session.call("GET", f"/servers/{id}")["server"]
        except ZoneRefused as error:
            if error.status != 404:
                raise
            self.asked.discard(id)
            return
        if server[TASK] or server["status"] in ("BUILD", "UNKNOWN"):
            return
        actions = self.session.call("GET", f"/servers/{id}/os-instance-actions")["instanceActions"]
        # Its owner may have asked for more since.
        newest = next(one for one in actions if one["action"] in ("evacuate", *DRAINS))
        if newest["result"] == "error":
            self.failed.append(Left(id, server["name"], newest["error_code"], newest["message"]))
            self.is_refused_below |= newest["action"] in DRAINS
        elif newest["action"] == "evacuate" and newest["result"]:
            self.placed += 1
        else:
            return
        self.asked.discard(id)
