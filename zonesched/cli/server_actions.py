"""`zonesched server start` and its kin: actions on instances, and the list of those that were taken."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from zonesched.cli.lookup import find_deleted_server_id, find_reservation_id, find_server_id, pages
from zonesched.cli.output import check_list_options, live_console, print_json, print_list
from zonesched.cli.polling import poll
from zonesched.cli.server_targets import print_refusal
from zonesched.cli.session import Session, list_options, pass_session, zone_options
from zonesched.cli.table import CONTROLS, Column
from zonesched.compute.connection import ZoneRefused

Body = Mapping[str, Any]
PAUSE_S = 0.5
TASK = "OS-EXT-STS:task_state"
ACTION_COLUMNS = (
    Column("action"),
    Column("result", is_status=True),
    Column("error_code", rank=1),
    Column("start_time", rank=2),
    Column("finish_time", rank=3),
    Column("request_id", rank=4),
    Column("user_id", rank=5),
    Column("project_id", rank=6),
)
TAKEN_COLUMNS = (Column("id", is_id=True), Column("result", is_status=True), Column("error_code"))


@click.command("actions")
@click.argument("name_or_id")
@list_options
@pass_session
def list_actions(session: Session, name_or_id: str) -> None:
    """List the actions on an instance, newest first, and how each ended."""
    answer = session.call("GET", f"/servers/{find_server_id(session, name_or_id)}/os-instance-actions")
    print_list(session, answer, ACTION_COLUMNS, answer["instanceActions"])


@click.command()
@click.argument("name_or_id")
@click.option(
    "--lines", type=click.IntRange(min=0), help="Number of lines, from the end; all of them by default."
)
@zone_options
@pass_session
def console(session: Session, name_or_id: str, lines: int | None) -> None:
    """Print the newest console output of an instance, 32 KiB at most; --json leaves control characters in."""
    body = {"os-getConsoleOutput": {"length": lines}}
    answer = session.call("POST", f"/servers/{find_server_id(session, name_or_id)}/action", body)
    if session.as_json:
        print_json(answer)
    else:
        # An instance writes what it likes, also what would drive the terminal.
        output = CONTROLS.sub("\N{REPLACEMENT CHARACTER}", answer["output"])
        click.echo(output, nl=output != "" and not output.endswith("\n"))


def _targets(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the instances that it is about, and --wait."""
    for option in (
        pass_session,
        list_options,
        click.option(
            "--wait", is_flag=True, help="Wait until the actions have ended; exit with 1 if one failed."
        ),
        click.option("--reservation", metavar="ID", help="All instances of one boot."),
        click.argument("names_or_ids", nargs=-1),
    ):
        command = option(command)
    return command


def _power_command(name: str, body: Body, help_: str) -> click.Command:
    def act(session: Session, names_or_ids: tuple[str, ...], reservation: str | None, wait: bool) -> None:
        _act(session, body, names_or_ids, reservation, wait)

    return click.command(name, help=help_)(_targets(act))


@click.command()
@click.option("--hard", is_flag=True, help="Cut the power, in place of asking the system to reboot.")
@_targets
def reboot(
    session: Session, hard: bool, names_or_ids: tuple[str, ...], reservation: str | None, wait: bool
) -> None:
    """Reboot instances."""
    body = {"reboot": {"type": "HARD" if hard else "SOFT"}}
    _act(session, body, names_or_ids, reservation, wait)


@click.command()
@click.option("--reason", default="", help="Text that others see.")
@_targets
def lock(
    session: Session, reason: str, names_or_ids: tuple[str, ...], reservation: str | None, wait: bool
) -> None:
    """Lock instances: only admins can then act on them or delete them."""
    body = {"lock": {"locked_reason": reason} if reason else None}
    _act(session, body, names_or_ids, reservation, wait)


