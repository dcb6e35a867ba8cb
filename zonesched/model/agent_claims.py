"""Claims on an agent's hosts, as the zone reports them to the agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ClaimedInstance:
    """Amounts that an instance which should run takes of its host, by resource class.

    `host` is the host's name.
    """

    uuid: str
    attempt: int
    host: str
    resources: Mapping[str, int]


@dataclass(frozen=True)
class BookedClass:
    """One resource class of a host (by name): what claims take, and how much of it is of no instance that
    should run. `excess`: how much more its agent last said that it counts."""

    host: str
    resource_class: str
    used: int
    held: int
    excess: int


@dataclass(frozen=True)
class AgentClaims:
    """The claims on the hosts of one agent, in one snapshot."""

    instances: Sequence[ClaimedInstance]
    booked: Sequence[BookedClass]
