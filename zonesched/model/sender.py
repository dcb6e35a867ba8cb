"""Senders of requests; each sender has one share of a zone's threads and memory."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from zonesched.model.caller import Caller, Role

MACHINES = frozenset({Role.PARENT, Role.COMPUTE})


class Kind(enum.Enum):
    """The share of threads and memory that a sender has."""

    STRANGER = enum.auto()
    PERSON = enum.auto()
    MACHINE = enum.auto()
    """A machine of the tree: a parent zone or a compute agent."""


@dataclass(frozen=True)
class Sender:
    """An address, a network of IPv6, or one user of the zone, that has one share."""

    kind: Kind
    name: str


def sender_of(caller: Caller) -> Sender:
    """Return the sender of an authenticated user."""
    return Sender(Kind.MACHINE if caller.role in MACHINES else Kind.PERSON, caller.user_id)
