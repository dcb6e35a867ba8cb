"""RabbitMQ, by kombu: one connection publishes and one listens; each is opened again after a failure.

Every wait is bounded: connecting, each write, each answer. Queues are bounded too, and expire without a
listener. The broker keeps messages in memory only. With amqps, the broker's certificate has to be valid for
the host of the URL.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import kombu

from zonesched.broker.contract import BrokerUnavailable, Event, Kind, Message, Subscription

IO_TIMEOUT_S = 3.0
"""Time limit of a connection, of each write and of each answer."""

MESSAGE_TTL_S = 60.0
MAX_MESSAGES = 1000
UNUSED_QUEUE_S = 3600.0

DECLARED_EACH = 60
"""Receives, of a second each where nothing comes, between two declarations of what a listener listens to."""


class AmqpBroker:
    """One process at the broker of its zone; it connects when it is first used."""

    is_there = True

    def __init__(self, url: str, zone_name: str, subscriptions: Sequence[Subscription]) -> None:
        self._url = url
        self._topic = kombu.Exchange(zone_name, "topic", durable=True)
        self._fan_out = kombu.Exchange(f"{zone_name}.scheduler_fanout", "fanout", durable=True)
        self._queues = [self._queue(one) for one in subscriptions]
        self._publishing: kombu.Producer | None = None
        self._unconfirmed = _Unconfirmed()
        self._is_blocked = False
        self._listening: kombu.Consumer | None = None
        self._received: list[Kind] = []
        self._receives = 0

    def publish(self, messages: Sequence[Message]) -> None:
        try:
            producer = self._publishing = self._publishing or self._connect_publishing()
            # Read what the broker has sent since, such as a close.
            self._drain(producer.connection, 0)
            for one in messages:
                # Each publish reads first what the broker has sent, such as that it blocks publishers.
                self._check_not_blocked()
                self._unconfirmed.add_next()
                is_event = isinstance(one, Event)
                producer.publish(
                    one.body if isinstance(one, Event) else one.kind.value,
                    exchange=self._topic if isinstance(one, Event) or not one.to_all else self._fan_out,
                    routing_key=one.key,
                    content_type="application/json" if is_event else "text/plain",
                    content_encoding="utf-8",
                    delivery_mode=1,
                )
            # A message that was only written may be in a connection whose broker is dead.
            while self._unconfirmed:
                self._check_not_blocked()
                producer.connection.drain_events(timeout=IO_TIMEOUT_S)
        except _Blocked as error:
            # The connection stays: a broker that reads nothing does not see it end, and would collect them.
            raise BrokerUnavailable(str(error)) from error
        except Exception as error:
            # A broker that talks nonsense is as good as unavailable.
            _close(self._publishing)
            self._publishing = None
            raise BrokerUnavailable(_text(error)) from error

    def receive(self, timeout_s: float) -> Sequence[Kind]:
        try:
            if self._listening is None:
                self._received = [Kind.MISSED]
                self._listening = self._connect_listening()
            else:
                self._drain(self._listening.connection, timeout_s)
                self._receives += 1
                if self._receives % DECLARED_EACH == 0:
                    # A deleted exchange tells no listener, and a connection may be cut without a word.
                    self._listening.declare()
        except Exception as error:
            _close(self._listening)
            self._listening = None
            raise BrokerUnavailable(_text(error)) from error
        received, self._received = self._received, []
        return received

    def close(self) -> None:
        _close(self._publishing)
        _close(self._listening)
        self._publishing = self._listening = None

    def _check_not_blocked(self) -> None:
        if self._is_blocked:
            raise _Blocked("the broker takes no messages, for want of memory or disk")

    def _set_blocked(self, reason: str = "") -> None:
        self._is_blocked = bool(reason)

    def _connect_publishing(self) -> kombu.Producer:
        self._is_blocked = False
        connection = self._connect(on_blocked=self._set_blocked, on_unblocked=self._set_blocked)
        try:
            channel = connection.default_channel
            for exchange in (self._topic, self._fan_out):
                exchange.bind(channel).declare()
            self._unconfirmed = _Unconfirmed()
            channel.confirm_select()
            channel.events["basic_ack"].add(self._unconfirmed.confirm)
            channel.events["basic_nack"].add(self._unconfirmed.refuse)
            return kombu.Producer(channel, auto_declare=False)
        except BaseException:
            connection.collect()
            raise

    def _connect_listening(self) -> kombu.Consumer:
        connection = self._connect()
        try:
            consumer = kombu.Consumer(
                connection,
                self._queues,
                no_ack=True,
                on_message=self._receive,
                # Such as a message that claims to be compressed.
                on_decode_error=lambda message, error: None,
            )
            consumer.consume()
        except BaseException:
            connection.collect()
            raise
        return consumer

    def _connect(self, **options: Any) -> kombu.Connection:
        parts = urlsplit(self._url)
        # Without a name to check, any certificate of a known authority would do.
        verified = {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": parts.hostname}
        connection = kombu.Connection(
            self._url,
            connect_timeout=IO_TIMEOUT_S,
            ssl=verified if parts.scheme == "amqps" else False,
            transport_options={"read_timeout": IO_TIMEOUT_S, "write_timeout": IO_TIMEOUT_S, **options},
        )
        connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, interval_max=0)
        return connection

    def _queue(self, subscription: Subscription) -> kombu.Queue:
        exchange = self._fan_out if subscription.to_all else self._topic
        if not subscription.makes_exchange:
            exchange = kombu.Exchange(exchange.name, exchange.type, passive=True)
        return kombu.Queue(
            subscription.queue,
            exchange,
            routing_key=subscription.key,
            durable=True,
            expires=UNUSED_QUEUE_S,
            message_ttl=MESSAGE_TTL_S,
            max_length=MAX_MESSAGES,
        )

    def _receive(self, message: Any) -> None:
        # Any other message is ignored.
        body = message.body
        with suppress(ValueError):
            self._received.append(Kind(body if isinstance(body, str) else bytes(body).decode()))

    @staticmethod
    def _drain(connection: kombu.Connection, timeout_s: float) -> None:
        """Receive messages that arrive within `timeout_s`, then those that are already there.

        Messages that arrive faster than they are read are left for the next time.
        """
        with suppress(TimeoutError):
            for _ in range(MAX_MESSAGES):
                connection.drain_events(timeout=timeout_s)
                timeout_s = 0


class _Blocked(Exception):
    """The broker takes no messages now."""


class _Unconfirmed:
    """The numbers of the messages of one channel that the broker has not confirmed yet."""

    def __init__(self) -> None:
        self._last = 0
        self._waiting: dict[int, None] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add_next(self) -> None:
        """Wait for the next message of the channel, which numbers them from 1 on."""
        self._last += 1
        self._waiting[self._last] = None

    def confirm(self, number: int, multiple: bool) -> None:
        """The broker has taken this message; `multiple`: and all before it."""
        self._waiting.pop(number, None)
        while multiple and self._waiting and (first := next(iter(self._waiting))) < number:
            del self._waiting[first]

    def refuse(self, number: int, multiple: bool) -> None:
        """The broker could not take a message."""
        raise BrokerUnavailable("the broker refused a message")


def _close(at_work: kombu.Producer | kombu.Consumer | None) -> None:
    # Without a word to the broker, which may not listen.
    if at_work is not None:
        with suppress(Exception):
            at_work.connection.collect()


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
