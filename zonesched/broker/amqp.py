"""RabbitMQ, by kombu: two connections, one that publishes and one that listens, each made anew when it broke.

Every wait is bounded: connecting, each write, each answer. Queues are bounded too, and end when nobody has
listened for a while. Messages are kept in the broker's memory only.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import kombu

from zonesched.broker.contract import BrokerUnavailable, Kind, Listens, Notification

IO_TIMEOUT_S = 3.0
"""Of a connection, of each write and of each answer."""

MESSAGE_TTL_S = 60.0
MOST_MESSAGES = 1000
UNUSED_QUEUE_S = 3600.0


class AmqpBroker:
    """One process at the broker of its zone; it connects when it is first used."""

    is_there = True

    def __init__(self, url: str, zone_name: str, listens: Sequence[Listens]) -> None:
        self._url = url
        self._topic = kombu.Exchange(zone_name, "topic", durable=True)
        self._fan_out = kombu.Exchange(f"{zone_name}.scheduler_fanout", "fanout", durable=True)
        self._queues = [self._queue(one) for one in listens]
        self._publishing: kombu.Producer | None = None
        self._listening: kombu.Consumer | None = None
        self._heard: list[Kind] = []

    def publish(self, hints: Sequence[Notification]) -> None:
        try:
            producer = self._publishing = self._publishing or self._connect_publishing()
            # What the broker said meanwhile, such as that it closes: before something is sent into the void.
            self._drain(producer.connection, 0)
            for hint in hints:
                producer.publish(
                    hint.kind.value,
                    exchange=self._fan_out if hint.to_all else self._topic,
                    routing_key=hint.key,
                    content_type="text/plain",
                    delivery_mode=1,
                )
        except Exception as error:
            # A broker that talks nonsense is as good as away.
            _close(self._publishing)
            self._publishing = None
            raise BrokerUnavailable(_text(error)) from error

    def receive(self, timeout_s: float) -> Sequence[Kind]:
        try:
            if self._listening is None:
                self._heard = [Kind.MISSED]
                self._listening = self._connect_listening()
            else:
                self._drain(self._listening.connection, timeout_s)
        except Exception as error:
            _close(self._listening)
            self._listening = None
            raise BrokerUnavailable(_text(error)) from error
        heard, self._heard = self._heard, []
        return heard

    def close(self) -> None:
        _close(self._publishing)
        _close(self._listening)
        self._publishing = self._listening = None

    def _connect_publishing(self) -> kombu.Producer:
        connection = self._connect()
        try:
            for exchange in (self._topic, self._fan_out):
                exchange.bind(connection.default_channel).declare()
            return kombu.Producer(connection, auto_declare=False)
        except BaseException:
            connection.collect()
            raise

    def _connect_listening(self) -> kombu.Consumer:
        connection = self._connect()
        try:
            consumer = kombu.Consumer(connection, self._queues, no_ack=True, on_message=self._hear)
            consumer.consume()
        except BaseException:
            connection.collect()
            raise
        return consumer

    def _connect(self) -> kombu.Connection:
        connection = kombu.Connection(
            self._url,
            connect_timeout=IO_TIMEOUT_S,
            ssl={"cert_reqs": ssl.CERT_REQUIRED} if self._url.startswith("amqps:") else False,
            transport_options={"read_timeout": IO_TIMEOUT_S, "write_timeout": IO_TIMEOUT_S},
        )
        connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, interval_max=0)
        return connection

    def _queue(self, listens: Listens) -> kombu.Queue:
        return kombu.Queue(
            listens.queue,
            self._fan_out if listens.to_all else self._topic,
            routing_key=listens.key,
            durable=True,
            expires=UNUSED_QUEUE_S,
            message_ttl=MESSAGE_TTL_S,
            max_length=MOST_MESSAGES,
        )

    def _hear(self, message: Any) -> None:
        # Whatever else somebody may send there is no hint.
        body = message.body
        with suppress(ValueError):
            self._heard.append(Kind(body if isinstance(body, str) else bytes(body).decode()))

    @staticmethod
    def _drain(connection: kombu.Connection, timeout_s: float) -> None:
        """Take what comes within the time, and then all that is there already."""
        with suppress(TimeoutError):
            while True:
                connection.drain_events(timeout=timeout_s)
                timeout_s = 0


def _close(at_work: kombu.Producer | kombu.Consumer | None) -> None:
    # Without a word to the broker, which may not listen.
    if at_work is not None:
        with suppress(Exception):
            at_work.connection.collect()


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
