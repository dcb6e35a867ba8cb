"""Notifications between the processes and agents of one zone that there is work, and events for others.

Rows hold the work; a notification only reports that there is some. Notifying never waits: notifications go
into a bounded outbox that one loop empties. A notification that does not fit, or finds no broker, is counted
and dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from zonesched.broker.contract import (
    BOOTS,
    HOSTS,
    Broker,
    BrokerUnavailable,
    Kind,
    Message,
    Notification,
    key_of,
)
from zonesched.broker.outbox import Outbox
from zonesched.outage_lines import OutageLines
from zonesched.seams import Loop
from zonesched.services.state.instance_events import InstanceNote, Publisher, events_of
from zonesched.store import claims, services
from zonesched.store.store import Store, StoreError, Transaction

log = logging.getLogger(__name__)

EVENTS_AT_ONCE = 500
IDLE_PAUSE_S = 5.0
UNAVAILABLE_PAUSES_S = (1.0, 2.0, 5.0)
"""Pauses while the broker is unavailable; the last one repeats."""


@dataclass(frozen=True)
class HostWork:
    """Notification for the agent of a host; the agent is looked up when it is sent."""

    host_id: str


Waiting = Notification | HostWork


@dataclass
class Counts:
    """Counts of notifications since this process started; `dropped`: the broker was unavailable."""

    sent: int = 0
    dropped: int = 0
    heard: int = 0


class Notifications:
    """Sends the notifications of this process; sends none where the zone has no broker."""

    def __init__(self, broker: Broker, store: Store, publisher: Publisher) -> None:
        self.broker = broker
        self.counts = Counts()
        self.loops: list[Loop] = []
        self._store = store
        self._publisher = publisher
        self._outbox: Outbox[Waiting] = Outbox()
        # Of their own: many events take no wake-up's room.
        self._notes: Outbox[InstanceNote] = Outbox()
        self._failures = 0
        self._lines = OutageLines(log, "the message broker", "processes and agents poll")

    @property
    def dropped(self) -> int:
        """Count the dropped notifications: the outbox was full, or the broker was unavailable."""
        return self.counts.dropped + self._outbox.dropped + self._notes.dropped

    @property
    def waiting(self) -> int:
        """Count the notifications that wait for the broker."""
        return len(self._outbox) + len(self._notes)

    def boots(self) -> None:
        """Notify one process of the zone that a boot may be due."""
        self._enqueue([BOOTS])

    def hosts(self) -> None:
        """Notify every process of the zone that hosts have changed."""
        self._enqueue([HOSTS])

    def agents(self, host_ids: Iterable[str]) -> None:
        """Notify the agents of these hosts that there is work."""
        self._enqueue(HostWork(host_id) for host_id in host_ids)

    def instances(self, notes: Sequence[InstanceNote]) -> None:
        """Tell other programs what has happened to instances."""
        if self.broker.is_there:
            self._notes.put(notes)
            for loop in self.loops:
                loop.wake()

    def _enqueue(self, waiting: Iterable[Waiting]) -> None:
        if self.broker.is_there:
            self._outbox.put(waiting)
            for loop in self.loops:
                loop.wake()

    def send(self) -> float:
        """Send all notifications in the outbox; return the pause until the next time."""
        waiting, notes = self._outbox.take(), self._notes.take()
        left, sent = len(waiting) + len(notes), 0
        try:
            sent += self._publish(self._addressed(waiting))
            left -= len(waiting)
            for some in claims.chunks(notes, EVENTS_AT_ONCE):
                sent += self._publish(self._store.read(partial(self._events, some)))
                left -= len(some)
        except BrokerUnavailable as error:
            self.counts.dropped += left
            self._lines.away(error)
            self._failures += 1
            return UNAVAILABLE_PAUSES_S[min(self._failures, len(UNAVAILABLE_PAUSES_S)) - 1]
        except StoreError:
            # The database is away for a while: they are sent once it is back.
            self._outbox.put_back(waiting if left > len(notes) else ())
            self._notes.put_back(notes[-left:] if left else ())
            raise
        if sent:
            self._lines.back()
            self._failures = 0
        return IDLE_PAUSE_S

    def _publish(self, messages: Sequence[Message]) -> int:
        if messages:
            self.broker.publish(messages)
        self.counts.sent += len(messages)
        return len(messages)

    def _events(self, notes: Sequence[InstanceNote], tx: Transaction) -> Sequence[Message]:
        return events_of(tx, self._publisher, notes)

    def _addressed(self, waiting: Sequence[Waiting]) -> list[Notification]:
        """Replace host work by one notification per agent, however many of its hosts have work."""
        host_ids = [one.host_id for one in waiting if isinstance(one, HostWork)]
        found = self._store.read(lambda tx: _agents_of(tx, host_ids)) if host_ids else []
        agents = [Notification(Kind.WORK, key_of(topic, name)) for topic, name in found]
        return [one for one in waiting if isinstance(one, Notification)] + agents


def _agents_of(tx: Transaction, host_ids: Sequence[str]) -> list[tuple[str, str]]:
    return sorted(services.addresses(tx, host_ids))
