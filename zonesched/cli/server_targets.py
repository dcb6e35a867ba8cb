"""The subjects of a command: named items, or the instances of a boot, each acted on by itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import click

from zonesched.cli.lookup import find_reservation_id
from zonesched.cli.session import Session
from zonesched.cli.table import cell
from zonesched.compute.connection import ZoneRefused
from zonesched.model.shown_status import Status

SERVER_STATUSES = tuple(status.value for status in Status)


def ids_of_boot(session: Session, reservation: str, *statuses: str) -> list[str]:
    """The ids of a boot's instances that are not deleted, or only those in one of `statuses`.

    Raises ZoneRefused with status 404 for an unknown boot.
    """
    id = find_reservation_id(session, reservation)
    instances = session.call("GET", f"/reservations/{id}")["reservation"]["instances"]
    wanted = statuses or tuple(status for status in SERVER_STATUSES if status != "DELETED")
    return [found["uuid"] for found in instances if found["status"] in wanted]


def each(names: Iterable[str], act: Callable[[str], None]) -> None:
    """Act on every name; print those that are refused, and then exit with 1."""
    if count_refused(names, act):
        sys.exit(1)


def count_refused(names: Iterable[str], act: Callable[[str], None]) -> int:
    """Act on every name; print and count those that are refused. Raises ZoneRefused for a single one."""
    names = list(dict.fromkeys(names))
    refused = 0
    for name in names:
        try:
            act(name)
        except ZoneRefused as error:
            if len(names) == 1:
                raise
            refused += 1
            print_refusal(name, error.message, error.code or str(error.status))
    return refused


def print_refusal(name: str, message: str, code: str) -> None:
    """Print on standard error why one of several is refused."""
    click.echo(cell(f"zonesched: {name}: {message} ({code})"), err=True)
