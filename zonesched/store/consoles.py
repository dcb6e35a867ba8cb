"""Console outputs that callers wait for: each is asked of the agent of one service, which answers once.

The caller that has asked deletes its row; rows of callers that died are deleted with the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from zonesched.model.console import ConsoleAnswer, ConsoleState
from zonesched.store import state_tables as t
from zonesched.store.prepared import Prepared

MAX_PER_POLL = 16
"""Consoles that an agent is asked for at once."""

COLUMNS = t.console_asks.c
_OPEN = Prepared(
    sa.select(COLUMNS.id, COLUMNS.uuid, COLUMNS.number)
    .where(COLUMNS.service_id == sa.bindparam("service"), COLUMNS.state == "")
    .order_by(COLUMNS.expires_at)
    .limit(MAX_PER_POLL)
)
_ANSWER_TO = Prepared(
    sa.select(COLUMNS.state, COLUMNS.output).where(COLUMNS.id == sa.bindparam("ask"), COLUMNS.state != "")
)


@dataclass(frozen=True)
class ConsoleAsk:
    """A console that somebody waits for: of the instance at the placement of this number."""

    id: str
    uuid: str
    number: int


def insert(tx: Connection, ask: ConsoleAsk, service_id: str, expires_at: float) -> None:
    """Ask the agent of a service for a console."""
    row = {**vars(ask), "service_id": service_id, "expires_at": expires_at, "state": "", "output": ""}
    tx.execute(sa.insert(t.console_asks).values(row))


def of_service(tx: Connection, service_id: str) -> Sequence[ConsoleAsk]:
    """Read what the agent of a service is asked for and has not answered, oldest first."""
    return [ConsoleAsk(*row) for row in _OPEN.all(tx, service=service_id)]


def answer(tx: Connection, service_id: str, ask_id: str, found: ConsoleAnswer) -> None:
    """Store the first answer of a service's agent; without effect where nobody waits for it."""
    tx.execute(
        sa.update(t.console_asks)
        .where(COLUMNS.id == ask_id, COLUMNS.service_id == service_id, COLUMNS.state == "")
        .values(state=found.state.value, output=found.output)
    )


def answer_to(tx: Connection, ask_id: str) -> ConsoleAnswer | None:
    """Read the answer; None until there is one."""
    row = _ANSWER_TO.first(tx, ask=ask_id)
    return None if row is None else ConsoleAnswer(ConsoleState(row.state), row.output)


def delete(tx: Connection, ask_id: str, now: float) -> None:
    """Delete one row, and those whose callers have gone without doing so."""
    tx.execute(sa.delete(t.console_asks).where(sa.or_(COLUMNS.id == ask_id, COLUMNS.expires_at < now)))
