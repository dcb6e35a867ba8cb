"""Polls of commands that wait: a zone that is away for a while ends no wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from zonesched.cli.session import Session
from zonesched.cli.table import cell
from zonesched.compute.connection import ZoneCallError, ZoneRefused

T = TypeVar("T")

OUTAGE_S = 300.0
"""Pauses after which a zone that gives no answer, or fails, ends the wait."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0


def poll(session: Session, look: Callable[..., T], *arguments: object) -> T:
    """Return what a look at the zone finds; look again while it gives no answer, which is said once.

    Raises ZoneRefused at once where the zone refuses the call, and ZoneCallError after OUTAGE_S.
    """
    paused_s, pause_s = 0.0, FIRST_PAUSE_S
    while True:
        try:
            found = look(*arguments)
        except ZoneCallError as error:
            is_refused = isinstance(error, ZoneRefused) and not error.may_pass
            if is_refused or paused_s >= OUTAGE_S:
                raise
            if not paused_s:
                click.echo(cell(f"zonesched: waiting for the zone: {error}"), err=True)
            session.pause(pause_s)
            paused_s += pause_s
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        else:
            if paused_s:
                click.echo("zonesched: the zone is back", err=True)
            return found
