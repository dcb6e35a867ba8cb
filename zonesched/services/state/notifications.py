"""Notifications between the processes and agents of one zone: work is there now.

Rows say what there is to do; a hint only says that there is something. So telling waits for nothing: it goes
into a bounded box that one loop empties. What finds no room there, or no broker, is counted and dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zonesched.broker.contract import BOOTS, HOSTS, Broker, BrokerUnavailable, Kind, Notification, key_of
from zonesched.broker.outbox import Outbox
from zonesched.seams import Loop
from zonesched.store import services
from zonesched.store.store import Store, Transaction

log = logging.getLogger(__name__)

IDLE_PAUSE_S = 5.0
AWAY_PAUSES_S = (1.0, 2.0, 5.0)
"""Pauses while the broker is away; the last one repeats."""


@dataclass(frozen=True)
class WorkOn:
    """Something changed in what is to run on a host: its agent should look."""

    host_id: str


Told = Notification | WorkOn


@dataclass
class Counts:
    """What became of hints since this process started; `dropped` found the broker away."""

    sent: int = 0
    dropped: int = 0
    heard: int = 0


class Notifications:
    """What this process tells the others. Nothing is told where there is no broker."""

    def __init__(self, broker: Broker, store: Store) -> None:
        self.broker = broker
        self.counts = Counts()
        self.loops: list[Loop] = []
        self._store = store
        self._outbox: Outbox[Told] = Outbox()
        self._failures = 0

    @property
    def dropped(self) -> int:
        """Notifications that were dropped: too many at once, or the broker was away."""
        return self.counts.dropped + self._outbox.dropped

    def boots(self) -> None:
        """There is a boot to carry on, for whichever process hears of it first."""
        self._tell([BOOTS])

    def hosts(self) -> None:
        """What hosts are has changed: every process should read them again."""
        self._tell([HOSTS])

    def work_on(self, host_ids: Iterable[str]) -> None:
        """What is to run on these hosts has changed."""
        self._tell(WorkOn(host_id) for host_id in host_ids)

    def _tell(self, told: Iterable[Told]) -> None:
        if self.broker.is_there:
            self._outbox.put(told)
            for loop in self.loops:
                loop.wake()

    def send(self) -> float:
        """Send what is to be told; the pause until the next look."""
        told = self._outbox.take()
        try:
            hints = self._addressed(told)
            if hints:
                self.broker.publish(hints)
        except BrokerUnavailable as error:
            self.counts.dropped += len(told)
            if not self._failures:
                log.warning("the message broker is away, everybody looks by itself: %s", error)
            self._failures += 1
            return AWAY_PAUSES_S[min(self._failures, len(AWAY_PAUSES_S)) - 1]
        self.counts.sent += len(hints)
        if hints and self._failures:
            log.warning("the message broker is back")
            self._failures = 0
        return IDLE_PAUSE_S

    def _addressed(self, told: Sequence[Told]) -> list[Notification]:
        """What is for an agent is sent once, however many of its hosts it is about."""
        host_ids = [one.host_id for one in told if isinstance(one, WorkOn)]
        found = self._store.read(lambda tx: _agents_of(tx, host_ids)) if host_ids else []
        agents = [Notification(Kind.WORK, key_of(topic, name)) for topic, name in found]
        return [one for one in told if isinstance(one, Notification)] + agents


def _agents_of(tx: Transaction, host_ids: Sequence[str]) -> list[tuple[str, str]]:
    return sorted(services.addresses(tx, host_ids))
