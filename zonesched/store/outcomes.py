"""Outcomes that a transaction writes; the store's observer gets them once they are durable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy.engine import Connection

_KEY = "zonesched_outcomes"
"""Key of a connection's own data: the list of the outcomes of its write transaction."""


@dataclass(frozen=True)
class BootAccepted:
    """A boot was accepted, of a parent or of the zone's own users."""

    is_of_parent: bool


@dataclass(frozen=True)
class InstancesAccepted:
    """Instances were accepted, for a new boot or a parent's earlier one."""

    num_instances: int


@dataclass(frozen=True)
class BecameActive:
    """Instances became ACTIVE so many seconds after they were accepted; `at`: when, in epoch seconds."""

    ages_s: tuple[float, ...]
    uuids: tuple[str, ...]
    at: float


@dataclass(frozen=True)
class BecameError:
    """Instances became ERROR for a reason, which may be an agent's or a child's own code.

    They are among `uuids`.
    """

    reason: str
    num_instances: int
    uuids: tuple[str, ...]
    at: float


@dataclass(frozen=True)
class ActionsEnded:
    """Actions of instances ended `at` that time; of some of `uuids` perhaps none did."""

    uuids: tuple[str, ...]
    at: float


@dataclass(frozen=True)
class Numbered:
    """A change got its number, on PostgreSQL: its transaction's id, and a place in the server's log.

    `written`: its commit is behind that place, in bytes from the log's beginning.
    """

    number: int
    transaction: int
    written: int


Outcome = BootAccepted | InstancesAccepted | BecameActive | BecameError | ActionsEnded | Numbered


def note(tx: Connection, outcome: Outcome) -> None:
    """Add an outcome of this transaction."""
    noted(tx).append(outcome)


def noted(tx: Connection) -> list[Outcome]:
    """Return the outcomes of this transaction so far; a transaction that only reads keeps none."""
    found: list[Outcome] = tx.info.get(_KEY, [])
    return found


@contextmanager
def kept(tx: Connection) -> Iterator[list[Outcome]]:
    """Keep the outcomes of the block, which is one write transaction."""
    # Not to be asked for again: the connection may be lost by then.
    info = tx.info
    done: list[Outcome] = []
    info[_KEY] = done
    try:
        yield done
    finally:
        info.pop(_KEY, None)
