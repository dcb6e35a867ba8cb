"""A broker in memory that keeps `zonesched.broker.contract.Broker`: queues by key, and outages."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from zonesched.broker.contract import BrokerUnavailable, Event, Kind, Message, Notification, Subscription


class Exchange:
    """Exchange of the brokers of one zone; while `is_away`, it is unreachable and loses its messages."""

    def __init__(self) -> None:
        self.is_away = False
        self.sent: list[Notification] = []
        self.events: list[Event] = []
        self.queues: dict[str, tuple[Subscription, deque[Kind]]] = {}


class FakeBroker:
    is_there = True

    def __init__(self, exchange: Exchange, subscriptions: Sequence[Subscription] = ()) -> None:
        self._exchange = exchange
        self._subscriptions = subscriptions
        self._is_connected = False

    def publish(self, messages: Sequence[Message]) -> None:
        self._reach()
        self._exchange.events += [one for one in messages if isinstance(one, Event)]
        for hint in messages:
            if isinstance(hint, Event):
                continue
            self._exchange.sent.append(hint)
            for subscription, heard in self._exchange.queues.values():
                if (subscription.key, subscription.to_all) == (hint.key, hint.to_all):
                    heard.append(hint.kind)

    def receive(self, timeout_s: float) -> Sequence[Kind]:
        self._reach()
        queues = self._exchange.queues
        heard: list[Kind] = []
        if not self._is_connected:
            for one in self._subscriptions:
                queues.setdefault(one.queue, (one, deque()))
            heard.append(Kind.MISSED)
            self._is_connected = True
        for one in self._subscriptions:
            kinds = queues[one.queue][1]
            heard += kinds
            kinds.clear()
        return heard

    def close(self) -> None:
        self._is_connected = False

    def _reach(self) -> None:
        if self._exchange.is_away:
            self._is_connected = False
            self._exchange.queues.clear()
            raise BrokerUnavailable("gone")
