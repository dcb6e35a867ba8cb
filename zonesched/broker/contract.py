"""The contract of a message broker: a zone and its agents notify each other that there is work.

A notification carries no work. Its receiver polls the zone's rows, which it also does at intervals; so a
notification that is lost, duplicated or late costs time only. A broker belongs to one zone: zones
talk to each other over HTTP alone.

    exchange                        key                 queue                          receiver
    ZONE (topic)                    scheduler           ZONE.scheduler                 one process of the zone
    ZONE (topic)                    scheduler.PROCESS   ZONE.scheduler.PROCESS         this process
    ZONE (topic)                    compute.AGENT       ZONE.compute.AGENT             this agent
    ZONE.scheduler_fanout (fanout)  scheduler           ZONE.scheduler_fanout.PROCESS  every process
    ZONE (topic)                    notifications.info  -                              other programs
    ZONE (topic)                    notifications.error -                              other programs
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

SCHEDULER, COMPUTE = "scheduler", "compute"
LONGEST_NAME = 60
"""Characters of a name in a key or a queue's name, which AMQP limits to 255 bytes; longer ones are hashed."""


class Kind(enum.Enum):
    """Rows to poll. MISSED is never sent: a new connection may have missed any notification."""

    BOOTS = "boots"
    HOSTS = "hosts"
    WORK = "work"
    MISSED = "missed"


@dataclass(frozen=True)
class Notification:
    """One message: `to_all` goes to each process of the zone, else to one that listens to `key`."""

    kind: Kind
    key: str
    to_all: bool = False


@dataclass(frozen=True)
class Subscription:
    """A queue, and the key of its notifications: those to all processes if `to_all`, else the others.

    `makes_exchange`: an agent does not, so that its user at the broker may not delete it either.
    """

    queue: str
    key: str
    to_all: bool = False
    makes_exchange: bool = True


@dataclass(frozen=True)
class Event:
    """Event of a server, as JSON, for other programs, which bind queues of their own to `key`."""

    key: str
    body: str


Message = Notification | Event
BOOTS = Notification(Kind.BOOTS, SCHEDULER)
HOSTS = Notification(Kind.HOSTS, SCHEDULER, to_all=True)


class BrokerUnavailable(Exception):
    """The broker cannot be used now; the message never holds credentials."""


class Broker(Protocol):
    """A connection to a broker. `publish` and `receive` may be called from one thread each."""

    is_there: bool

    def publish(self, messages: Sequence[Message]) -> None:
        """Send the messages, and wait until the broker has confirmed them all.

        Each wait takes a few seconds at most. Raises BrokerUnavailable; some may have been sent then.
        """

    def receive(self, timeout_s: float) -> Sequence[Kind]:
        """Return the kinds received within `timeout_s`, MISSED first on a new connection.

        Raises BrokerUnavailable.
        """

    def close(self) -> None:
        """Close the connections."""


class NoBroker:
    """The broker of a zone without one: its processes and agents poll the rows now and then."""

    is_there = False

    def publish(self, messages: Sequence[Message]) -> None:
        """There is nobody to notify."""

    def receive(self, timeout_s: float) -> Sequence[Kind]:
        return ()

    def close(self) -> None:
        """There is nothing to close."""


def key_of(topic: str, name: str) -> str:
    """Return the routing key of one service; a queue bound to it takes no other one's messages."""
    quoted = quote(name, safe="")
    if len(quoted) > LONGEST_NAME:
        quoted = hashlib.sha256(name.encode()).hexdigest()
    # A dot would part two words of the key.
    return f"{topic}.{quoted.replace('.', '%2E')}"