@click.command()
@click.option("--image", required=True, metavar="NAME", help="Name or id of the image.")
@click.option("--name", metavar="NAME", help="New name of the instance.")
@_targets
def rebuild(
    session: Session,
    image: str,
    name: str | None,
    names_or_ids: tuple[str, ...],
    reservation: str | None,
    wait: bool,
) -> None:
    """Rebuild instances from an image, on the hosts that have them; what is on their disks is lost."""
    body = {"rebuild": {"imageRef": image} | ({"name": name} if name else {})}
    _act(session, body, names_or_ids, reservation, wait)


@click.command()
@click.argument("name_or_id")
@click.argument("flavor")
@click.option(
    "--watch", "--wait", "wait", is_flag=True, help="Wait until it is resized; exit with 1 if that fails."
)
@list_options
@pass_session
def resize(session: Session, name_or_id: str, flavor: str, wait: bool) -> None:
    """Give an instance another FLAVOR; its old place is kept until you confirm or revert the resize."""
    _act(session, {"resize": {"flavorRef": flavor}}, (name_or_id,), None, wait)


@click.command()
@click.option("--host", default="", metavar="NAME", help="The host to move to; by default the best one.")
@_targets
def migrate(
    session: Session, host: str, names_or_ids: tuple[str, ...], reservation: str | None, wait: bool
) -> None:
    """Move instances to other hosts of the zone that has them; for its admin."""
    _act(session, {"migrate": {"host": host} if host else None}, names_or_ids, reservation, wait)


@click.command()
@click.option("--fenced", is_flag=True, help="Say that nothing can run on their hosts any more.")
@_targets
def evacuate(
    session: Session, fenced: bool, names_or_ids: tuple[str, ...], reservation: str | None, wait: bool
) -> None:
    """Place instances anew whose hosts are down; for the admin of the zone that has them."""
    _act(session, {"evacuate": {"fenced": fenced}}, names_or_ids, reservation, wait)


@click.command()
@click.argument("names_or_ids", nargs=-1, required=True)
@click.option("--wait", is_flag=True, help="Wait until they run; exit with 1 if one does not.")
@list_options
@pass_session
def restore(session: Session, names_or_ids: tuple[str, ...], wait: bool) -> None:
    """Restore deleted instances, where their zone keeps them for some time, and start them."""
    check_list_options(session, TAKEN_COLUMNS)
    names = list(dict.fromkeys(names_or_ids))
    ids, is_refused = _act_on_named(session, {"restore": None}, names, find_deleted_server_id)
    _end(session, ids, None, wait, is_refused=is_refused)


COMMANDS = (
    _power_command("start", {"os-start": None}, "Start instances that are SHUTOFF."),
    _power_command("stop", {"os-stop": None}, "Stop instances; they keep their hosts."),
    _power_command("pause", {"pause": None}, "Pause instances; they keep their memory."),
    _power_command("unpause", {"unpause": None}, "Let paused instances run again."),
    _power_command("suspend", {"suspend": None}, "Suspend instances."),
    _power_command("resume", {"resume": None}, "Resume suspended instances."),
    _power_command(
        "shelve",
        {"shelve": None},
        "Shelve instances: they leave their hosts, lose their disks there, and take no resources.",
    ),
    _power_command(
        "unshelve",
        {"unshelve": None},
        "Place shelved instances again, in any zone, and build them anew from their images.",
    ),
    reboot,
    rebuild,
    resize,
    _power_command(
        "confirm-resize",
        {"confirmResize": None},
        "Confirm resizes: the instances keep their new flavors, and their old places are given up.",
    ),
    _power_command(
        "revert-resize",
        {"revertResize": None},
        "Revert resizes: the instances go back to their old flavors, and to what their disks were then.",
    ),
    migrate,
    evacuate,
    restore,
    lock,
    _power_command("unlock", {"unlock": None}, "Remove the lock of instances."),
    list_actions,
    console,
)


def _act(session: Session, body: Body, names: tuple[str, ...], reservation: str | None, wait: bool) -> None:
    """Act on instances; print those that refuse, and exit with 1 if one does, or fails while waited for."""
    if bool(names) == bool(reservation):
        raise click.UsageError("name either instances or, with --reservation, one boot")
    check_list_options(session, TAKEN_COLUMNS)
    if reservation:
        ids, is_refused = _act_on_boot(session, body, find_reservation_id(session, reservation))
    else:
        ids, is_refused = _act_on_named(session, body, list(dict.fromkeys(names)))
    _end(session, ids, reservation, wait, is_refused=is_refused)


