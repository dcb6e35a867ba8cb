"""Outcomes that a transaction writes; the store's observer gets them once they are durable."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.engine import Connection

OPTION = "zonesched_outcomes"
"""Execution option of a write transaction: the list of its outcomes."""


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


Outcome = BootAccepted | InstancesAccepted | BecameActive | BecameError | ActionsEnded


def note(tx: Connection, outcome: Outcome) -> None:
    """Add an outcome of this transaction."""
    noted(tx).append(outcome)


def noted(tx: Connection) -> list[Outcome]:
    """Return the outcomes of this transaction so far; a transaction that only reads keeps none."""
    found: list[Outcome] = tx.get_execution_options().get(OPTION, [])
    return found