def _end(
    session: Session, ids: Sequence[str], reservation: str | None, wait: bool, *, is_refused: bool
) -> None:
    """Print what became of those that took an action; exit with 1 if one refused it, or it failed."""
    if wait:
        _wait(session, ids, reservation)
        rows = [poll(session, _result, session, id) for id in ids]
    else:
        rows = [{"id": id, "result": "accepted", "error_code": ""} for id in ids]
    if rows:
        print_list(session, rows, TAKEN_COLUMNS, rows)
    if is_refused or any(row["result"] == "error" for row in rows):
        sys.exit(1)


def _act_on_named(
    session: Session,
    body: Body,
    names: Sequence[str],
    find_id: Callable[[Session, str], str] = find_server_id,
) -> tuple[list[str], bool]:
    """Return the ids of those that took the action, and whether any refused it."""
    ids: list[str] = []
    for name in names:
        try:
            id = find_id(session, name)
            session.call("POST", f"/servers/{id}/action", body)
        except ZoneRefused as error:
            if len(names) == 1:
                raise
            print_refusal(name, error.message, error.code or str(error.status))
        else:
            ids.append(id)
    return ids, len(ids) < len(names)


def _act_on_boot(session: Session, body: Body, reservation_id: str) -> tuple[list[str], bool]:
    """Do the same for all instances of a boot."""
    members = list(pages(session, "/servers", "servers", {"reservation_id": reservation_id}))
    answer = session.call("POST", f"/reservations/{reservation_id}/action", body)
    refused = {line["uuid"] for line in answer["refused"]}
    for line in answer["refused"]:
        print_refusal(line["uuid"], line["message"], line["error_code"])
    return [server["id"] for server in members if server["id"] not in refused], bool(refused)


def _wait(session: Session, ids: Sequence[str], reservation: str | None) -> None:
    """Show the progress of actions live until each instance has none under way."""
    busy = poll(session, _busy, session, ids, reservation)
    with Live(_progress(busy, len(ids)), console=live_console(), transient=True) as live:
        while busy:
            session.pause(PAUSE_S)
            busy = poll(session, _busy, session, busy, reservation)
            live.update(_progress(busy, len(ids)))


def _busy(session: Session, ids: Sequence[str], reservation: str | None) -> list[str]:
    """Return those of these instances that have an action under way."""
    if reservation:
        params = {"reservation_id": find_reservation_id(session, reservation)}
        shown = {one["id"]: one for one in pages(session, "/servers/detail", "servers", params)}
    else:
        shown = {id: found for id in ids if (found := _shown(session, id))}
    return [id for id in ids if id in shown and _is_busy(session, shown[id])]


def _is_busy(session: Session, shown: Mapping[str, Any]) -> bool:
    if shown["status"] == "VERIFY_RESIZE":
        # A confirmation under way has no task.
        return _result(session, shown["id"])["result"] is None
    return bool(shown[TASK])


def _shown(session: Session, id: str) -> Mapping[str, Any]:
    """Show an instance; {} for one that was deleted meanwhile."""
    try:
        found: Mapping[str, Any] = session.call("GET", f"/servers/{id}")["server"]
    except ZoneRefused as error:
        if error.status != 404:
            raise
        return {}
    return found


def _progress(busy: Sequence[str], total: int) -> Group:
    ended = total - len(busy)
    bar = ProgressBar(total=max(1, total), completed=ended, width=60)
    return Group(Text(f"{ended} of {total} actions have ended"), bar)


def _result(session: Session, id: str) -> dict[str, Any]:
    """Return how the newest action on an instance has ended."""
    newest = session.call("GET", f"/servers/{id}/os-instance-actions")["instanceActions"][0]
    return {"id": id, "result": newest["result"], "error_code": newest["error_code"]}
